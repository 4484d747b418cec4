/** Schedules made ahead of a kernel's code: taken once, where all that they follow from is the same then. */
import { expect, test } from 'vitest'
import type { Kernel } from '../../src/kernel/ir.ts'
import { printLoopSchedule } from '../../src/schedule/loop/print.ts'
import { factsOf, type ScheduledPart, scheduleAhead, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { storedFirst as kernel } from '../support/storedFirst.ts'

const apart = (): boolean => false
const over = (i: number, j: number): boolean => i + j === 1

const schedule = (k: Kernel, mayAlias: (i: number, j: number) => boolean, machine = wasmTarget) =>
  scheduleKernel(k, factsOf(k, machine, mayAlias))
const ahead = (): readonly ScheduledPart[] => scheduleAhead(kernel, factsOf(kernel, wasmTarget, apart))
const printed = (parts: readonly ScheduledPart[]): string[] => printLoopSchedule('k', parts)

test('a kernel under another name takes them, once', () => {
  const made = ahead()
  const renamed = { ...kernel, name: 'another' }
  expect(schedule(renamed, apart)).toBe(made)
  const again = schedule(renamed, apart)
  expect(again).not.toBe(made)
  expect(printed(again)).toEqual(printed(made))
})

test('parameters that may share memory, another machine, other parameters or another mode have schedules of their own', () => {
  const alone = printed(schedule({ ...kernel, parts: [...kernel.parts] }, over))
  const made = ahead()
  expect(printed(made)).not.toEqual(alone)
  expect(printed(schedule(kernel, over))).toEqual(alone)
  const machine = { ...wasmTarget }
  for (const [k, m] of [
    [kernel, machine],
    [{ ...kernel, params: [...kernel.params] }, wasmTarget],
    [{ ...kernel, mode: 'strict' }, wasmTarget],
  ] as const) {
    const first = ahead()
    expect(schedule(k, apart, m)).not.toBe(first)
  }
})
