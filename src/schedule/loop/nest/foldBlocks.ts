/**
 * Folds of several functions over long axes, taken in blocks: a loop carries what is folded so far, and in it functions get nests of their own, whose
 * results stand near (functionsApart.ts).
 */
import * as ix from '../../../affine/expr.ts'
import { carriedFold } from '../../../kernel/carried.ts'
import {
  type Carry,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  operandsOf,
  type Stmt,
  type ValueId,
} from '../../../kernel/ir.ts'
import { liveLets, storeOperands } from '../../../kernel/walk.ts'
import { combinerOp } from '../../../scalar/ops.ts'
import { type LoopMachine, nearBytes } from '../../../target/loops.ts'
import { isFunction } from '../../price.ts'
import { loopsApart } from '../ir/joined.ts'
import { foldsOf, type LoopSchedule, type NestSchedule } from '../ir/schedule.ts'
import { accumulatorDType, type Fold, isTotal, outerValues } from '../ir/steps.ts'
import type { KernelFacts } from '../tiles/places.ts'
import { Terms } from './terms.ts'

/** Blocks of a nest's folds: the axis that is cut, and how many of its indices a round takes. */
interface Cut {
  readonly folds: readonly Fold[]
  readonly axis: string
  readonly block: number
}

/** The part with its folds of several functions in loops over blocks; undefined where there is none. */
export function foldsInBlocks({ part, axes, body }: LoopSchedule, facts: KernelFacts): KernelPart | undefined {
  const { loops } = facts.machine
  if (loops === undefined || part.body.some((s) => s.kind === 'loop')) return undefined
  const terms = new Terms(part, axes)
  const cuts = body.steps.flatMap((s) => {
    const cut = s.kind === 'nest' ? cutOf(s, terms, facts, loops) : undefined
    return cut === undefined ? [] : [cut]
  })
  return cuts.length === 0 ? undefined : withoutUnused(cuts.reduce((p, cut) => inBlocks(p, cut, terms), part))
}

/** How a nest is cut: where it folds alone, computes several functions at all of its points, and these are more than stand near. */
function cutOf(nest: NestSchedule, terms: Terms, facts: KernelFacts, loops: LoopMachine): Cut | undefined {
  const folds = foldsOf(nest)
  if (folds.length === 0 || folds.length < nest.roots.length || nest.slide !== undefined) return undefined
  const order = loopsApart(nest)
  const own = new Set<ValueId>()
  const takes = (f: Fold): boolean =>
    f.combiner in combinerOp &&
    f.acc === undefined &&
    accumulatorDType(f) === f.dtype &&
    !(facts.strict && isTotal(f)) &&
    !terms.isStaged(f.id) &&
    terms.lets.get(f.id)?.op.kind === 'reduce' &&
    terms.isInline(f, nest.folded, own)
  if (!folds.every(takes)) return undefined
  const dtypeOf = (id: ValueId): LetStmt['dtype'] => terms.lets.get(id)?.dtype ?? 'f32'
  const functions = [...own].filter((id) => {
    const l = terms.lets.get(id)
    return l !== undefined && order.every((a) => l.axes.includes(a)) && isFunction(l, dtypeOf, facts.machine.prices)
  })
  if (functions.length < 2) return undefined
  const most = nearBytes(loops) / 8
  const points = terms.countOf(order)
  if (points <= 2 * most) return undefined
  for (const axis of order) {
    if (!nest.folded.includes(axis) || !terms.isWhole(axis)) continue
    const extent = terms.countOf([axis])
    const block = Math.floor((most * extent) / points)
    const least = axis === nest.vector ? 4 * loops.lanes : 1
    if (block >= least && block < extent)
      return { folds, axis, block: block < least * 4 ? block : block - (block % (4 * loops.lanes)) }
  }
  return undefined
}

/** A part whose folds of one nest are a loop over blocks of an axis. */
function inBlocks(part: KernelPart, { folds, axis, block }: Cut, terms: Terms): KernelPart {
  const names = new Set(part.axes.map((a) => a.name))
  let name = `${axis}_block`
  while (names.has(name)) name += 's'
  const { extent } = part.axes.find((a) => a.name === axis) ?? { extent: 1 }
  const place = new Map([[axis, ix.axis(name, extent)]])
  const here = new Map<ValueId, ValueId>()
  const inits: LetStmt[] = []
  const steps: LetStmt[] = []
  const carries: Carry[] = []
  for (const { id, combiner } of folds) {
    const l = terms.lets.get(id)
    if (l?.op.kind !== 'reduce') continue
    const arg = terms.at(l.op.arg, place, here)
    steps.push(...terms.take())
    const [init, param, folded, next] = [terms.fresh(), terms.fresh(), terms.fresh(), terms.fresh()]
    const over = l.op.axes.map((a) => (a === axis ? name : a))
    const term: LetStmt = { ...l, id: folded, op: { ...l.op, arg, axes: over } }
    const { identity, step, carry } = carriedFold(combiner as keyof typeof combinerOp, term, {
      init,
      param,
      next,
      result: id,
    })
    inits.push(identity)
    steps.push(term, step)
    carries.push(carry)
  }
  const loop: LoopStmt = { kind: 'loop', axis: name, block, carries, body: steps }
  const made = new Set<ValueId>(folds.map((f) => f.id))
  const before: Stmt[] = []
  const after: Stmt[] = []
  let left = folds.length
  for (const s of part.body) {
    if (s.kind === 'let' && folds.some((f) => f.id === s.id)) left--
    else if (left > 0 && s.kind !== 'store' && !readsOf(s).some((o) => made.has(o))) before.push(s)
    else {
      for (const id of definedBy(s)) made.add(id)
      after.push(s)
    }
  }
  return { ...part, axes: [...part.axes, { name, extent }], body: [...before, ...inits, loop, ...after] }
}

const readsOf = (s: LetStmt | LoopStmt): readonly ValueId[] => (s.kind === 'let' ? operandsOf(s.op) : outerValues(s))

/** The values that what follows a statement takes from it. */
const definedBy = (s: Stmt): readonly ValueId[] =>
  s.kind === 'let' ? [s.id] : s.kind === 'loop' ? s.carries.map((c) => c.result) : []

/** The part without values that nothing uses any more. */
function withoutUnused(part: KernelPart): KernelPart {
  const lets = part.body.filter((s) => s.kind === 'let')
  const roots = part.body.flatMap((s) =>
    s.kind === 'store' ? storeOperands(s) : s.kind === 'loop' ? outerValues(s) : [],
  )
  const used = new Set<Stmt>(liveLets(lets, roots))
  return { ...part, body: part.body.filter((s) => s.kind !== 'let' || used.has(s)) }
}
