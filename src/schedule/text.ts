/** The schedule of a kernel on a machine, as text: why it runs as it does. */
import type { Kernel } from '../kernel/ir.ts'
import type { Machine } from '../target/machine.ts'
import { printLoopPrice } from './loop/price/printPrice.ts'
import { loopSeconds } from './loop/price/seconds.ts'
import { printLoopSchedule } from './loop/print.ts'
import { factsOf, scheduleKernel } from './loop/scheduleKernel.ts'
import { printThreadSchedule } from './simt/print.ts'
import { scheduleThreads } from './simt/scheduleThreads.ts'
import type { ScheduleFacts } from './simt/threadSchedule.ts'

/** What is known of the launch: for GPUs by parameter, for cores by pairs of parameters (whether i and j may share memory). */
export interface LaunchKnowledge extends ScheduleFacts {
  readonly mayShare?: (i: number, j: number) => boolean
  /** For cores: bytes that the program around the kernel touches from one run to the next; the kernel's own unless given. */
  readonly held?: number
}

/** Lines for the kernel's schedule; on cores its predicted time is the last. */
export function scheduleText(kernel: Kernel, machine: Machine, launch: LaunchKnowledge = {}): readonly string[] {
  const { simt } = machine
  if (simt !== undefined) return printThreadSchedule(scheduleThreads(kernel, simt, launch))
  const facts = factsOf(kernel, machine, launch.mayShare ?? (() => false))
  const parts = scheduleKernel(kernel, facts)
  const lines = printLoopSchedule(kernel.name, parts)
  if (machine.loops === undefined) return lines
  return [...lines, `  ${printLoopPrice(loopSeconds(kernel, parts, machine, launch.held))}`]
}
