/** Planning with a view to memory: fusion, then what the backward pass computes again, then fusion of that; under a budget. */
import { UserError } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { bytesOf, isFree } from '../plan/body/region.ts'
import { CandidateMemo } from '../plan/cost/candidateMemo.ts'
import { type Overwritable, planFusion } from '../plan/fuse/planFusion.ts'
import { liveBytes } from '../plan/memory/liveness.ts'
import type { FusionPlan } from '../plan/plan.ts'
import { type Phases, phasesOf } from '../plan/remat/phases.ts'
import { rematerialise } from '../plan/remat/rematerialise.ts'
import {
  type Choice,
  choiceOf,
  residentPrice,
  type SavedValue,
  savedBetween,
  valuesToRecompute,
} from '../plan/remat/saved.ts'
import { atWorkingSet, type Machine, movingSeconds } from '../target/machine.ts'
import { priceOfSchedules } from './candidatePrice.ts'

/** What stands between the forward and the backward pass of a plan. */
export interface Passes {
  readonly saved: readonly (SavedValue & { readonly choice: Choice })[]
  /** Forward values that are not kept: the backward pass computes them again. */
  readonly again: readonly (SavedValue & { readonly choice: Choice })[]
  /** Modelled seconds the plan takes longer than the one that keeps what it likes (negative: it is faster). */
  readonly extraSeconds: number
  /** Bytes of intermediate values at once, in this plan and in the one that keeps what it likes. */
  readonly liveBytes: number
  readonly liveBytesKeepingAll: number
}

export interface PlannedGraph {
  /** The graph that was planned: with copies of what is computed again. */
  readonly graph: Graph
  readonly plan: FusionPlan
  /** Undefined where nothing is differentiated in reverse. */
  readonly passes: Passes | undefined
}

/** Modelled seconds of the kernels of a plan. */
export const secondsOf = (plan: FusionPlan): number =>
  plan.groups.reduce((t, g) => t + (g.kind === 'kernel' || g.kind === 'union' ? g.cost.seconds : 0), 0)

/** Of two plans the one that is modelled to take less; of equal ones the second. */
export const quickerOf = (p: PlannedGraph, q: PlannedGraph): PlannedGraph =>
  secondsOf(q.plan) <= secondsOf(p.plan) ? q : p

const bytesKept = (saved: readonly SavedValue[]): number => saved.reduce((n, s) => n + (s.result ? 0 : s.bytes), 0)

/** A plan, and modelled seconds to compare it with others by. */
interface Ranked {
  readonly planned: PlannedGraph
  readonly rank: number
}

/**
 * Trials of the plannings of a program: as it is, in strips and with other forms of what it computes it is the same in most places. Trials of one machine and
 * of one working set, by which moving bytes is priced, are remembered together.
 */
export class ProgramTrials {
  private readonly mode: NumericsMode
  private readonly memos = new Map<Machine, Map<number, CandidateMemo>>()

  constructor(mode: NumericsMode) {
    this.mode = mode
  }

  of(target: Machine, held: number): CandidateMemo {
    const memos = this.memos.get(target) ?? new Map<number, CandidateMemo>()
    this.memos.set(target, memos)
    const memo = memos.get(held) ?? new CandidateMemo(priceOfSchedules(target, this.mode, held))
    memos.set(held, memo)
    return memo
  }
}

/** Plans a graph at several prices of memory; what does not depend on the price is done once. */
class MemoryPlanner {
  private readonly graph: Graph
  private readonly target: Machine
  private readonly mode: NumericsMode
  private readonly overwritable: readonly Overwritable[]
  private readonly phases: Phases | undefined
  private readonly plan: FusionPlan
  private readonly saved: readonly SavedValue[]
  private readonly trials: CandidateMemo

  constructor(
    graph: Graph,
    whole: Machine,
    mode: NumericsMode,
    fuse: boolean,
    overwritable: readonly Overwritable[],
    trials: ProgramTrials,
  ) {
    // Data goes through the nearer memories as a whole, whatever kernels it is cut into: a kernel of few bytes is not near for that alone.
    const held = compulsoryBytes(graph)
    const target = atWorkingSet(whole, held)
    this.graph = graph
    this.overwritable = overwritable
    this.target = target
    this.mode = mode
    this.phases = phasesOf(graph)
    this.trials = trials.of(whole, held)
    this.plan = planFusion(graph, target, mode, fuse, overwritable, undefined, this.trials)
    this.saved = this.phases === undefined ? [] : savedBetween(graph, this.plan, this.phases)
  }

  /** The plan that keeps what is fastest kernel by kernel. */
  keeping(): PlannedGraph {
    const { graph, plan, saved, phases } = this
    return { graph, plan, passes: phases === undefined ? undefined : this.describe(graph, plan, saved, []) }
  }

  /**
   * The plan where a resident byte costs `price` times the moving of it. Of two, one for contractions that are computed again in passing and one for those
   * that are stored once more, the quicker one; where a budget asks for less, what they keep counts.
   */
  at(price: number): PlannedGraph {
    const { graph, target, phases, plan, saved } = this
    if (phases === undefined || bytesKept(saved) === 0) return this.keeping()
    const cut = (inPassing: boolean): Set<Node> => valuesToRecompute(graph, phases, target, plan, price, inPassing)
    const [apart, passing] = [cut(false), cut(true)]
    const found = this.computingAgain(passing, price)
    if (apart.size === passing.size && [...apart].every((n) => passing.has(n))) return found.planned
    const other = this.computingAgain(apart, price)
    return (other.rank <= found.rank ? other : found).planned
  }

  /** The plan that computes values again, or the plan that keeps all where that costs less. */
  private computingAgain(values: ReadonlySet<Node>, price: number): Ranked {
    const { graph, target, mode, phases, plan, saved } = this
    const costOf = (p: FusionPlan, kept: readonly SavedValue[], by = price): number =>
      secondsOf(p) + by * movingSeconds(bytesKept(kept), target)
    const beyond = price - residentPrice
    const keeping = { planned: this.keeping(), rank: costOf(plan, saved, beyond) }
    const again = saved.filter((s) => !s.result && values.has(s.node))
    if (phases === undefined || again.length === 0) return keeping
    const made = rematerialise(graph, phases, values)
    const early = new Set([...phases.early].filter((n) => !isFree(n)))
    const apart = { early, copies: made.copies, backward: made.backward }
    const next = planFusion(made.graph, target, mode, true, this.overwritable, apart, this.trials)
    const nextPhases = phasesOf(made.graph)
    const kept = nextPhases === undefined ? [] : savedBetween(made.graph, next, nextPhases)
    const forced = again.some((s) => s.node.origin.checkpoint !== undefined || s.bytes > target.mostBytes.value)
    if (costOf(next, kept) > costOf(plan, saved) && !forced) return keeping
    const passes = this.describe(made.graph, next, kept, again)
    return { planned: { graph: made.graph, plan: next, passes }, rank: costOf(next, kept, beyond) }
  }

  private describe(graph: Graph, plan: FusionPlan, saved: readonly SavedValue[], again: readonly SavedValue[]): Passes {
    const kept = new Set<Node>(saved.map((s) => s.node))
    const withChoice = (s: SavedValue): SavedValue & { readonly choice: Choice } => ({
      ...s,
      choice: choiceOf(s.node, kept, this.target),
    })
    return {
      saved: saved.map(withChoice),
      again: again.map(withChoice),
      extraSeconds: secondsOf(plan) - secondsOf(this.plan),
      liveBytes: liveBytes(graph, plan),
      liveBytesKeepingAll: liveBytes(this.graph, this.plan),
    }
  }
}

/** Bytes of the inputs and results of a graph. */
const compulsoryBytes = (graph: Graph): number =>
  [...new Set<Node>([...graph.params, ...graph.outputs])].reduce((n, x) => n + bytesOf(x), 0)

/** Limits of a program's memory, in bytes. */
export interface Budgets {
  /** Of intermediate values at once. */
  readonly memory?: number | undefined
  /** Of what the forward pass keeps for the backward pass. */
  readonly saved?: number | undefined
}

/** The last price a budget sweeps, each the double of the one before: all that can be computed again is. */
const steepest = 2 ** 14
/** Halvings of the last interval of prices. */
const refinements = 4

/**
 * Plans a graph inside its budgets (`overwritable`: its inputs, by number), as `arenaOf` measures the intermediate values of a plan; at the default price of memory
 * without any. Throws E_OUT_OF_MEMORY with the least it can reach.
 */
export function planGraph(
  graph: Graph,
  target: Machine,
  mode: NumericsMode,
  fuse: boolean,
  overwritable: readonly Overwritable[],
  budgets: Budgets,
  arenaOf: (planned: PlannedGraph) => number,
  trials: ProgramTrials,
): PlannedGraph {
  const planner = new MemoryPlanner(graph, target, mode, fuse, overwritable, trials)
  const first = fuse ? planner.at(residentPrice) : planner.keeping()
  const measures = [
    { what: 'intermediate values at once', budget: budgets.memory, of: arenaOf },
    {
      what: 'values kept for the backward pass',
      budget: budgets.saved,
      of: (p: PlannedGraph): number => bytesKept(p.passes?.saved ?? []),
    },
  ].flatMap(({ what, budget, of }) => (budget === undefined ? [] : [{ what, budget, of }]))
  if (measures.length === 0) return first
  const over = (p: PlannedGraph): typeof measures => measures.filter((m) => m.of(p) > m.budget)
  const least = measures.map((m) => m.of(first))
  let planned = first
  let price = residentPrice
  while (fuse && over(planned).length > 0 && price < steepest) {
    price *= 2
    planned = planner.at(price)
    measures.forEach((m, i) => {
      least[i] = Math.min(least[i] ?? 0, m.of(planned))
    })
  }
  const [failed] = over(planned)
  if (failed === undefined) {
    // The least price that fits recomputes least.
    let tooLow = price / 2
    for (let step = 0; step < refinements && planned !== first; step++) {
      const middle = Math.sqrt(tooLow * price)
      const tried = planner.at(middle)
      if (over(tried).length > 0) tooLow = middle
      else [price, planned] = [middle, tried]
    }
    return planned
  }
  throw new UserError(
    'E_OUT_OF_MEMORY',
    `${failed.what} take ${least[measures.indexOf(failed)]} bytes, more than the budget of ${failed.budget}`,
    { help: 'this is the least that computing values again reaches: raise the budget, or use smaller batches' },
  )
}
