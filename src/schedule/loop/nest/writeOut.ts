/**
 * Sums over few indices, written out: a window's taps are terms side by side, each with index maps and masks of its own, of which most hold. So no loop of a
 * few rounds is entered at every point, what terms share (weights, masks of rows) leaves the loops around them, and what follows the sum is
 * computed where it stands.
 */
import * as ix from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { type KernelPart, type LetStmt, operandsOf, type Stmt, type TileOp, type ValueId } from '../../../kernel/ir.ts'
import { liveLets, storeOperands } from '../../../kernel/walk.ts'
import { fastChunkOf, strictChunk } from '../../../scalar/summation.ts'
import { dtypeBytes, isWide } from '../../../types/dtype.ts'
import { isFunction } from '../../price.ts'
import { loopsApart } from '../ir/joined.ts'
import { foldsOf, type LoopSchedule, type LoopStep, type NestSchedule } from '../ir/schedule.ts'
import { accumulatorDType, type Fold, operandsOfRoot } from '../ir/steps.ts'
import type { KernelFacts } from '../tiles/places.ts'
import { crowdSets } from './sets.ts'
import { Terms } from './terms.ts'

/** Most terms of a sum that is written out, and most statements that all terms of all sums of a nest become. */
const [mostTerms, mostStatements] = [64, 512]

/** Elements that lanes may be apart: two vectors hold four of them. */
const mostApart = 3

/** The part with sums over few indices written out, where lanes run along other axes; undefined where there is none. What is `read` beside it stays. */
export function writeOutSums(
  { part, axes, body }: LoopSchedule,
  facts: KernelFacts,
  isTaken: (nest: NestSchedule) => boolean,
  read: readonly ValueId[],
): KernelPart | undefined {
  if (part.body.some((s) => s.kind === 'loop')) return undefined
  const writer = new Writer(new Terms(part, axes), facts)
  const folds = body.steps.flatMap((s) => (s.kind === 'nest' && !isTaken(s) && writer.takes(s) ? foldsOf(s) : []))
  return folds.length === 0 ? undefined : writer.write(part, new Map(folds.map((f) => [f.id, f])), body.steps, read)
}

/** Whether a sum's terms may be taken one by one: its accumulator has its dtype, so do they, and it is not read at other places. */
export function isPlainSum(fold: Fold, terms: Terms, strict: boolean): boolean {
  const op = terms.lets.get(fold.id)?.op
  if (terms.isStaged(fold.id)) return false
  if (fold.combiner !== 'sum' || (strict && accumulatorDType(fold) !== fold.dtype)) return false
  return op?.kind === 'dot' || (op?.kind === 'reduce' && terms.lets.get(op.arg)?.dtype === fold.dtype)
}

class Writer {
  private readonly terms: Terms
  private readonly facts: KernelFacts
  private readonly strict: boolean

  constructor(terms: Terms, facts: KernelFacts) {
    this.terms = terms
    this.facts = facts
    this.strict = facts.strict
  }

  /** Whether the sums of a nest are written out: of few terms, lanes beside them, each term computed at its point. */
  takes(nest: NestSchedule): boolean {
    const { vector, folded, inMemory } = nest
    const folds = foldsOf(nest)
    if (folds.length === 0 || inMemory || vector === undefined || folded.includes(vector)) return false
    if (folded.some((a) => !this.terms.isWhole(a))) return false
    const count = this.terms.pointsOf(folded).length
    if (count > mostTerms) return false
    const own = new Set<ValueId>()
    const takes = (f: Fold): boolean =>
      f.axes.length === folded.length && isPlainSum(f, this.terms, this.strict) && this.terms.isInline(f, folded, own)
    if (!folds.every(takes) || count * (own.size + folds.length) > mostStatements) return false
    if ([...own].some((id) => this.crowdsSets(id, folded))) return false
    return [...own].every((id) => this.isNear(id, vector) && !this.isFunction(id))
  }

  /**
   * Whether a load brings lines for all terms of which the next step, which reads on in each, finds few: a loop over the terms takes several groups of
   * lanes of one line before the next.
   */
  private crowdsSets(id: ValueId, folded: readonly string[]): boolean {
    const op = this.terms.lets.get(id)?.op
    const p = op?.kind === 'load' ? this.facts.params.get(op.param) : undefined
    if (op?.kind !== 'load' || p?.format !== 'plain') return false
    const flat = ix.flatten(op.index, p.shape)
    const bytes = (at: ReadonlyMap<string, number>): number =>
      dtypeBytes(p.dtype) * folded.reduce((n, a) => n + (ix.strideOf(flat, a) ?? 0) * (at.get(a) ?? 0), 0)
    return crowdSets(this.terms.pointsOf(folded).map(bytes))
  }

  /** Whether a value takes many instructions, which are not written out once for every term. */
  private isFunction(id: ValueId): boolean {
    const { lets } = this.terms
    const s = lets.get(id)
    return s !== undefined && isFunction(s, (i) => lets.get(i)?.dtype ?? s.dtype, this.facts.machine.prices)
  }

  /** Whether lanes of a load stand side by side, or nearly: others are dearer than any loop around them. */
  private isNear(id: ValueId, vector: string): boolean {
    const op = this.terms.lets.get(id)?.op
    const p = op?.kind === 'load' ? this.facts.params.get(op.param) : undefined
    if (op?.kind !== 'load' || p === undefined) return true
    const stride = ix.strideOf(ix.flatten(op.index, p.shape), vector)
    return stride !== undefined && Math.abs(stride) <= mostApart
  }

  /** The part with these sums as terms: where they are used, or in places of their own. */
  write(
    part: KernelPart,
    folds: ReadonlyMap<ValueId, Fold>,
    steps: readonly LoopStep[],
    read: readonly ValueId[],
  ): KernelPart {
    const body: Stmt[] = []
    const stored = part.body.flatMap((s) => (s.kind === 'store' ? [s.param] : []))
    for (const s of part.body) {
      const fold = s.kind === 'let' ? folds.get(s.id) : undefined
      if (s.kind !== 'let' || fold === undefined) {
        body.push(s)
        continue
      }
      this.sum(s, fold)
      const made = this.terms.take()
      const last = made.pop()
      invariant(last !== undefined, `sum %${s.id} of no terms`)
      if (this.isInPlace(fold, steps, stored)) body.push(...made, { ...s, op: last.op })
      else body.push(...made, last, { ...s, op: { kind: 'stage', of: last.id } })
    }
    const live = new Set<Stmt>(
      liveLets(
        body.filter((s) => s.kind === 'let'),
        [...read, ...body.flatMap((s) => (s.kind === 'store' ? storeOperands(s) : []))],
      ),
    )
    return { ...part, body: body.filter((s) => s.kind !== 'let' || live.has(s)) }
  }

  /**
   * Whether a sum is computed where it is used: at its own points alone, so not again and again, and none of what it reads at other points is written
   * at this one.
   */
  private isInPlace(fold: Fold, steps: readonly LoopStep[], stored: readonly string[]): boolean {
    const own = new Set<ValueId>()
    this.terms.isInline(fold, fold.axes, own)
    for (const id of own) {
      const op = this.terms.lets.get(id)?.op
      if (op?.kind === 'load' && stored.some((p) => this.facts.mayAlias(p, op.param))) return false
    }
    return steps.every((s) => {
      if (!this.reads(s, fold.id)) return true
      const order = s.kind === 'nest' ? loopsApart(s) : []
      return s.kind === 'nest' && order.length === fold.kept.length && fold.kept.every((a) => order.includes(a))
    })
  }

  /** Whether a step needs a sum: computing with it, not with what another step makes of it. */
  private reads(step: LoopStep, id: ValueId): boolean {
    if (step.kind === 'product' || step.kind === 'loop') return true
    const roots = step.kind === 'nest' ? step.roots : step.kind === 'copy' ? [step.root] : []
    const seen = new Set(step.kind === 'scan' ? operandsOf(step.stmt.op) : roots.flatMap(operandsOfRoot))
    for (const at of seen) {
      const op = this.terms.lets.get(at)?.op
      if (at === id) return true
      if (op === undefined || this.terms.isFolded(at)) continue
      for (const o of operandsOf(op)) seen.add(o)
    }
    return false
  }

  /** Emits a sum as chains of terms in order, as long as chunks are, whose totals a balanced tree adds. */
  private sum(l: LetStmt, fold: Fold): void {
    const points = this.terms.pointsOf(fold.axes)
    const most = this.strict ? strictChunk : fastChunkOf(points.length)
    const size = Math.ceil(points.length / Math.ceil(points.length / most))
    let totals: ValueId[] = []
    for (let from = 0; from < points.length; from += size) {
      const chunk = points.slice(from, from + size).map((p) => this.termAt(fold, p))
      totals.push(this.chain(l, chunk, from === 0))
    }
    while (totals.length > 1) {
      const sums: ValueId[] = []
      for (let i = 0; i < totals.length; i += 2) {
        const [a = 0, b] = [totals[i], totals[i + 1]]
        sums.push(b === undefined ? a : this.add(l, a, b))
      }
      totals = sums
    }
  }

  /** The operands of a fold at a point of its axes. */
  private termAt(fold: Fold, point: ReadonlyMap<string, number>): ValueId[] {
    const here = new Map<ValueId, ValueId>()
    const place = new Map([...point].map(([a, i]) => [a, ix.constant(i)]))
    return fold.args.map((a) => this.terms.at(a, place, here))
  }

  /** Terms one after another: products that each go on from the sum before, or additions; from zero where that shows. */
  private chain(l: LetStmt, terms: readonly (readonly ValueId[])[], first: boolean): ValueId {
    const { op } = l
    let sum: ValueId | undefined
    if (op.kind === 'dot' && first) sum = op.acc
    if (op.kind === 'reduce' && first && this.strict)
      sum = this.terms.emit({ ...l, axes: [] }, { kind: 'const', value: isWide(l.dtype) ? 0n : 0 })
    for (const [x = 0, y] of terms) {
      if (op.kind === 'dot' && y !== undefined) {
        const { acc: _, ...product } = op
        const next: TileOp = { ...product, a: x, b: y, axes: [], ...(sum === undefined ? {} : { acc: sum }) }
        sum = this.terms.emit(l, next)
      } else sum = sum === undefined ? x : this.add(l, sum, x)
    }
    invariant(sum !== undefined, `a chain of no terms in %${l.id}`)
    return sum
  }

  private add(l: LetStmt, a: ValueId, b: ValueId): ValueId {
    return this.terms.emit(l, { kind: 'scalar', op: 'add', args: [a, b] })
  }
}
