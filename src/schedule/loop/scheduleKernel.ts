/** Schedules of a kernel's parts. */
import { invariant } from '../../diagnostics/errors.ts'
import { gridSize, type Kernel } from '../../kernel/ir.ts'
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

/** Schedules every part that has programs. */
export function scheduleKernel(kernel: Kernel, facts: KernelFacts): ScheduledPart[] {
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
