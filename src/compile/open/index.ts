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
import { assemble, type Kept } from '../assemble.ts'
import type { OpenExtents, OpenNumber } from '../assembly.ts'
import { priceOfSchedules } from '../candidatePrice.ts'
import type { Compiled, CompileOptions } from '../index.ts'
import { multiplyIntegers } from '../integerProducts.ts'
import { boundScans } from '../longScans.ts'
import { boundOperands, operandLimits } from '../operands.ts'
import { withPrecision } from '../precision.ts'
import type { Reuse } from '../programMemory.ts'
import { makeReport } from '../report.ts'
import { checkAssembled, checkStored } from '../stored.ts'
import { orderWindows } from '../windowOrder.ts'
import { type Aligned, alignGraphs, cannotBeOpen, extentsOf, Misaligned } from './align.ts'
import { Fitter } from './fit.ts'
import { genericOf } from './generic.ts'
import { OtherForm } from './noFormula.ts'
import { Opening } from './opening.ts'
import { type Building, PlanOpener } from './openPlan.ts'
import { hasAllCorners } from './samples.ts'
import { verifyOpen } from './verifyOpen.ts'

/** A graph traced at extents of the dimensions. */
export interface Instance {
  readonly at: Extents
  readonly graph: Graph
}

export interface OpenCompileOptions extends Omit<CompileOptions, 'budgets' | 'fuse'> {
  /** Most bytes of intermediate values at once, at the greatest extents. */
  readonly memoryBudget?: number | undefined
}

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
      if (!(error instanceof UserError) || error instanceof Misaligned || error.code === 'E_OUT_OF_MEMORY') throw error
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

/** A machine as open kernels are planned for it: bools stand a byte an element, rows follow one another at once, and a kernel binds what launches hand over besides. */
function forOpen(target: Machine): Machine {
  const { maxBuffers, maxUnionBuffers, rowAlignment: _, ...others } = target
  const rest = others.library === undefined ? others : { ...others, library: { ...others.library, cuts: false } }
  return { ...rest, packBools: false, maxBuffers: maxBuffers - 1, maxUnionBuffers: maxUnionBuffers - 1 }
}

function compileWhole(
  instances: readonly Instance[],
  dimensions: readonly Dimension[],
  options: OpenCompileOptions,
  way: Way = simply,
): Compiled {
  const started = performance.now()
  const { name = 'program', donated = [], verify = false } = options
  const compiler = new OpenCompiler(instances, dimensions, options, way)
  const graphs = instances.map((i) => i.graph)
  const opening = new Opening(dimensions, graphs[0]?.params.length ?? 0)
  const made = compiler.program(graphs, name, options.target, opening, { donated, over: [] })
  const { program, memory } = made.assembled
  checkBudget(memory.arenaBytes, dimensions, options.memoryBudget)
  if (verify)
    verifyOpen(
      program,
      instances.map((i) => i.at),
    )
  const report = makeReport(
    name,
    made,
    options.target,
    options.mode,
    made.applied,
    performance.now() - started,
    dimensions,
  )
  return { program, report, graph: made.source, plan: made.plan }
}

/** Throws E_OUT_OF_MEMORY where intermediate values at the greatest extents, for which they are placed, take more than a budget. */
function checkBudget(bytes: number, dimensions: readonly Dimension[], budget = Number.POSITIVE_INFINITY): void {
  if (bytes <= budget) return
  const at = dimensions.map((d) => `${d.name} is ${d.most}`).join(' and ')
  throw new UserError(
    'E_OUT_OF_MEMORY',
    `intermediate values at once take ${bytes} bytes where ${at}, more than the budget of ${budget}`,
    { help: 'raise the budget, or declare a smaller range' },
  )
}

/** Compiles graphs that are one but for numbers, and those inside their control flow, for the samples of one function. */
class OpenCompiler {
  private readonly dimensions: readonly Dimension[]
  private readonly options: OpenCompileOptions
  private readonly way: Way
  private readonly fitter: Fitter

  constructor(instances: readonly Instance[], dimensions: readonly Dimension[], options: OpenCompileOptions, way: Way) {
    this.dimensions = dimensions
    this.options = options
    this.way = way
    this.fitter = new Fitter(instances.map((i) => i.at))
  }

  /** The graphs of each sample as one program, whose launch scalars `opening` keeps. */
  program(
    traced: readonly Graph[],
    name: string,
    machine: Machine,
    opening: Opening,
    reuse: Reuse,
  ): Kept & { readonly applied: Rewritten['applied'] } {
    const { dimensions, fitter, way } = this
    const { mode } = this.options
    const generics = genericOf(alignGraphs(traced, dimensions), hasAllCorners(dimensions.length))
    const varying = [...(generics[0]?.varying ?? [])].filter((n) => n > 1)
    const target = { ...forOpen(machine), ...(way.isApart ? { keepsAxes: true, undivided: new Set(varying) } : {}) }
    let applied: Rewritten['applied'] = []
    const graphs: Graph[] = []
    const rewritten = (): Generator<Graph> => this.rewritten(traced, generics, target, graphs, (a) => (applied = a))
    const aligned = alignGraphs(rewritten(), dimensions)
    const [graph] = graphs
    invariant(graph !== undefined, 'a program of no instance')
    const overwritable = graph.params.map((_, i) =>
      reuse.donated[i] === true ? 'donated' : reuse.over.includes(i) ? 'perhaps' : undefined,
    )
    const held = compulsoryBytes(graph)
    const near = atWorkingSet(target, held)
    const memo = new CandidateMemo(priceOfSchedules(target, mode, held))
    const plan = way.building(() => planFusion(graph, near, mode, true, overwritable, undefined, memo))
    checkStored(graph, plan, target, true)
    fitter.learn(extentsOf(aligned.nodes))
    const opener = new PlanOpener(fitter, opening, target, mode, aligned, way.building)
    const opened = opener.open(plan)
    const numbers = new NumbersOfNodes(aligned, fitter, opening)
    const open: OpenExtents = {
      launch: (made) => opening.launch(made),
      params: () => opening.params,
      varying: (call) => opener.products.get(call),
      whole: (node, of, what) => numbers.whole(node, of, what),
      sizeOf: (node) => {
        const elements = numbers.whole(node, (n) => sizeOf(n.shape), 'the size of a tensor')
        const each = dtypeBytes(node.dtype)
        const bytes = numbers.whole(node, (n) => sizeOf(n.shape) * each, 'the size of a tensor')
        return elements === undefined || bytes === undefined ? undefined : { most: elements.most, bytes: bytes.formula }
      },
    }
    const within = { ...machine, valueBuffers: 0 }
    const assembled = assemble(
      name,
      graph,
      opened,
      target,
      mode,
      { ...reuse, donated: graph.params.map((_, i) => reuse.donated[i] === true) },
      (node, graphOf, label, over) => {
        const inner = numbers.everywhere(node).map(graphOf)
        const own = new Opening(dimensions, inner[0]?.params.length ?? 0, opening)
        const kept = this.program(inner, label, within, own, { donated: [], over })
        const { program } = kept.assembled
        return { program, kept, handed: opening.params.slice(0, program.open?.numbers.length) }
      },
      open,
    )
    checkAssembled(name, assembled, opened, target)
    const program = { ...assembled.program, open: { dimensions, numbers: opening.numbers } }
    return { source: graph, plan: opened, passes: undefined, assembled: { ...assembled, program }, applied }
  }

  /** Graphs rewritten one after another, each added to `made`. */
  private *rewritten(
    traced: readonly Graph[],
    generics: readonly Generic[],
    target: Machine,
    made: Graph[],
    told: (applied: Rewritten['applied']) => void,
  ): Generator<Graph> {
    // A matrix unit takes axes that are joined, which open ones are not.
    const { mode, precision = 'ieee' } = this.options
    for (const [i, graph] of traced.entries()) {
      const precise = mode === 'fast' && precision !== 'ieee' ? withPrecision(graph, precision) : graph
      const { graph: plain, applied } = rewriteGraph(mode === 'fast' ? multiplyIntegers(precise, target) : precise, {
        mode,
        fold: (node) => fold(node, mode),
        generic: generics[i] ?? nothingVaries,
      })
      if (i === 0) told(applied)
      // Networks of values stay as they are: whether they stand in another order is a matter of sizes, which differ from sample to sample.
      const inOrder = orderWindows(plain, target, mode)
      const bounded = boundOperands(boundScans(inOrder, target, mode), operandLimits(target))
      made.push(bounded)
      yield bounded
    }
  }
}

/** What nodes of the first sample are at the others, and numbers of theirs by their formulas. */
class NumbersOfNodes {
  private readonly aligned: Aligned
  private readonly places: ReadonlyMap<Node, number>
  private readonly fitter: Fitter
  private readonly opening: Opening

  constructor(aligned: Aligned, fitter: Fitter, opening: Opening) {
    this.aligned = aligned
    this.places = new Map(aligned.nodes[0]?.map((n, i) => [n, i]))
    this.fitter = fitter
    this.opening = opening
  }

  /** A node at each sample; one that no sample has (what launches hand over) is itself. */
  everywhere(node: Node): readonly Node[] {
    const place = this.places.get(node)
    return this.aligned.nodes.map((list) => (place === undefined ? node : (list[place] ?? node)))
  }

  /** A number of a node, where it varies. Throws E_UNSUPPORTED where it follows no formula. */
  whole(node: Node, of: (node: Node) => number, what: string): OpenNumber | undefined {
    const values = this.everywhere(node).map(of)
    if (values.every((n) => n === values[0])) return undefined
    const formula = this.fitter.whole(values)
    if (formula === undefined)
      throw cannotBeOpen(this.opening.dimensions, `${what} (${values.slice(0, 4).join(', ')})`, node)
    return { most: this.opening.most(formula), formula }
  }
}

const nothingVaries: Generic = { ends: new Set(), varying: new Set(), numbers: new Map() }

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
