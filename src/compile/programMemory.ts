/** The memory of an assembled program: what is written over what, offsets in the arena, and the buffers that steps name in the end. */
import { invariant } from '../diagnostics/errors.ts'
import { assignBuffers, type BufferAssignment, type BufferNeed } from '../plan/memory/assignment.ts'
import { type Interval, type Placement, placeBuffers } from '../plan/memory/placement.ts'
import type { FusionPlan } from '../plan/plan.ts'
import type { ProgramBuffer, ProgramStep } from '../runtime/program.ts'
import type { Machine } from '../target/machine.ts'
import type { Assembly } from './assembly.ts'
import { withoutCopies } from './copies.ts'
import { memoryStep, openIn, renameStep } from './steps.ts'

/** What of a program's memory is its user's. */
export interface Reuse {
  /** Inputs that may be overwritten, by number. */
  readonly donated: readonly boolean[]
  /** By output, the input whose memory it may be placed on by whoever runs the program (inner programs). */
  readonly over: readonly (number | undefined)[]
}

/** Buffers of a program's inputs and outputs, by number. */
interface Ends {
  readonly inputs: readonly number[]
  readonly outputs: readonly number[]
}

export interface ProgramMemory {
  readonly buffers: readonly ProgramBuffer[]
  readonly steps: readonly ProgramStep[]
  readonly inputs: readonly number[]
  readonly outputs: readonly number[]
  readonly arenaBytes: number
  /** Bytes of intermediates if each had a place of its own, and of inputs, results and constants. */
  readonly unsharedBytes: number
  readonly outerBytes: number
  readonly constantBytes: number
  /** Buffers that are written over others. */
  readonly inPlace: number
}

/** Places the buffers of an assembly as the plan says; what loops carry and copies over where they came from, where that may be. */
export function placeProgram(
  a: Assembly,
  { inputs, outputs }: Ends,
  plan: FusionPlan,
  reuse: Reuse,
  { alignment, apartBytes }: Pick<Machine, 'alignment' | 'apartBytes'>,
): ProgramMemory {
  const needs = needsOf(a, inputs, outputs, reuse)
  const planned = new Map([...plan.reuse].map(([write, read]) => [a.of(write), a.of(read)]))
  const counted = new Set([...planned].flat())
  const made = withoutCopies(a.steps, (from, to) => {
    const [x, y] = [needs[from], needs[to]]
    if (x?.kind !== 'intermediate' || y === undefined || y.kind === 'fixed' || x.bytes !== y.bytes) return false
    return planned.get(to) === from || !counted.has(from)
  })
  const decided = new Map<number, number>()
  for (const [write, read] of planned)
    if (made.home(write) !== made.home(read)) decided.set(made.home(write), made.home(read))
  const open = new Set(made.steps.flatMap(openIn))
  const assigned = assignBuffers(made.steps.map(memoryStep), needs, decided, (b) => open.has(b))
  for (const [write, read] of decided)
    invariant(assigned.donors.get(write) === read, 'the plan writes over what no step may write over')
  const intervals = intervalsOf(assigned, needs)
  const placement = placeBuffers(intervals, alignment, apartBytes)

  // A result over an input is that input's buffer. What steps still name gets new numbers.
  const renamed = new Map([...assigned.donors].filter(([b]) => needs[b]?.kind === 'result'))
  const kept = a.buffers.flatMap((_, b) => (made.moved.has(b) ? [] : [b]))
  const numberOf = new Map(kept.map((b, i) => [b, i]))
  const number = (b: number): number => numberOf.get(renamed.get(b) ?? b) ?? -1
  const buffers = kept.flatMap((b) => programBuffer(a, b, placement, assigned) ?? [])
  const isOuter = (b: ProgramBuffer, i: number): boolean => b.source.kind !== 'temp' && !renamed.has(kept[i] ?? -1)
  return {
    buffers,
    steps: renamed.size + made.moved.size === 0 ? made.steps : made.steps.map((s) => renameStep(s, number)),
    inputs: inputs.map(number),
    outputs: outputs.map(number),
    arenaBytes: placement.arenaBytes,
    unsharedBytes: intervals.reduce((n, i) => n + i.bytes, 0),
    outerBytes: sumOf(buffers.filter(isOuter)),
    constantBytes: sumOf(buffers.filter((b) => b.source.kind === 'constant')),
    inPlace: placement.inPlace + renamed.size,
  }
}

const sumOf = (buffers: readonly ProgramBuffer[]): number => buffers.reduce((n, b) => n + b.bytes, 0)

/** What each buffer of an assembly needs. */
function needsOf(
  { buffers }: Assembly,
  inputs: readonly number[],
  outputs: readonly number[],
  { donated, over }: Reuse,
): BufferNeed[] {
  const donors = new Set(inputs.filter((_, i) => donated[i] === true))
  const placeOf = new Map(outputs.map((b, i) => [b, i]))
  return buffers.map(({ bytes, source }, b): BufferNeed => {
    const under = inputs[over[placeOf.get(b) ?? -1] ?? -1]
    if (source.kind === 'unplaced') return { bytes, kind: 'intermediate', under }
    return { bytes, kind: source.kind === 'output' ? 'result' : donors.has(b) ? 'donated' : 'fixed', under }
  })
}

/** The intermediates that steps touch, and how long. */
const intervalsOf = ({ from, to, donors }: BufferAssignment, needs: readonly BufferNeed[]): Interval[] =>
  needs.flatMap(({ bytes, kind }, buffer): Interval[] => {
    const [first = -1, last = -1] = [from[buffer], to[buffer]]
    if (kind !== 'intermediate' || first < 0) return []
    const donor = donors.get(buffer)
    return [{ buffer, bytes, from: first, to: last, ...(donor === undefined ? {} : { donor }) }]
  })

/** A buffer where it stands. */
function programBuffer(
  a: Assembly,
  b: number,
  { offsets }: Placement,
  { placeable }: BufferAssignment,
): ProgramBuffer | undefined {
  const draft = a.buffers[b]
  if (draft === undefined) return undefined
  const { dtype, shape, format, bytes, source, varying } = draft
  const own = { dtype, shape, format, bytes, ...(varying === undefined ? {} : { varying }) }
  if (source.kind === 'unplaced') return { ...own, source: { kind: 'temp', offset: offsets.get(b) ?? 0 } }
  const over = placeable.get(b)
  return { ...own, source: over === undefined ? source : { kind: 'output', over } }
}
