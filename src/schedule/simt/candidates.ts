/** The schedules of a kernel that may be tried, in order. */
import type { Kernel } from '../../kernel/ir.ts'
import type { SimtMachine } from '../../target/simt.ts'
import { scheduleThreads } from './scheduleThreads.ts'
import type { Form, Scheduled, ScheduleFacts } from './threadSchedule.ts'

/** Each asks for fewer registers than those before, or has more: blocks alone, loops that load as they go, then smaller tiles. */
const forms: readonly Form[] = [
  { alone: true },
  { alone: true, loadsAhead: false },
  { alone: true, registers: 16 },
  { alone: true, registers: 8 },
]

/** The same of chains of products, whose tiles stand in registers whole: first they are waited for at once. */
const chainForms: readonly Form[] = [
  { waits: true },
  { alone: true, waits: true },
  { alone: true, waits: true, loadsAhead: false },
]

/** The same of products beside which indices are divided: what is found so is done with at once. */
const dividedForms: readonly Form[] = [{ divided: true }, ...forms.map((f) => ({ ...f, divided: true }))]

/** A schedule, and the form it has. */
export interface Candidate extends Scheduled {
  readonly form: Form
}

/**
 * Schedules of a kernel, made as they are asked for: first the one that takes least where its registers do not spill. How many a thread
 * has to spill only the compiler of a device knows: where it says so, the next is taken.
 */
export function* candidateSchedules(
  kernel: Kernel,
  machine: SimtMachine,
  facts: ScheduleFacts = {},
): Generator<Candidate, undefined> {
  const first = scheduleThreads(kernel, machine, facts, {})
  yield { ...first, form: {} }
  const isChain = first.parts.some((p) => p.chain !== undefined)
  const { together, cluster, programs } = first.schedule
  /** Whether rows would stand with fewer blocks where all of them run at once: going through rows again costs more than registers that spill. */
  const isNarrower = (shape: { readonly cluster: number }): boolean =>
    shape.cluster < cluster && programs * cluster <= (machine.multiprocessors ?? 1)
  const isDivided = first.parts.some((p) => p.dividedAxes().size > 0)
  for (const form of isChain ? chainForms : isDivided ? dividedForms : forms) {
    const scheduled = scheduleThreads(kernel, machine, facts, form)
    const isAlone = form.alone === true && form.loadsAhead === undefined && form.registers === undefined
    if (isNarrower(scheduled.schedule)) continue
    // Blocks that are alone anyway.
    if (!isAlone || scheduled.schedule.together !== together) yield { ...scheduled, form }
  }
}
