/** The launches of a program as loop schedules: what predicted times are read from on machines of loops. */
import type { Kernel } from '../kernel/ir.ts'
import type { Program } from '../runtime/program.ts'
import { bytesTouched, overlap } from '../runtime/shared.ts'
import { loopSeconds } from '../schedule/loop/price/seconds.ts'
import { factsOf, type ScheduledPart, scheduleKernel } from '../schedule/loop/scheduleKernel.ts'
import type { Machine } from '../target/machine.ts'

/** A kernel step of a program with its schedules. */
export interface ScheduledStep {
  /** The launch it belongs to: a main kernel and its finishing stages share one. */
  readonly launch: number
  readonly kernel: Kernel
  readonly parts: readonly ScheduledPart[]
  /** Bytes that the program around it touches from one run to the next. */
  readonly held: number
}

/** The kernels of a program, without those inside control flow, as emission schedules them. */
export function scheduledSteps(program: Program, machine: Machine): ScheduledStep[] {
  const held = bytesTouched(program)
  return program.steps.flatMap((s): ScheduledStep[] => {
    if (s.kind !== 'kernel') return []
    const mayAlias = (i: number, j: number): boolean => overlap(program, s.buffers[i] ?? -1, s.buffers[j] ?? -1)
    const parts = scheduleKernel(s.kernel, factsOf(s.kernel, machine, mayAlias))
    return [{ launch: s.launch, kernel: s.kernel, parts, held }]
  })
}

/** Seconds that a machine is predicted to take for a scheduled kernel. */
export const stepSeconds = ({ kernel, parts, held }: ScheduledStep, machine: Machine): number =>
  loopSeconds(kernel, parts, machine, held).seconds

/**
 * Predicted seconds of a program's launches, stages included, by the schedules that run. They are found when one is first asked for: scheduling and pricing all
 * kernels takes a quarter of what compiling them does, and most reports are never read.
 */
export class Predicted {
  private readonly program: Program
  private readonly machine: Machine
  private found: ReadonlyMap<number, number> | undefined

  constructor(program: Program, machine: Machine) {
    this.program = program
    this.machine = machine
  }

  /** Seconds of the launch of that number; undefined where no schedule predicts them: of calls and control flow, of open extents, on machines without loops. */
  of(launch: number): number | undefined {
    this.found ??= launchSeconds(this.program, this.machine)
    return this.found.get(launch)
  }
}

function launchSeconds(program: Program, machine: Machine): ReadonlyMap<number, number> {
  const found = new Map<number, number>()
  if (machine.loops === undefined || program.open !== undefined) return found
  for (const s of scheduledSteps(program, machine))
    found.set(s.launch, (found.get(s.launch) ?? 0) + stepSeconds(s, machine))
  return found
}
