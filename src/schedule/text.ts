/** The schedule of a kernel on a machine, as text: why it runs as it does. */
import type { Kernel } from '../kernel/ir.ts'
import type { Machine } from '../target/machine.ts'
import { printThreadSchedule } from './simt/print.ts'
import { scheduleThreads } from './simt/scheduleThreads.ts'
import type { ScheduleFacts } from './simt/threadSchedule.ts'

/** Lines for the kernel's schedule; none for machines whose schedules are not made as data. */
export function scheduleText(kernel: Kernel, { simt }: Machine, facts: ScheduleFacts = {}): readonly string[] {
  return simt === undefined ? [] : printThreadSchedule(scheduleThreads(kernel, simt, facts))
}
