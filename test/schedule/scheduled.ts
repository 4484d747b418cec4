/** Schedules of kernels by their text. */
import { parseKernel } from '../../src/kernel/parse.ts'
import { printLoopSchedule } from '../../src/schedule/loop/print.ts'
import { factsOf, type ScheduledPart, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

/** The schedule of the one part of a kernel, and what it was made from. */
export const scheduled = (text: string, machine = wasmTarget): [ScheduledPart, ReturnType<typeof factsOf>] => {
  const kernel = parseKernel(text)
  const facts = factsOf(kernel, machine, (i, j) => i === j)
  const [part] = scheduleKernel(kernel, facts)
  if (part === undefined) throw new Error('no part')
  return [part, facts]
}

/** The schedule printed. */
export const linesOf = (text: string, machine = wasmTarget): string =>
  printLoopSchedule('k', [scheduled(text, machine)[0]]).join('\n')
