/** The schedules of a kernel that may be tried, in order. */
import type { Kernel } from '../../kernel/ir.ts'
import type { SimtMachine } from '../../target/simt.ts'
import { scheduleThreads } from './scheduleThreads.ts'
import type { Form, Scheduled, ScheduleFacts } from './threadSchedule.ts'

/** Each asks for fewer registers than those before, or has more: blocks alone, loops that load as they go, then smaller tiles. */
const forms: readonly Form[] = [
  {},
  { alone: true },
  { alone: true, loadsAhead: false },
  { alone: true, registers: 16 },
  { alone: true, registers: 8 },
]

/** A schedule, and the form it has. */
export interface Candidate extends Scheduled {
  readonly form: Form
}

/**
 * Schedules of a kernel, made as they are asked for: first the one that takes least where its registers do not spill. How many a thread
 * has to spill only the compiler of a device knows: where it says so, the next is taken. Products in a chain hold their tiles in registers whole,
 * so fewer registers are no form of theirs.
 */
export function* candidateSchedules(
  kernel: Kernel,
  machine: SimtMachine,
  facts: ScheduleFacts = {},
): Generator<Candidate, undefined> {
  let together: number | undefined
  let isChain = false
  for (const form of forms) {
    if (isChain && form.registers !== undefined) continue
    const scheduled = scheduleThreads(kernel, machine, facts, form)
    const isSame = form === forms[1] && scheduled.schedule.together === together
    together = scheduled.schedule.together
    isChain = scheduled.parts.some((p) => p.chain !== undefined)
    if (!isSame) yield { ...scheduled, form }
  }
}
