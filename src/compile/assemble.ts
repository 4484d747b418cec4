/** Assembly: planned groups become steps over a buffer table with a static memory plan. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import type { Kernel, NumericsMode } from '../kernel/ir.ts'
import type { Binding, BoundKernel, Launch } from '../lower/launch.ts'
import { lowerGroup } from '../lower/lowerGroup.ts'
import { lowerScatter } from '../lower/scatter.ts'
import type { FusionPlan, PlannedGroup } from '../plan/plan.ts'
import { storageOf } from '../plan/region.ts'
import type { TargetInfo } from '../plan/target.ts'
import type { BufferSource, Program, ProgramBuffer, ProgramStep } from '../runtime/program.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { mayShare } from './inPlace.ts'
import { type Interval, planMemory } from './memory.ts'

export interface Assembled {
  readonly program: Program
  /** The launch of each planned group (undefined for opaque, effects, and groups without elements). */
  readonly launches: readonly (Launch | undefined)[]
  readonly memory: {
    readonly arenaBytes: number
    readonly unsharedBytes: number
    readonly peakBytes: number
    readonly inPlace: number
  }
}

interface Draft {
  readonly dtype: ProgramBuffer['dtype']
  readonly shape: readonly number[]
  readonly bytes: number
  source: BufferSource | { readonly kind: 'unplaced' }
}

/** Steps, buffers and their roles, before memory is planned. */
class Assembly {
  readonly buffers: Draft[] = []
  readonly steps: ProgramStep[] = []
  private readonly byNode = new Map<Node, number>()

  buffer(dtype: Draft['dtype'], shape: readonly number[], source: Draft['source']): number {
    this.buffers.push({ dtype, shape, bytes: sizeOf(shape) * dtypeBytes(dtype), source })
    return this.buffers.length - 1
  }

  /** The buffer a node's elements stand in. */
  of(node: Node): number {
    const base = storageOf(node)
    const have = this.byNode.get(base)
    if (have !== undefined) return have
    const source: Draft['source'] =
      base.op === 'param'
        ? { kind: 'input', index: base.attrs.index }
        : base.op === 'constant'
          ? { kind: 'constant', data: base.attrs.data }
          : { kind: 'unplaced' }
    const id = this.buffer(base.dtype, base.shape, source)
    this.byNode.set(base, id)
    return id
  }

  kernel(bound: BoundKernel, stage: 'main' | 'finishing', launch: number, partials: readonly number[]): void {
    const at = (b: Binding): number => {
      if (b.kind === 'node') return this.of(b.node)
      const id = partials[b.index]
      invariant(id !== undefined, 'a partial result without buffer')
      return id
    }
    this.steps.push({ kind: 'kernel', stage, launch, kernel: bound.kernel, buffers: bound.bindings.map(at) })
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
  target: TargetInfo,
  mode: NumericsMode,
): Launch | undefined {
  switch (group.kind) {
    case 'kernel': {
      if (group.outputs.every((n) => sizeOf(n.shape) === 0)) {
        for (const n of group.outputs) a.of(n)
        return undefined
      }
      const made = lowerGroup(kernelName(group.members, launch), group, target, mode)
      const partials = made.partials.map((p) => a.buffer(p.dtype, p.shape, { kind: 'unplaced' }))
      a.kernel(made.main, 'main', launch, partials)
      for (const f of made.finishing) a.kernel(f, 'finishing', launch, partials)
      return made
    }
    case 'scatter': {
      const node = group.node as NodeOf<'scatter'>
      const [x, updates] = node.inputs
      invariant(x !== undefined && updates !== undefined, 'scatter without inputs')
      a.steps.push({ kind: 'copy', from: a.of(x), to: a.of(node) })
      if (sizeOf(updates.shape) === 0 || sizeOf(x.shape) === 0) return undefined
      const made = lowerScatter(kernelName([node], launch), node, mode)
      a.kernel(made.main, 'main', launch, [])
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
      throw new InternalError(`${group.node.op} has no step`)
  }
}

/** The buffers a step touches. */
function touched(s: ProgramStep): readonly number[] {
  switch (s.kind) {
    case 'kernel':
      return s.buffers
    case 'copy':
      return [s.from, s.to]
    case 'opaque':
      return [...s.inputs, s.output]
    case 'inspect':
      return [s.buffer]
  }
}

/** Which buffer a kernel's written parameter may take over from a parameter whose buffer dies here. */
function hostFor(
  kernel: Kernel,
  buffers: readonly number[],
  write: number,
  dies: (buffer: number) => boolean,
  bytes: (buffer: number) => number,
): number | undefined {
  const out = kernel.params[write]
  const own = buffers[write]
  if (out === undefined || own === undefined || out.access !== 'write') return undefined
  for (const [i, p] of kernel.params.entries()) {
    const b = buffers[i]
    if (
      p.access !== 'read' ||
      b === undefined ||
      !dies(b) ||
      bytes(b) !== bytes(own) ||
      dtypeBytes(p.dtype) !== dtypeBytes(out.dtype)
    )
      continue
    if (buffers.filter((x) => x === b).length === 1 && mayShare(kernel, p.name, out.name)) return b
  }
  return undefined
}

/** Builds the launch plan of a planned graph. `donated[i]`: input i may be overwritten. */
export function assemble(
  name: string,
  graph: Graph,
  plan: FusionPlan,
  target: TargetInfo,
  mode: NumericsMode,
  donated: readonly boolean[],
): Assembled {
  const a = new Assembly()
  const inputs = graph.params.map((p) => a.of(p))
  const launches = plan.groups.map((g, i) => addGroup(a, g, i, target, mode))

  // Results: a fresh buffer each; what is an input, a constant or a result already is copied.
  const outputs: number[] = []
  for (const o of graph.outputs) {
    const b = a.of(o)
    const draft = a.buffers[b]
    invariant(draft !== undefined, 'an output without buffer')
    if (draft.source.kind === 'unplaced' && !outputs.includes(b)) {
      draft.source = { kind: 'output' }
      outputs.push(b)
    } else {
      const copy = a.buffer(o.dtype, o.shape, { kind: 'output' })
      a.steps.push({ kind: 'copy', from: b, to: copy })
      outputs.push(copy)
    }
  }

  const first = new Map<number, number>()
  const last = new Map<number, number>()
  a.steps.forEach((s, i) => {
    for (const b of touched(s)) {
      if (!first.has(b)) first.set(b, i)
      last.set(b, i)
    }
  })
  const bytes = (b: number): number => a.buffers[b]?.bytes ?? 0

  // Results over donated inputs.
  let inPlace = 0
  const renamed = new Map<number, number>()
  const donors = new Set(inputs.filter((_, i) => donated[i] === true))
  a.steps.forEach((s, i) => {
    if (s.kind !== 'kernel') return
    s.buffers.forEach((b, p) => {
      const at = outputs.indexOf(b)
      if (at < 0 || a.buffers[b]?.source.kind !== 'output' || first.get(b) !== i) return
      const host = hostFor(s.kernel, s.buffers, p, (x) => donors.has(x) && last.get(x) === i, bytes)
      if (host === undefined) return
      donors.delete(host)
      renamed.set(b, host)
      outputs[at] = host
      inPlace++
    })
  })
  const steps = renamed.size === 0 ? a.steps : a.steps.map((s) => renameStep(s, (b) => renamed.get(b) ?? b))

  const intervals: Interval[] = []
  a.buffers.forEach((d, b) => {
    const from = first.get(b)
    const to = last.get(b)
    if (d.source.kind !== 'unplaced' || from === undefined || to === undefined) return
    const s = steps[from]
    const over =
      s?.kind === 'kernel'
        ? hostFor(
            s.kernel,
            s.buffers,
            s.buffers.indexOf(b),
            (x) => a.buffers[x]?.source.kind === 'unplaced' && last.get(x) === from && x !== b,
            bytes,
          )
        : undefined
    intervals.push({ buffer: b, bytes: d.bytes, from, to, ...(over === undefined ? {} : { over }) })
  })
  const memory = planMemory(oneHeirEach(intervals))
  const buffers = a.buffers.map(
    (d, b): ProgramBuffer => ({
      dtype: d.dtype,
      shape: d.shape,
      format: 'plain',
      bytes: d.bytes,
      source: d.source.kind === 'unplaced' ? { kind: 'temp', offset: memory.offsets.get(b) ?? 0 } : d.source,
    }),
  )
  const outer = buffers.reduce((n, b, i) => (b.source.kind === 'temp' || renamed.has(i) ? n : n + b.bytes), 0)
  return {
    program: {
      name,
      buffers,
      steps,
      inputs,
      donated: inputs.map((_, i) => donated[i] === true),
      outputs,
      arenaBytes: memory.arenaBytes,
    },
    launches,
    memory: {
      arenaBytes: memory.arenaBytes,
      unsharedBytes: intervals.reduce((n, i) => n + i.bytes, 0),
      peakBytes: outer + memory.arenaBytes,
      inPlace: memory.inPlace + inPlace,
    },
  }
}

/** A dying buffer has one heir. */
function oneHeirEach(intervals: readonly Interval[]): Interval[] {
  const taken = new Set<number>()
  return intervals.map((i) => {
    if (i.over === undefined) return i
    if (!taken.has(i.over)) {
      taken.add(i.over)
      return i
    }
    return { buffer: i.buffer, bytes: i.bytes, from: i.from, to: i.to }
  })
}

function renameStep(s: ProgramStep, to: (b: number) => number): ProgramStep {
  switch (s.kind) {
    case 'kernel':
      return { ...s, buffers: s.buffers.map(to) }
    case 'copy':
      return { ...s, from: to(s.from), to: to(s.to) }
    case 'opaque':
      return { ...s, inputs: s.inputs.map(to), output: to(s.output) }
    case 'inspect':
      return { ...s, buffer: to(s.buffer) }
  }
}
