/** Assembly: planned groups become steps over a buffer table with a static memory plan. */
import { invariant } from '../diagnostics/errors.ts'
import type { Graph } from '../graph/node.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import type { Launch } from '../lower/launch.ts'
import type { FusionPlan } from '../plan/plan.ts'
import type { Program } from '../runtime/program.ts'
import type { Machine } from '../target/machine.ts'
import { addGroup, kernelName } from './addGroup.ts'
import { Assembly, type OpenExtents } from './assembly.ts'
import type { Passes } from './planGraph.ts'
import { placeProgram, type Reuse } from './programMemory.ts'
import { addRegion, type CompileInner, type Inner } from './regions.ts'

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

/** What is kept of a compiled graph for reports. */
export interface Kept {
  readonly source: Graph
  readonly plan: FusionPlan
  readonly passes: Passes | undefined
  readonly assembled: Assembled
}

/** Builds the launch plan of a planned graph; `compile` gives the programs of the graphs inside regions. */
export function assemble(
  name: string,
  graph: Graph,
  plan: FusionPlan,
  target: Machine,
  mode: NumericsMode,
  reuse: Reuse,
  compile: CompileInner<Kept>,
  open?: OpenExtents,
): Assembled {
  const a = new Assembly(plan.stored, open)
  const given = graph.params.map((p) => a.of(p))
  const inners: (readonly Inner<Kept>[] | undefined)[] = []
  const launches = plan.groups.map((g, i) => {
    inners.push(g.kind === 'region' ? addRegion(a, g, kernelName([g.node], i), compile) : undefined)
    return g.kind === 'region' ? undefined : addGroup(a, g, i, target, mode)
  })
  const results = addResults(a, graph)
  const handed = (open?.params() ?? []).map((p) => a.of(p))
  const placed = placeProgram(a, { inputs: [...given, ...handed], outputs: results }, plan, reuse, target)
  const { buffers, steps, inputs, outputs, arenaBytes, unsharedBytes, inPlace } = placed
  const within = inners.flatMap((of) => of ?? []).reduce((n, x) => n + x.kept.assembled.memory.constants, 0)
  return {
    program: {
      name,
      buffers,
      steps,
      inputs,
      donated: inputs.map((_, i) => reuse.donated[i] === true),
      outputs,
      arenaBytes,
    },
    inners,
    launches,
    memory: {
      arenaBytes,
      unsharedBytes,
      peakBytes: placed.outerBytes + within + arenaBytes,
      inPlace,
      constants: within + placed.constantBytes,
    },
  }
}

/** The buffers of a graph's outputs: a fresh one each; what is an input, a constant or a result already is copied. */
function addResults(a: Assembly, graph: Graph): number[] {
  const given = new Set<number>()
  return graph.outputs.map((o) => {
    const b = a.of(o)
    const draft = a.buffers[b]
    invariant(draft !== undefined, 'an output without buffer')
    if (draft.source.kind === 'unplaced' && !given.has(b)) {
      draft.source = { kind: 'output' }
      given.add(b)
      return b
    }
    const copy = a.bufferFor(o, { kind: 'output' })
    a.steps.push({ kind: 'copy', from: b, to: copy })
    return copy
  })
}
