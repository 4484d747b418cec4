/**
 * Sums that stream. A sum whose terms depend on the greatest value along the same axes need not wait for it: where the terms are
 * G(x) exp(c (x - d)), partial sums against one anchor become sums against another by r(a, b) = exp(c (a - b)), and r(a, a) = 1,
 * r(a, b) r(b, e) = r(a, e). One pass then carries an anchor (the greatest value so far) with the sums against it. It follows from the
 * algebra of the scalar table; planner and lowering both ask here.
 *
 * c > 0 for a greatest value (c < 0 for a least one), and x is what the anchor's fold takes: so no term exceeds G(x) against
 * any anchor on the way, and no rescaling grows anything. What the terms read may stand in for the anchor where that is not finite
 * (`select(isinf(m), 0, m)`), or be no less than it (`max(m, 0)`).
 *
 * A sum whose terms are polynomials in x - d, where d depends on the sum of x along the same axes, need not wait for it either: it is
 * kept against the mean of the x that were met, and moves by Taylor's series (moments.ts). So nothing cancels, wherever x lies.
 */
import { evalScalar } from '../scalar/eval.ts'
import { combinerOp, type Scalar, scalarInfo } from '../scalar/ops.ts'
import { computeDType, type DType, dtypeBits, isFloat } from '../types/dtype.ts'
import { foldAxes } from './folds.ts'
import { type LetStmt, operandsOf, type ValueId } from './ir.ts'
import { type Moments, momentsOf } from './moments.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

export interface Streamed {
  /** The fold whose running result is the anchor, or (of a sum) divided by the number of terms is. */
  readonly anchor: ValueId
  /** The value that the terms are taken against: the anchor, or what stands in for it; of a sum what follows from it. */
  readonly against: ValueId
  /** Values between that one and the sum: they differ from one anchor to the next. */
  readonly through: ReadonlySet<ValueId>
  readonly law: Law
}

/** How sums against `a` become sums against `b`: times exp(rate (a - b)), or by the series of their terms. */
export type Law =
  | { readonly kind: 'exponential'; readonly rate: number }
  | { readonly kind: 'polynomial'; readonly moments: Moments }

/** x times one number plus the anchor times another. */
interface Linear {
  readonly x: number
  readonly anchor: number
}

/** How a sum streams; undefined where it does not. */
export function streamedSum(l: LetStmt, lets: Lets): Streamed | undefined {
  if (l.op.kind !== 'reduce' || l.op.combiner !== 'sum') return undefined
  return streamedTerms(l, l.op.arg, lets)
}

/**
 * How a contraction streams as a sum: its terms are an operand times what does not depend on the anchor, so those of the operand that does
 * (`operand`) tell. A rounding of that operand to fewer bits errs in proportion, against any anchor alike.
 */
export function streamedDot(l: LetStmt, operand: ValueId, lets: Lets): Streamed | undefined {
  if (l.op.kind !== 'dot') return undefined
  const term = unrounded(operand, lets)
  const streamed = streamedTerms(l, term, lets)
  if (streamed?.law.kind !== 'exponential') return undefined
  return { ...streamed, through: new Set([...streamed.through, operand]) }
}

/** The value that another rounds to a float of fewer bits; else the value itself. */
export function unrounded(id: ValueId, lets: Lets): ValueId {
  const l = lets.get(id)
  const from = l?.op.kind === 'scalar' && l.op.op === 'cast' ? lets.get(l.op.args[0] ?? id) : undefined
  return l !== undefined && from !== undefined && isFloat(from.dtype) && isFloat(l.dtype) ? from.id : id
}

/** How the sum of terms along the axes of a statement streams. */
function streamedTerms(l: LetStmt, term: ValueId, lets: Lets): Streamed | undefined {
  if (!isFloat(l.dtype)) return undefined
  const axes = foldAxes(l)
  for (const anchor of lets.values()) {
    if (anchor.id === l.id) break
    const { op } = anchor
    if (op.kind !== 'reduce' || !isFloat(anchor.dtype)) continue
    if (op.axes.length !== axes.length || !op.axes.every((a) => axes.includes(a))) continue
    const { combiner } = op
    if (combiner !== 'max' && combiner !== 'min' && combiner !== 'sum') continue
    const found = new Terms(lets, anchor, combiner, op).streamed(term, l.dtype)
    if (found !== undefined) return found
  }
  return undefined
}

/** What the terms of a sum are in an anchor. */
class Terms {
  private readonly lets: Lets
  private readonly anchor: LetStmt
  private readonly x: ValueId
  private readonly combiner: 'max' | 'min' | 'sum'
  private readonly axes: readonly string[]
  /** Values that depend on the anchor. */
  private readonly after: ReadonlySet<ValueId>
  /** What was read for the anchor. */
  private readonly read = new Set<ValueId>()
  private readonly rates = new Map<ValueId, number | undefined>()

  constructor(
    lets: Lets,
    anchor: LetStmt,
    combiner: 'max' | 'min' | 'sum',
    op: { readonly arg: ValueId; readonly axes: readonly string[] },
  ) {
    this.lets = lets
    this.anchor = anchor
    this.x = this.unwidened(op.arg)
    this.combiner = combiner
    this.axes = op.axes
    this.after = after(lets, [anchor.id])
  }

  /** How the sum of terms streams, in a dtype. */
  streamed(term: ValueId, dtype: DType): Streamed | undefined {
    if (!this.after.has(term)) return undefined
    const law = this.combiner === 'sum' ? this.polynomial(term, dtype) : this.exponential(term)
    const [against, second] = this.read
    if (law === undefined || against === undefined || second !== undefined) return undefined
    if (law.kind === 'polynomial' && !this.isOf(computeDType(dtype), against)) return undefined
    const from = after(this.lets, [against])
    const through = new Set<ValueId>()
    const stack = [term]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      if (id === against || through.has(id) || !from.has(id)) continue
      through.add(id)
      stack.push(...operandsOf(this.lets.get(id)?.op ?? { kind: 'const', value: 0 }))
    }
    return { anchor: this.anchor.id, against, through, law }
  }

  private exponential(term: ValueId): Law | undefined {
    const rate = this.rateOf(term)
    return rate === undefined ? undefined : { kind: 'exponential', rate }
  }

  private polynomial(term: ValueId, dtype: DType): Law | undefined {
    const work = computeDType(dtype)
    if (computeDType(this.anchor.dtype) !== work) return undefined
    const moments = momentsOf(term, {
      lets: this.lets,
      isLate: (id) => this.after.has(id),
      slopeOf: (id) => {
        const linear = this.linearIn(id)
        return linear !== undefined && linear.x !== 0 && linear.x === -linear.anchor ? linear.x : undefined
      },
      constantOf: (id) => this.constantOf(id),
      isWidening: (l) => this.isWidening(l),
    })
    if (moments === undefined || moments.series.length === 0) return undefined
    const carried = moments.products.every(({ of }) => of.every((id) => this.isOf(work, id)))
    return carried ? { kind: 'polynomial', moments } : undefined
  }

  /** Whether a value is computed in a dtype. */
  private isOf(work: DType, id: ValueId): boolean {
    const dtype = this.lets.get(id)?.dtype
    return dtype !== undefined && computeDType(dtype) === work
  }

  /** The c of a value G(x) exp(c (x - anchor)). */
  private rateOf(id: ValueId): number | undefined {
    if (!this.rates.has(id)) this.rates.set(id, this.findRate(id))
    return this.rates.get(id)
  }

  private findRate(id: ValueId): number | undefined {
    const l = this.lets.get(id)
    if (l?.op.kind !== 'scalar') return undefined
    const { op, args } = l.op
    const { terms, factors, exponentialIn, chooses } = scalarInfo(op)
    if (exponentialIn !== undefined) return this.rateOfPower(l, exponentialIn)
    if (chooses === true) return this.rateOfChoice(args)
    if (this.isWidening(l) || this.isLoose(l)) return this.rateOf(args[0] ?? id)
    if (factors !== undefined) return this.rateOfProduct(args, factors)
    if (terms === undefined) return undefined
    // All terms of a sum, at one rate.
    const rates = new Set(args.map((a) => (this.after.has(a) ? this.rateOf(a) : undefined)))
    const [rate] = rates
    return rates.size === 1 ? rate : undefined
  }

  /** A choice between such a value and zero, by what does not depend on the anchor: G(x) is zero there. */
  private rateOfChoice(args: readonly ValueId[]): number | undefined {
    const [condition, ...of] = args
    const [value, more] = of.filter((a) => this.constantOf(a) !== 0)
    if (condition === undefined || this.after.has(condition) || value === undefined || more !== undefined)
      return undefined
    return this.rateOf(value)
  }

  private rateOfProduct(args: readonly ValueId[], powers: readonly (1 | -1)[]): number | undefined {
    let sum = 0
    for (const [i, a] of args.entries()) {
      if (!this.after.has(a)) continue
      const rate = powers[i] === 1 ? this.rateOf(a) : undefined
      if (rate === undefined) return undefined
      sum += rate
    }
    return sum
  }

  /** f(c (x - anchor)) = f(1)^(c (x - anchor)). */
  private rateOfPower(l: LetStmt, operand: 0 | 1): number | undefined {
    if (l.op.kind !== 'scalar') return undefined
    const { op, args } = l.op
    const exponent = args[operand]
    const linear = exponent === undefined ? undefined : this.linearIn(exponent)
    const others = args.map((a, i) => (i === operand ? 1 : this.constantOf(a)))
    if (linear === undefined || linear.x !== -linear.anchor || others.includes(undefined)) return undefined
    const base = Number(
      evalScalar(
        op,
        'f64',
        'f64',
        others.flatMap((c): Scalar[] => (c === undefined ? [] : [c])),
      ),
    )
    const rate = linear.x * Math.log(base)
    const falls = this.combiner === 'max' ? rate > 0 : rate < 0
    return falls && Number.isFinite(rate) ? rate : undefined
  }

  /** Anchors on the way are finite, and what is computed of them alone must be: no multiples beyond the anchor. */
  private linearIn(id: ValueId): Linear | undefined {
    const linear = this.findLinear(id)
    const stays = linear === undefined || linear.x === -linear.anchor || Math.abs(linear.anchor) <= 1
    return stays ? linear : undefined
  }

  private findLinear(id: ValueId): Linear | undefined {
    if (this.standsIn(id)) {
      this.read.add(id)
      return { x: 0, anchor: 1 }
    }
    if (this.unwidened(id) === this.x) return { x: 1, anchor: 0 }
    const l = this.lets.get(id)
    if (l?.op.kind !== 'scalar') return undefined
    const { args } = l.op
    if (this.isWidening(l)) return this.linearIn(args[0] ?? id)
    const { terms, factors } = scalarInfo(l.op.op)
    if (terms !== undefined) {
      let [x, anchor] = [0, 0]
      for (const [i, sign] of terms.entries()) {
        const a = args[i]
        const of = a === undefined ? undefined : this.linearIn(a)
        if (of === undefined) return undefined
        x += sign * of.x
        anchor += sign * of.anchor
      }
      return { x, anchor }
    }
    return factors === undefined ? undefined : this.scaled(args, factors)
  }

  /** A linear value times a number. */
  private scaled(args: readonly ValueId[], powers: readonly (1 | -1)[]): Linear | undefined {
    const numbers = args.map((a) => this.constantOf(a))
    const at = numbers.indexOf(undefined)
    const of = args[at]
    const by = numbers.reduce<number>((n, c, i) => (i === at ? n : n * (c ?? Number.NaN) ** (powers[i] ?? 1)), 1)
    if (of === undefined || powers[at] !== 1 || !Number.isFinite(by)) return undefined
    const linear = this.linearIn(of)
    return linear === undefined ? undefined : { x: by * linear.x, anchor: by * linear.anchor }
  }

  /**
   * Whether a value is the anchor where that is finite, or lies on its far side; and the same along the folded axes. For polynomials,
   * which are kept against a mean, any value will do that is the same along them.
   */
  private standsIn(id: ValueId): boolean {
    if (this.isAnchor(id)) return true
    const l = this.lets.get(id)
    if (l === undefined || !this.after.has(id) || l.axes.some((a) => this.axes.includes(a))) return false
    if (this.combiner === 'sum') return true
    if (l.op.kind !== 'scalar') return false
    const { op, args } = l.op
    if (this.isWidening(l) || op === combinerOp[this.combiner]) return args.some((a) => this.standsIn(a))
    const [condition, yes, no] = args
    if (scalarInfo(op).chooses !== true || condition === undefined || yes === undefined || no === undefined)
      return false
    const holds = this.whereFinite(condition)
    return holds !== undefined && this.standsIn(holds ? yes : no)
  }

  /** The anchor itself, in a dtype that holds it. */
  private isAnchor(id: ValueId): boolean {
    return this.unwidened(id) === this.anchor.id
  }

  /** What a condition is for every finite anchor. */
  private whereFinite(id: ValueId): boolean | undefined {
    const l = this.lets.get(id)
    if (l?.op.kind !== 'scalar' || l.dtype !== 'bool') return undefined
    const { op, args } = l.op
    const { sameWhereFinite } = scalarInfo(op)
    const values = args.map((a): Scalar | undefined => {
      const c = this.constantOf(a)
      // Zero for any finite number: infinities compare with all alike, and so does NaN.
      if (this.isAnchor(a)) return args.length === 1 || args.some((b) => !this.isFinite(b)) ? 0 : undefined
      return c === undefined ? this.whereFinite(a) : this.isFinite(a) ? undefined : c
    })
    const known = values.flatMap((v) => (v === undefined ? [] : [v]))
    if (known.length < args.length) return undefined
    const from = this.lets.get(args[0] ?? id)?.dtype ?? 'bool'
    if (isFloat(from) && args.length === 1 && sameWhereFinite !== true) return undefined
    return evalScalar(op, from, 'bool', known) === true
  }

  private isFinite(id: ValueId): boolean {
    const c = this.constantOf(id)
    return c === undefined || Number.isFinite(c)
  }

  private constantOf(id: ValueId): number | undefined {
    const op = this.lets.get(id)?.op
    return op?.kind === 'const' && typeof op.value === 'number' ? op.value : undefined
  }

  /** The value that others are, but for casts to a dtype that holds it. */
  private unwidened(id: ValueId): ValueId {
    const l = this.lets.get(id)
    const from = l?.op.kind === 'scalar' && this.isWidening(l) ? l.op.args[0] : undefined
    return from === undefined ? id : this.unwidened(from)
  }

  /** Whether a value is rounded as a program may leave out; it errs in proportion, against any anchor alike. */
  private isLoose(l: LetStmt): boolean {
    return l.op.kind === 'scalar' && l.op.op === 'cast' && l.op.loose === true && isFloat(l.dtype)
  }

  private isWidening(l: LetStmt): boolean {
    const from = l.op.kind === 'scalar' && l.op.op === 'cast' ? this.lets.get(l.op.args[0] ?? l.id)?.dtype : undefined
    return from !== undefined && widens(from, l.dtype)
  }
}

const widens = (from: DType, to: DType): boolean =>
  isFloat(from) && isFloat(to) && (from === to || dtypeBits(to) > dtypeBits(from))

/** Values that some values reach, those among them; statements stand in order. */
function after(lets: Lets, roots: Iterable<ValueId>): Set<ValueId> {
  const out = new Set<ValueId>(roots)
  for (const l of lets.values()) if (operandsOf(l.op).some((o) => out.has(o))) out.add(l.id)
  return out
}
