/**
 * Strips: large values that a plan would store, computed a strip of an axis at a time, with all that they are made of and that is made of them (strip
 * mining). A product with a vocabulary under a loss stores its logits a strip of rows at a time, both ways: rows of gradients are written by strips,
 * what sums over rows is carried from strip to strip in the dtype of sums. So a program needs memory for one strip, at the price of reading again what
 * every strip reads whole and of moving what it carries.
 */
import { gcd } from '../../affine/gcd.ts'
import { type ErrorCode, UserError } from '../../diagnostics/errors.ts'
import { inOrigin } from '../../diagnostics/origin.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import type { NumericsMode } from '../../kernel/ir.ts'
import { bytesOf, storageOf } from '../../plan/body/region.ts'
import { storedBytes } from '../../plan/body/stored.ts'
import { type FusionPlan, storedBy } from '../../plan/plan.ts'
import { isFloat } from '../../types/dtype.ts'
import type { Kept } from '../assemble.ts'
import { type PlannedGraph, secondsOf } from '../planGraph.ts'
import { isFolded } from './axes.ts'
import { inStrips } from './build.ts'
import { type StripRegion, stripRegions } from './region.ts'

/** Bytes from which on a value is to stand in strips where that costs next to nothing, and the least that a strip is cut to where memory asks for it. */
const usual = 2 ** 28
const least = 2 ** 16

/** What strips may cost where memory does not ask for them: modelled time over that of the whole. */
const mostSeconds = 1.08

/** The same where the whole spares storing a value that memory does not reach: far less, since the two are of different kinds. */
const mostOfSparing = 0.5

/** Values that are tried, and regions that a program is cut into one after the other. */
const mostValues = 4
const mostRegions = 8

/** What indices of a strip are multiples of where there are more of them: blocks of products. */
const block = 128

/** A plan that was carried out: its memory is within all limits. */
export interface Attempt {
  readonly planned: PlannedGraph
  readonly kept: Kept
}

/** Intermediate values that a plan stores, those of more than `large` bytes, the largest first. */
function largeOf({ graph, plan }: PlannedGraph, large: number): readonly Node[] {
  const results = new Set<Node>([...graph.outputs, ...graph.params].map(storageOf))
  return [...new Set(plan.groups.flatMap(storedBy))]
    .map((value) => ({ value, bytes: storedBytes(value, plan.stored) }))
    .filter(({ value, bytes }) => bytes > large && !results.has(storageOf(value)))
    .sort((p, q) => q.bytes - p.bytes)
    .slice(0, mostValues)
    .map(({ value }) => value)
}

/** Parts of the axis in a strip, so that all of a value, which has `bytes`, is at most `most` for one strip; undefined where one part is more. */
function rowsOf({ extent, axisOf }: StripRegion, value: Node, most: number): number | undefined {
  const bytes = bytesOf(value)
  const indices = (value.shape[axisOf.get(value) ?? 0] ?? 1) / extent
  const grain = block / gcd(block, indices)
  const rows = Math.floor((most * extent) / bytes)
  if (rows < 1) return undefined
  const even = Math.ceil(extent / Math.ceil(extent / rows))
  const whole = Math.ceil(even / grain) * grain
  return whole <= rows ? whole : even
}

/** Whether strips give the bits that the whole gives: none carries a sum whose order shows. */
const keepsOrder = (region: StripRegion): boolean =>
  region.results.every((n) => !isFolded(n, region.axisOf.get(n) ?? 0) || !isFloat(n.dtype))

/** Products of a region that is cut without being asked. */
const mostProducts = 3

/** Whether a region is what the model prices well: few products, of which none loses a packed constant by standing in a loop. */
const isSimple = ({ members, whole }: StripRegion): boolean =>
  members.filter((n) => familyOf(n) === 'contraction').length <= mostProducts && !whole.some((n) => n.op === 'constant')

/** A program in strips: its graph and the plan of it, and modelled seconds of the loops. */
interface Cut {
  readonly planned: PlannedGraph
  readonly inLoops: number
}

/** Plans of a program, and of what a loop of it does in a step. */
export interface Planning {
  readonly mode: NumericsMode
  /** Most bytes of a value. */
  readonly most: number
  readonly plan: (graph: Graph) => PlannedGraph
  readonly planBody: (body: Graph) => PlannedGraph
  /** Seconds of moving bytes to or from the farthest memory. */
  readonly moving: (bytes: number) => number
  /** The plan that stores what it likes, where some value is more than memory reaches. */
  readonly planBeyond: () => PlannedGraph | undefined
}

/**
 * Bytes of what is carried that kernels read and write: the end of a product hides less of that than the model says. The price of a library's call that
 * adds to what it reads says it.
 */
function bytesByKernels({ groups }: FusionPlan, carried: ReadonlyMap<number, number>): number {
  const left = new Map(carried)
  for (const g of groups) {
    if (g.kind !== 'kernel' || g.called?.addend === undefined) continue
    const tensor = g.body.loads.get(g.called.addend)
    const added = tensor === undefined ? undefined : storageOf(tensor.node)
    if (added?.op === 'param') left.delete(added.attrs.index)
  }
  return [...left.values()].reduce((a, b) => a + b, 0)
}

const secondsOfCut = ({ planned, inLoops }: Cut): number => secondsOf(planned.plan) + inLoops

/** The quickest way to have one of the largest values of a plan in strips of at most `large` bytes. */
function cutOnce(
  { planned, inLoops }: Cut,
  large: number,
  isMeant: (region: StripRegion) => boolean,
  { mode, plan, planBody, moving }: Planning,
): Cut | undefined {
  const cuts: Cut[] = []
  const seen = new Set<string>()
  for (const value of largeOf(planned, large))
    for (const region of stripRegions(planned.graph, value, large)) {
      const rows = rowsOf(region, value, large)
      const key = region.members.map((n) => `${n.id}:${region.axisOf.get(n)}`).join()
      if (rows === undefined || rows >= region.extent || seen.has(key)) continue
      seen.add(key)
      if (!isMeant(region) || (mode === 'strict' && !keepsOrder(region))) continue
      const { graph, body, steps, carried } = inOrigin(value.origin, () => inStrips(planned.graph, region, rows))
      const step = planBody(body).plan
      const seconds = secondsOf(step) + moving(2 * bytesByKernels(step, carried))
      cuts.push({ planned: plan(graph), inLoops: inLoops + steps * seconds })
    }
  return cuts.sort((p, q) => secondsOfCut(p) - secondsOfCut(q))[0]
}

/** A program with its large values in strips, as far as they may be; undefined where none may. */
function cutAll(
  planned: PlannedGraph,
  large: number,
  planning: Planning,
  isMeant: (region: StripRegion) => boolean = () => true,
): Cut | undefined {
  let cut: Cut | undefined
  for (let n = 0; n < mostRegions; n++) {
    const next = cutOnce(cut ?? { planned, inLoops: 0 }, large, isMeant, planning)
    if (next === undefined) return cut
    cut = next
  }
  return cut
}

const ofMemory: readonly ErrorCode[] = ['E_OVERFLOW', 'E_OUT_OF_MEMORY']

/** What `attempt` gives; undefined where memory does not allow it, of which `failed` is told. */
function tried(
  graph: Graph,
  attempt: (graph: Graph) => Attempt,
  failed?: (error: UserError) => void,
): Attempt | undefined {
  try {
    return attempt(graph)
  } catch (error) {
    if (!(error instanceof UserError) || !ofMemory.includes(error.code)) throw error
    failed?.(error)
    return undefined
  }
}

/**
 * Carries a graph out whole, or with its large values in strips: where that costs next to nothing, where it takes less time than to spare storing values
 * that memory does not reach, and where memory asks for it, as `attempt` says by throwing E_OVERFLOW or E_OUT_OF_MEMORY. What it says of the whole is
 * thrown where strips do not help.
 */
export function wholeOrInStrips(graph: Graph, attempt: (graph: Graph) => Attempt, planning: Planning): Attempt {
  let failed: UserError | undefined
  const whole = tried(graph, attempt, (error) => {
    failed = error
  })
  const beyond = planning.planBeyond()
  const planned = beyond ?? whole?.planned ?? planning.plan(graph)
  if (whole !== undefined) {
    const cut = cutAll(planned, Math.min(usual, planning.most), planning, beyond === undefined ? isSimple : undefined)
    const most = secondsOf(whole.planned.plan) * (beyond === undefined ? mostSeconds : mostOfSparing)
    return cut === undefined || secondsOfCut(cut) > most ? whole : (tried(cut.planned.graph, attempt) ?? whole)
  }
  for (let large = Math.min(usual, planning.most); large >= least; large /= 4) {
    const cut = cutAll(planned, large, planning)
    const made = cut === undefined ? undefined : tried(cut.planned.graph, attempt)
    if (made !== undefined) return made
  }
  throw failed
}
