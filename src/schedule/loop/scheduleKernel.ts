/** Schedules of a kernel's parts. */
import { invariant } from '../../diagnostics/errors.ts'
import { gridSize, type Kernel } from '../../kernel/ir.ts'
import { differInName } from '../../kernel/unnamed.ts'
import type { Machine } from '../../target/machine.ts'
import { debug } from '../debug.ts'
import type { LoopSchedule } from './ir/schedule.ts'
import { scheduleLoops } from './scheduleLoops.ts'
import type { KernelFacts } from './tiles/places.ts'
import { verifyLoopSchedule } from './verify.ts'

/** A part with programs, and how many programs come before its own. */
export interface ScheduledPart {
  readonly schedule: LoopSchedule
  readonly offset: number
  readonly size: number
}

/** What scheduling knows of a kernel. `mayAlias`: whether parameters i and j may share memory. */
export function factsOf(kernel: Kernel, machine: Machine, mayAlias: (i: number, j: number) => boolean): KernelFacts {
  const order = new Map(kernel.params.map((p, i) => [p.name, i]))
  return {
    params: new Map(kernel.params.map((p) => [p.name, p])),
    scalars: new Map(kernel.scalars?.map((s) => [s.by, s])),
    machine,
    strict: kernel.mode === 'strict',
    mayAlias: (a, b) => {
      const [i, j] = [order.get(a), order.get(b)]
      return i !== undefined && j !== undefined && mayAlias(i, j)
    },
  }
}

/** Schedules that were made of a kernel before its code is, and what they follow from. */
interface Ahead {
  readonly kernel: Omit<Kernel, 'name'>
  readonly machine: Machine
  /** Whether parameters may share memory, as scheduling asked and was told. */
  readonly asked: readonly { readonly a: string; readonly b: string; readonly may: boolean }[]
  readonly parts: readonly ScheduledPart[]
}

const ahead = new WeakMap<Kernel['parts'], Ahead>()

/** Schedules a kernel that may be scheduled again, to make its code: it is not, where the answers are the same then. */
export function scheduleAhead(kernel: Kernel, facts: KernelFacts): readonly ScheduledPart[] {
  const asked: { a: string; b: string; may: boolean }[] = []
  const mayAlias = (a: string, b: string): boolean => {
    const may = facts.mayAlias(a, b)
    asked.push({ a, b, may })
    return may
  }
  const parts = scheduleKernel(kernel, { ...facts, mayAlias })
  ahead.set(kernel.parts, { kernel, machine: facts.machine, asked, parts })
  return parts
}

/** Schedules every part that has programs. What was made ahead is taken: it is kept no longer than until it is asked for. */
export function scheduleKernel(kernel: Kernel, facts: KernelFacts): readonly ScheduledPart[] {
  const made = ahead.get(kernel.parts)
  ahead.delete(kernel.parts)
  if (
    made?.machine === facts.machine &&
    differInName(made.kernel, kernel) &&
    made.asked.every(({ a, b, may }) => facts.mayAlias(a, b) === may)
  )
    return made.parts
  let programs = 0
  const parts = kernel.parts.flatMap((part): ScheduledPart[] => {
    const size = gridSize(part)
    programs += size
    return size === 0 ? [] : [{ schedule: scheduleLoops(part, facts), offset: programs - size, size }]
  })
  const errors = debug.verify ? verifyKernelSchedule(parts, facts) : []
  invariant(errors.length === 0, `schedule of ${kernel.name}: ${errors.join('; ')}`)
  return parts
}

/** What breaks a law of a kernel's schedules, a line each. */
export const verifyKernelSchedule = (parts: readonly ScheduledPart[], facts: KernelFacts): string[] =>
  parts.flatMap(({ schedule }, i) => verifyLoopSchedule(schedule, facts).map((e) => `part ${i}: ${e}`))
