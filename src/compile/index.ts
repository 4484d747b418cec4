/** The compiler: the ordered list of passes from a graph to a launch plan and its report. */

import { invariant, UserError } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import { nodesOf } from '../graph/traverse.ts'
import { verifyGraph } from '../graph/verify.ts'
import { compiling, overElements } from '../host/engine.ts'
import { verifyKernel } from '../kernel/verify.ts'
import { bytesOf } from '../plan/body/region.ts'
import type { FusionPlan } from '../plan/plan.ts'
import { evaluateGraph, toHostArray } from '../reference/evaluate.ts'
import type { FusionReport } from '../report/data.ts'
import { type Rewritten, rewriteGraph } from '../rewrite/index.ts'
import { verifyProduct } from '../runtime/product.ts'
import type { Program } from '../runtime/program.ts'
import { type Machine, movingSeconds } from '../target/machine.ts'
import type { HostArray } from '../types/host.ts'
import type { Precision } from '../types/product.ts'
import { alignProducts } from './alignedProducts.ts'
import { assemble, type Kept } from './assemble.ts'
import { divideOnce } from './broadcastDivisors.ts'
import { distributeSums } from './distributedSums.ts'
import { divideScatters } from './dividedScatters.ts'
import { padChannels } from './fewChannels.ts'
import { multiplyIntegers } from './integerProducts.ts'
import { keepOrder } from './keptOrder.ts'
import { takeKnownSums } from './knownSums.ts'
import { chunkPositions } from './longPositions.ts'
import { boundScans } from './longScans.ts'
import { makesWeightsAgain, normaliseWeights } from './normalisedWeights.ts'
import { boundOperands, operandLimits } from './operands.ts'
import { orderTogether } from './orderTogether.ts'
import { type Budgets, type PlannedGraph, ProgramTrials, planGraph, quickerOf } from './planGraph.ts'
import { withPrecision } from './precision.ts'
import type { Reuse } from './programMemory.ts'
import { makeReport } from './report.ts'
import { sumRowsFirst } from './rowSums.ts'
import { takeScaledSums } from './scaledSums.ts'
import { splitRows } from './splitRows.ts'
import { checkAssembled, checkStored, isStoredBeyond } from './stored.ts'
import { type Attempt, wholeOrInStrips } from './strips/index.ts'
import { orderWeights } from './weightOrder.ts'
import { takeWeightQuotients } from './weightQuotients.ts'
import { widenRows } from './widenedRows.ts'
import { orderWindows } from './windowOrder.ts'
import { writeOutContractions } from './writtenOut.ts'

export interface CompileOptions {
  readonly name?: string
  readonly mode: 'fast' | 'strict'
  readonly target: Machine
  /** How f32 is multiplied in contractions that do not say (fast mode); as the machine says unless given. */
  readonly precision?: Precision
  /** Inputs whose memory may be overwritten. */
  readonly donated?: readonly boolean[]
  /** `false` gives every operation a kernel of its own: what fusion is compared with. */
  readonly fuse?: boolean
  /** Without: operands and results of products are not copied into rows of whole groups (they are unless given). */
  readonly aligns?: boolean
  /** Values are computed again to stay inside. */
  readonly budgets?: Budgets | undefined
  /** Verify every intermediate form (tests). */
  readonly verify?: boolean
}

export interface Compiled {
  readonly program: Program
  readonly report: FusionReport
  /** The graph that was planned: after rewriting, with copies of what the backward pass computes again. */
  readonly graph: Graph
  readonly plan: FusionPlan
}

/** Evaluates a node that depends on constants alone, rounding as the program would. */
function fold(node: Node, mode: CompileOptions['mode']): HostArray {
  const rounding = mode === 'strict' ? 'strict' : 'dtype'
  return overElements(() => {
    const [value] = evaluateGraph({ params: [], outputs: [node], effects: [] }, [], { rounding })
    invariant(value !== undefined, 'constant folding gave no value')
    return toHostArray(value)
  })
}

const unlimited = { value: Number.POSITIVE_INFINITY, arena: Number.POSITIVE_INFINITY }

/** What a graph is before it is planned; `added`: with contractions besides, which may be worth it. */
function prepared(graph: Graph, options: CompileOptions): Rewritten & { readonly added?: Graph } {
  const { mode, target, precision = target.precision, fuse = true, verify = false } = options
  if (verify) verifyGraph(graph)
  const precise = mode === 'fast' && precision !== 'ieee' ? withPrecision(graph, precision) : graph
  const integers = mode === 'fast' && fuse ? multiplyIntegers(precise, target) : precise
  const weighed = fuse ? orderWeights(integers, target, mode) : integers
  const rewrite = (of: Graph): ReturnType<typeof rewriteGraph> =>
    rewriteGraph(of, { mode, fold: (node) => fold(node, mode) })
  const { graph: plain, applied } = rewrite(weighed)
  const wide = mode === 'fast' && fuse ? distributeSums(splitRows(takeWeightQuotients(widenRows(plain)))) : plain
  const rewritten = wide === plain ? plain : rewrite(wide).graph
  const laidOut = (known: Graph): Graph => {
    if (verify) verifyGraph(known)
    const inOrder = fuse
      ? keepOrder(orderTogether(orderWindows(padChannels(known, target, mode), target, mode)))
      : known
    const aligned = fuse && options.aligns !== false ? alignProducts(inOrder, target, mode) : inOrder
    const apart = fuse ? divideScatters(chunkPositions(aligned, target), target, mode) : aligned
    return boundOperands(boundScans(apart, target, mode), operandLimits(target))
  }
  if (mode !== 'fast' || !fuse) return { graph: laidOut(rewritten), applied }
  const known = divideOnce(sumRowsFirst(takeKnownSums(rewritten)))
  const added = takeKnownSums(known, true)
  const result = { graph: laidOut(takeScaledSums(known)), applied }
  return added === known ? result : { ...result, added: laidOut(takeScaledSums(added)) }
}

/** The passes from a graph to a launch plan; graphs inside regions go through the same. */
function compileProgram(
  graph: Graph,
  name: string,
  options: CompileOptions,
  reuse: Reuse,
  budgets: Budgets = {},
): Kept & { readonly graph: Graph; readonly applied: FusionReport['rewrites'] } {
  const { mode, target, fuse = true, verify = false } = options
  const { graph: bounded, applied, added } = prepared(graph, options)
  const made = new Map<FusionPlan, Kept>()
  const assembleOnce = (planned: PlannedGraph): Kept => {
    const have = made.get(planned.plan)
    if (have !== undefined) return have
    const { plan } = planned
    checkStored(planned.graph, plan, target, fuse)
    const assembled = assemble(name, planned.graph, plan, target, mode, reuse, (node, graphOf, label, over) => {
      // Inputs and results of an inner program stand wherever the program around it has them.
      const within = { ...options, target: { ...target, valueBuffers: 0 } }
      const kept = compileProgram(graphOf(node), label, within, { donated: [], over })
      return { program: kept.assembled.program, kept }
    })
    const kept = { source: graph, plan, assembled, passes: planned.passes }
    made.set(planned.plan, kept)
    return kept
  }
  const arenaOf = (p: PlannedGraph): number => assembleOnce(p).assembled.memory.arenaBytes
  const overwritable = graph.params.map((_, i) =>
    reuse.donated[i] === true ? 'donated' : reuse.over.includes(i) ? 'perhaps' : undefined,
  )
  const trials = new ProgramTrials(mode)
  const plan = (graph: Graph, within: Budgets): PlannedGraph =>
    planGraph(graph, target, mode, fuse, overwritable, within, arenaOf, trials)
  // Contractions that memory does not reach are written out where that alone spares storing them.
  const out = fuse ? writeOutContractions(bounded, target, mode) : bounded
  const isBeyond = (graph: Graph): boolean => isStoredBeyond(plan(graph, {}), target)
  const isSpared = out !== bounded && isBeyond(bounded) && !isBeyond(out)
  const chosen = isSpared ? out : bounded
  const planBest = (graph: Graph): PlannedGraph => {
    const first = plan(graph, budgets)
    // Weights that are made again need one number a row.
    const normal = makesWeightsAgain(first.plan) ? normaliseWeights(graph) : graph
    return normal === graph ? first : quickerOf(first, plan(normal, budgets))
  }
  const attempt = (graph: Graph): Attempt => {
    const best = planBest(graph)
    // Worth it where weights are made again: where they are stored, sums over them are cheap.
    const other = added === undefined || graph !== bounded ? undefined : planBest(added)
    const planned = other === undefined || !makesWeightsAgain(other.plan) ? best : quickerOf(other, best)
    if (verify) verifyGraph(planned.graph)
    const kept = assembleOnce(planned)
    checkAssembled(name, kept.assembled, kept.plan, target)
    return { planned, kept }
  }
  const { planned, kept } = fuse
    ? wholeOrInStrips(chosen, attempt, {
        mode,
        most: target.mostBytes.value,
        plan: (graph) => plan(graph, {}),
        planBody: (body) => plan(prepared(body, options).graph, {}),
        moving: (bytes) => movingSeconds(bytes, target),
        planBeyond: () =>
          nodesOf(bounded).some((n) => bytesOf(n) > target.mostBytes.value)
            ? planGraph(bounded, { ...target, mostBytes: unlimited }, mode, fuse, overwritable, {}, arenaOf, trials)
            : undefined,
      })
    : attempt(chosen)
  if (verify) {
    const { program } = kept.assembled
    for (const s of program.steps)
      if (s.kind === 'kernel') verifyKernel(s.kernel)
      else if (s.kind === 'product') verifyProduct(s, program)
  }
  return { ...kept, graph: planned.graph, applied }
}

/** Compiles a graph for a target. */
export const compileGraph = (graph: Graph, options: CompileOptions): Compiled =>
  compiling(nodesOf(graph).length, () => compileWhole(graph, options))

function compileWhole(graph: Graph, options: CompileOptions): Compiled {
  const { mode, target, name = 'program', donated = [], budgets } = options
  const started = performance.now()
  const attempt = (options: CompileOptions) => compileProgram(graph, name, options, { donated, over: [] }, budgets)
  let made: ReturnType<typeof attempt>
  try {
    made = attempt(options)
  } catch (error) {
    // Copies beside products take memory that a budget may lack.
    if (!(error instanceof UserError) || error.code !== 'E_OUT_OF_MEMORY' || target.rowAlignment === undefined)
      throw error
    made = attempt({ ...options, aligns: false })
  }
  const elapsed = performance.now() - started
  const report = makeReport(name, made, target, mode, made.applied, elapsed)
  return { program: made.assembled.program, report, graph: made.graph, plan: made.plan }
}
