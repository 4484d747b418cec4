/**
 * Programs with open extents, by generalisation from instances (docs/open.md): a function is traced at several samples of its dimensions; the
 * graphs, rewritten, are one but for numbers; planned once, their kernels are opened.
 */

import { keepingBounds } from '../../affine/predicate.ts'
import { invariant, UserError } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { nodesOf } from '../../graph/traverse.ts'
import { compiling, overElements } from '../../host/engine.ts'
import { bytesOf } from '../../plan/body/region.ts'
import { CandidateMemo } from '../../plan/cost/candidateMemo.ts'
import { planFusion } from '../../plan/fuse/planFusion.ts'
import { evaluateGraph, toHostArray } from '../../reference/evaluate.ts'
import { type Generic, type Rewritten, rewriteGraph } from '../../rewrite/index.ts'
import type { Dimension, Extents } from '../../runtime/extents.ts'
import { atWorkingSet, type Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import { sizeOf } from '../../types/shape.ts'
import { assemble } from '../assemble.ts'
import type { OpenExtents } from '../assembly.ts'
import { priceOfSchedules } from '../candidatePrice.ts'
import type { Compiled, CompileOptions } from '../index.ts'
import { multiplyIntegers } from '../integerProducts.ts'
import { boundScans } from '../longScans.ts'
import { boundOperands, operandLimits } from '../operands.ts'
import { withPrecision } from '../precision.ts'
import { makeReport } from '../report.ts'
import { checkAssembled, checkStored } from '../stored.ts'
import { orderWindows } from '../windowOrder.ts'
import { alignGraphs, cannotBeOpen, extentsOf, Misaligned } from './align.ts'
import { Fitter } from './fit.ts'
import { genericOf } from './generic.ts'
import { OtherForm } from './noFormula.ts'
import { Opening } from './opening.ts'
import { type Building, PlanOpener } from './openPlan.ts'
import { verifyOpen } from './verifyOpen.ts'

/** A graph traced at extents of the dimensions. */
export interface Instance {
  readonly at: Extents
  readonly graph: Graph
}

export type OpenCompileOptions = Omit<CompileOptions, 'budgets' | 'fuse'>

/**
 * Compiles a program for all extents between those of its instances. Its plan is made at the first of them. Throws E_UNSUPPORTED that names
 * dimensions and operation where the instances have no program in common.
 */
export const compileOpen = (
  instances: readonly Instance[],
  dimensions: readonly Dimension[],
  options: OpenCompileOptions,
): Compiled => {
  const [first] = instances
  invariant(first !== undefined, 'a program of no instance')
  return compiling(nodesOf(first.graph).length, () => {
    try {
      return compileWhole(instances, dimensions, options)
    } catch (error) {
      if (!(error instanceof UserError) || error instanceof Misaligned) throw error
      for (const way of otherWays(error))
        try {
          return compileWhole(instances, dimensions, options, way)
        } catch (another) {
          if (!(another instanceof UserError)) throw another
        }
      throw error
    }
  })
}

/** How a program is planned. */
interface Way {
  readonly building: Building
  /** Nodes whose kernel would divide positions by extents that vary are not joined, nor axes of products. */
  readonly isApart: boolean
}

const simply: Way = { building: (body) => body(), isApart: false }

/** Ways that may lead where the first did not. */
function otherWays({ cause }: UserError): readonly Way[] {
  const apart = { ...simply, isApart: true }
  if (!(cause instanceof OtherForm)) return [apart]
  return [{ ...simply, building: keepingBounds }, apart, { ...apart, building: keepingBounds }]
}

/** A machine as open kernels are planned for it: bools stand a byte an element, and a kernel binds what launches hand over besides. */
function forOpen(target: Machine): Machine {
  const { maxBuffers, maxUnionBuffers } = target
  return { ...target, packBools: false, maxBuffers: maxBuffers - 1, maxUnionBuffers: maxUnionBuffers - 1 }
}

function compileWhole(
  instances: readonly Instance[],
  dimensions: readonly Dimension[],
  {
    mode,
    target: machine,
    name = 'program',
    donated = [],
    verify = false,
    // A matrix unit takes axes that are joined, which open ones are not.
    precision = 'ieee',
  }: OpenCompileOptions,
  { building, isApart }: Way = simply,
): Compiled {
  const started = performance.now()
  const generics = genericOf(instances.map((i) => i.graph))
  const varying = [...(generics[0]?.varying ?? [])].filter((n) => n > 1)
  const target = { ...forOpen(machine), ...(isApart ? { keepsAxes: true, undivided: new Set(varying) } : {}) }
  const graphs: Graph[] = []
  let applied: Rewritten['applied'] = []
  function* rewritten(): Generator<Graph> {
    for (const [i, instance] of instances.entries()) {
      const precise =
        mode === 'fast' && precision !== 'ieee' ? withPrecision(instance.graph, precision) : instance.graph
      const made = rewriteGraph(mode === 'fast' ? multiplyIntegers(precise, target) : precise, {
        mode,
        fold: (node) => fold(node, mode),
        generic: generics[i] ?? nothingVaries,
      })
      const inOrder = orderWindows(made.graph, target, mode)
      const bounded = boundOperands(boundScans(inOrder, target, mode), operandLimits(target))
      if (graphs.length === 0) applied = made.applied
      graphs.push(bounded)
      yield bounded
    }
  }
  const aligned = alignGraphs(rewritten(), dimensions)
  const [graph] = graphs
  invariant(graph !== undefined, 'a program of no instance')
  const overwritable = graph.params.map((_, i) => (donated[i] === true ? ('donated' as const) : undefined))
  const held = compulsoryBytes(graph)
  const near = atWorkingSet(target, held)
  const plan = building(() =>
    planFusion(
      graph,
      near,
      mode,
      true,
      overwritable,
      undefined,
      new CandidateMemo(priceOfSchedules(target, mode, held)),
    ),
  )
  checkStored(graph, plan, target, true)
  const fitter = new Fitter(instances.map((i) => i.at))
  fitter.learn(extentsOf(aligned.nodes))
  const opening = new Opening(dimensions, graph.params.length)
  const opener = new PlanOpener(fitter, opening, target, mode, aligned, building)
  const opened = opener.open(plan)
  const numberOf = new Map(aligned.nodes[0]?.map((n, i) => [n, i]))
  const open: OpenExtents = {
    launch: (made) => opening.launch(made),
    varying: (call) => opener.products.get(call),
    sizeOf: (node) => {
      const number = numberOf.get(node)
      if (number === undefined) return undefined
      const sizes = aligned.nodes.map((list) => sizeOf(list[number]?.shape ?? []))
      if (sizes.every((n) => n === sizes[0])) return undefined
      const [elements, bytes] = [1, dtypeBytes(node.dtype)].map((each) => fitter.whole(sizes.map((n) => n * each)))
      if (elements === undefined || bytes === undefined)
        throw cannotBeOpen(dimensions, `the size of a tensor (${sizes.slice(0, 4).join(', ')})`, node)
      return { most: opening.most(elements), bytes }
    },
  }
  const withNumbers = { ...graph, params: [...graph.params, ...opening.params] }
  const reuse = { donated: [...graph.params.map((_, i) => donated[i] === true)], over: [] }
  const assembled = assemble(
    name,
    withNumbers,
    opened,
    target,
    mode,
    reuse,
    () => {
      throw cannotBeOpen(dimensions, 'control flow', undefined)
    },
    open,
  )
  checkAssembled(name, assembled, opened, target)
  const program = { ...assembled.program, open: { dimensions, numbers: opening.numbers } }
  if (verify)
    verifyOpen(
      program,
      instances.map((i) => i.at),
    )
  const kept = { source: graph, plan: opened, passes: undefined, assembled: { ...assembled, program } }
  const report = makeReport(name, kept, target, mode, applied, performance.now() - started, dimensions)
  return { program, report, graph, plan: opened }
}

const nothingVaries: Generic = { ends: new Set(), varying: new Set(), numbers: new Set() }

/** Bytes of the inputs and results of a graph. */
const compulsoryBytes = (graph: Graph): number =>
  [...new Set<Node>([...graph.params, ...graph.outputs])].reduce((n, x) => n + bytesOf(x), 0)

/** Evaluates a node that depends on constants alone, rounding as the program would. */
function fold(node: Node, mode: CompileOptions['mode']): HostArray {
  const rounding = mode === 'strict' ? 'strict' : 'dtype'
  return overElements(() => {
    const [value] = evaluateGraph({ params: [], outputs: [node], effects: [] }, [], { rounding })
    invariant(value !== undefined, 'constant folding gave no value')
    return toHostArray(value)
  })
}
