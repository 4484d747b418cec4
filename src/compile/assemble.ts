/** Assembly: planned groups become steps over a buffer table with a static memory plan. */
import { invariant } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import type { Launch } from '../lower/launch.ts'
import { lowerGroup } from '../lower/lowerGroup.ts'
import { packBits } from '../lower/packed.ts'
import { lowerScatter } from '../lower/scatter.ts'
import { lowerUnion } from '../lower/union.ts'
import { assignBuffers, type BufferNeed } from '../plan/memory/assignment.ts'
import { type Interval, placeBuffers } from '../plan/memory/placement.ts'
import { type FusionPlan, membersOf, type PlannedGroup } from '../plan/plan.ts'
import type { Program, ProgramBuffer } from '../runtime/program.ts'
import type { Machine } from '../target/machine.ts'
import { sizeOf } from '../types/shape.ts'
import { Assembly, type Draft } from './assembly.ts'
import { withoutCopies } from './copies.ts'
import type { Passes } from './planGraph.ts'
import { checkPositions } from './positions.ts'
import { addRegion, type CompileInner, type Inner } from './regions.ts'
import { memoryStep, renameStep } from './steps.ts'

export interface Assembled {
  readonly program: Program
  /** The programs inside each planned group that is a region. */
  readonly inners: readonly (readonly Inner<Kept>[] | undefined)[]
  /** The launch of each planned group (undefined for opaque, effects, and groups without elements). */
  readonly launches: readonly (Launch | undefined)[]
  readonly memory: {
    readonly arenaBytes: number
    readonly unsharedBytes: number
    readonly peakBytes: number
    readonly inPlace: number
    /** Bytes of constants, those of inner programs among them. */
    readonly constants: number
  }
}

const kernelName = (nodes: Iterable<Node>, index: number): string => {
  const called = [...nodes].map((n) => n.origin).sort((a, b) => a.id - b.id)
  const names = [...new Set(called.map((o) => o.name))].filter((n) => n !== 'unknown').slice(0, 3)
  return `k${index}_${names.length === 0 ? 'kernel' : names.join('_').replace(/[^A-Za-z0-9_]/g, '')}`
}

function addGroup(
  a: Assembly,
  group: PlannedGroup,
  launch: number,
  target: Machine,
  mode: NumericsMode,
): Launch | undefined {
  switch (group.kind) {
    case 'kernel': {
      if (group.outputs.every((n) => sizeOf(n.shape) === 0)) {
        for (const n of group.outputs) a.of(n)
        return undefined
      }
      if (group.called !== undefined) {
        a.product(kernelName(group.members, launch), group, group.called, launch)
        return undefined
      }
      const made = packBits(lowerGroup(kernelName(group.members, launch), group, target, mode), a.bits)
      checkPositions(made, group, target)
      a.launch(made, launch)
      return made
    }
    case 'union': {
      const made = packBits(lowerUnion(kernelName(membersOf(group), launch), group, target, mode), a.bits)
      checkPositions(made, group, target)
      a.launch(made, launch)
      return made
    }
    case 'scatter': {
      const node = group.node as NodeOf<'scatter'>
      const [x, updates] = node.inputs
      invariant(x !== undefined && updates !== undefined, 'scatter without inputs')
      a.steps.push({ kind: 'copy', from: a.of(x), to: a.of(node) })
      if (sizeOf(updates.shape) === 0 || sizeOf(x.shape) === 0) return undefined
      const made = lowerScatter(kernelName([node], launch), node, target, mode)
      checkPositions(made, group, target)
      a.launch(made, launch)
      return made
    }
    case 'opaque': {
      const { node } = group
      invariant(node.op === 'opaque', 'an opaque group of another op')
      const { kernel } = node.attrs
      a.steps.push({
        kind: 'opaque',
        name: kernel.name,
        run: kernel.run,
        inputs: node.inputs.map((x) => a.of(x)),
        output: a.of(node),
      })
      return undefined
    }
    case 'effect': {
      const { node } = group
      const [x] = node.inputs
      invariant(node.op === 'inspect' && x !== undefined, 'an effect group of another op')
      const { label, call } = node.attrs.callback
      a.steps.push({ kind: 'inspect', label, call: (data, _, dtype) => call(data, node.shape, dtype), buffer: a.of(x) })
      return undefined
    }
    case 'region':
      invariant(false, `${group.node.op} is added with its programs`)
  }
}

/** What is kept of a compiled graph for reports. */
export interface Kept {
  readonly source: Graph
  readonly plan: FusionPlan
  readonly passes: Passes | undefined
  readonly assembled: Assembled
}

export interface Reuse {
  /** Inputs that may be overwritten, by number. */
  readonly donated: readonly boolean[]
  /** By output, the input whose memory it may be placed on by whoever runs the program (inner programs). */
  readonly over: readonly (number | undefined)[]
}

/** Builds the launch plan of a planned graph; `compile` gives the programs of the graphs inside regions. */
export function assemble(
  name: string,
  graph: Graph,
  plan: FusionPlan,
  target: Machine,
  mode: NumericsMode,
  { donated, over }: Reuse,
  compile: CompileInner<Kept>,
): Assembled {
  const a = new Assembly(plan.bits)
  const inputs = graph.params.map((p) => a.of(p))
  const inners: (readonly Inner<Kept>[] | undefined)[] = []
  const launches = plan.groups.map((g, i) => {
    inners.push(g.kind === 'region' ? addRegion(a, g, kernelName([g.node], i), compile) : undefined)
    return g.kind === 'region' ? undefined : addGroup(a, g, i, target, mode)
  })

  // Results: a fresh buffer each; what is an input, a constant or a result already is copied.
  const outputs: number[] = []
  const given = new Set<number>()
  for (const o of graph.outputs) {
    const b = a.of(o)
    const draft = a.buffers[b]
    invariant(draft !== undefined, 'an output without buffer')
    if (draft.source.kind === 'unplaced' && !given.has(b)) {
      draft.source = { kind: 'output' }
      outputs.push(b)
      given.add(b)
    } else {
      const copy = a.buffer(o.dtype, o.shape, { kind: 'output' })
      a.steps.push({ kind: 'copy', from: b, to: copy })
      outputs.push(copy)
    }
  }

  // What is written over what: as the plan counts on, and besides what is found; inner programs' results where whoever runs them has them.
  const donors = new Set(inputs.filter((_, i) => donated[i] === true))
  const placeOf = new Map(outputs.map((b, i) => [b, i]))
  const kindOf = (b: number, source: Draft['source']): BufferNeed['kind'] => {
    if (source.kind === 'unplaced') return 'intermediate'
    return source.kind === 'output' ? 'result' : donors.has(b) ? 'donated' : 'fixed'
  }
  const needs = a.buffers.map(
    ({ bytes, source }, b): BufferNeed => ({
      bytes,
      kind: kindOf(b, source),
      under: inputs[over[placeOf.get(b) ?? -1] ?? -1],
    }),
  )
  const decided = new Map([...plan.reuse].map(([write, read]) => [a.of(write), a.of(read)]))
  const counted = new Set([...decided].flat())
  const made = withoutCopies(a.steps, (from, to) => {
    const [x, y] = [needs[from], needs[to]]
    return x?.kind === 'intermediate' && y?.kind !== 'fixed' && x.bytes === y?.bytes && !counted.has(from)
  })
  const assigned = assignBuffers(made.steps.map(memoryStep), needs, decided)
  for (const [write, read] of decided)
    invariant(assigned.donors.get(write) === read, 'the plan counts on memory that is not reused')
  const renamed = new Map([...assigned.donors].filter(([b]) => needs[b]?.kind === 'result'))
  for (const [b, donor] of renamed) outputs[placeOf.get(b) ?? -1] = donor
  const steps = renamed.size === 0 ? made.steps : made.steps.map((s) => renameStep(s, (b) => renamed.get(b) ?? b))

  const intervals = needs.flatMap(({ bytes, kind }, buffer): Interval[] => {
    const [from = -1, to = -1] = [assigned.from[buffer], assigned.to[buffer]]
    if (kind !== 'intermediate' || from < 0) return []
    const donor = assigned.donors.get(buffer)
    return [{ buffer, bytes, from, to, ...(donor === undefined ? {} : { donor }) }]
  })
  const memory = placeBuffers(intervals, target.alignment)
  const sourceOf = (b: number, source: Draft['source']): ProgramBuffer['source'] => {
    if (source.kind === 'unplaced') return { kind: 'temp', offset: memory.offsets.get(b) ?? 0 }
    const under = assigned.placeable.get(b)
    return under === undefined ? source : { kind: 'output', over: under }
  }
  // The buffers that steps still name, by new numbers (inputs come first and keep theirs).
  const kept = a.buffers.flatMap((_, b) => (made.moved.has(b) ? [] : [b]))
  const numberOf = new Map(kept.map((b, i) => [b, i]))
  const number = (b: number): number => numberOf.get(b) ?? -1
  const buffers = kept.flatMap((b): ProgramBuffer[] => {
    const d = a.buffers[b]
    if (d === undefined) return []
    return [{ dtype: d.dtype, shape: d.shape, format: d.format, bytes: d.bytes, source: sourceOf(b, d.source) }]
  })
  const constants = inners.reduce((n, g) => n + (g ?? []).reduce((m, x) => m + x.kept.assembled.memory.constants, 0), 0)
  const outer = buffers.reduce(
    (n, b, i) => (b.source.kind === 'temp' || renamed.has(kept[i] ?? -1) ? n : n + b.bytes),
    0,
  )
  return {
    program: {
      name,
      buffers,
      steps: made.moved.size === 0 ? steps : steps.map((s) => renameStep(s, number)),
      inputs,
      donated: inputs.map((_, i) => donated[i] === true),
      outputs: outputs.map(number),
      arenaBytes: memory.arenaBytes,
    },
    inners,
    launches,
    memory: {
      arenaBytes: memory.arenaBytes,
      unsharedBytes: intervals.reduce((n, i) => n + i.bytes, 0),
      peakBytes: outer + constants + memory.arenaBytes,
      constants: constants + buffers.reduce((n, b) => (b.source.kind === 'constant' ? n + b.bytes : n), 0),
      inPlace: memory.inPlace + renamed.size,
    },
  }
}
