/** What conditions say of positions: comparisons of integers that are expressions of indices, joined by and, or, not, as bounds. */
import * as ix from '../affine/expr.ts'
import type { Bound } from '../affine/predicate.ts'
import { isInteger } from '../types/dtype.ts'
import type { LetStmt, ValueId } from './ir.ts'

/** Of some pairs of bounds one side holds, all of it. */
export type Either = readonly [readonly Bound[], readonly Bound[]]

/** Bounds that hold where a condition does. */
export interface Holding {
  readonly bounds: readonly Bound[]
  readonly either: readonly Either[]
  /** They say all: where they hold, the condition does. */
  readonly isAll: boolean
}

/** A condition that holds, or one that does not. */
export interface Tested {
  readonly id: ValueId
  readonly truth: boolean
}

const nothing: Holding = { bounds: [], either: [], isAll: false }

/** The conditions of some statements; what is known of a value is found once, for many may be made of one. */
export class Conditions {
  private readonly lets: ReadonlyMap<ValueId, LetStmt>
  private readonly known = new Map<string, Holding>()
  private readonly positions = new Map<ValueId, ix.Expr | undefined>()

  constructor(lets: ReadonlyMap<ValueId, LetStmt>) {
    this.lets = lets
  }

  /** Bounds that hold where a condition does (`truth`), or does not. */
  holding(id: ValueId, truth: boolean): Holding {
    const key = `${truth} ${id}`
    const have = this.known.get(key)
    if (have !== undefined) return have
    const found = this.find(id, truth)
    this.known.set(key, found)
    return found
  }

  /** Conditions that all hold, or do not, where one does (`truth`), or does not: what `and` joins. */
  conjuncts(id: ValueId, truth: boolean): readonly Tested[] {
    const stack: Tested[] = [{ id, truth }]
    const seen = new Set<string>()
    const out: Tested[] = []
    for (let t = stack.pop(); t !== undefined; t = stack.pop()) {
      // A condition may hold itself on many ways.
      if (seen.has(`${t.truth} ${t.id}`)) continue
      seen.add(`${t.truth} ${t.id}`)
      const op = this.lets.get(t.id)?.op
      const { truth } = t
      if (op?.kind === 'scalar' && op.op === 'not') stack.push(...op.args.map((x) => ({ id: x, truth: !truth })))
      else if (op?.kind === 'scalar' && op.op === (truth ? 'and' : 'or'))
        stack.push(...op.args.map((x) => ({ id: x, truth })).reverse())
      else out.push(t)
    }
    return out
  }

  private find(id: ValueId, truth: boolean): Holding {
    const op = this.lets.get(id)?.op
    if (op?.kind === 'predicate') return truth ? { bounds: op.predicate, either: [], isAll: true } : nothing
    if (op?.kind !== 'scalar') return nothing
    const [x, y] = op.args
    if (x === undefined) return nothing
    if (op.op === 'not') return this.holding(x, !truth)
    if (y === undefined) return nothing
    if (op.op === (truth ? 'and' : 'or')) {
      const [left, right] = [this.holding(x, truth), this.holding(y, truth)]
      return {
        bounds: [...left.bounds, ...right.bounds],
        either: [...left.either, ...right.either],
        isAll: left.isAll && right.isAll,
      }
    }
    if (op.op === (truth ? 'or' : 'and')) {
      const sides: Either = [this.holding(x, truth).bounds, this.holding(y, truth).bounds]
      return { bounds: [], either: sides.every((s) => s.length > 0) ? [sides] : [], isAll: false }
    }
    const between = (expr: ix.Expr, lo: number, hi: number): Holding => ({
      bounds: [{ expr, lo, hi }],
      either: [],
      isAll: true,
    })
    const [a, b] = [this.positionOf(x), this.positionOf(y)]
    if (a === undefined || b === undefined) {
      const near = this.distanceWithin(truth ? op.op : opposite[op.op], x, y)
      return near === undefined ? nothing : between(near.of, -near.most, near.most + 1)
    }
    const atLeast = (e: ix.Expr, lo: number): Holding => between(e, lo, ix.rangeOf(e).hi + 1)
    switch (truth ? op.op : opposite[op.op]) {
      case 'le':
        return atLeast(ix.sub(b, a), 0)
      case 'lt':
        return atLeast(ix.sub(b, a), 1)
      case 'ge':
        return atLeast(ix.sub(a, b), 0)
      case 'gt':
        return atLeast(ix.sub(a, b), 1)
      case 'eq':
        return between(ix.sub(a, b), 0, 1)
      default:
        return nothing
    }
  }

  /** A distance of positions that a comparison says is so large at most. */
  private distanceWithin(
    op: string | undefined,
    x: ValueId,
    y: ValueId,
  ): { readonly of: ix.Expr; readonly most: number } | undefined {
    const isLess = op === 'lt' || op === 'le'
    if (!isLess && op !== 'gt' && op !== 'ge') return undefined
    const [less, more] = isLess ? [x, y] : [y, x]
    const distance = this.lets.get(less)?.op
    const [arg] = distance?.kind === 'scalar' && distance.op === 'abs' ? distance.args : []
    const [of, limit] = [arg === undefined ? undefined : this.positionOf(arg), this.positionOf(more)]
    if (of === undefined || limit === undefined || limit.terms.length > 0) return undefined
    return { of, most: op === 'lt' || op === 'gt' ? limit.offset - 1 : limit.offset }
  }

  /** An integer as an expression of positions. */
  private positionOf(id: ValueId): ix.Expr | undefined {
    if (!this.positions.has(id)) this.positions.set(id, this.findPosition(id))
    return this.positions.get(id)
  }

  private findPosition(id: ValueId): ix.Expr | undefined {
    const l = this.lets.get(id)
    if (l === undefined || !isInteger(l.dtype)) return undefined
    const { op } = l
    if (op.kind === 'index') return op.expr
    if (op.kind === 'const') return typeof op.value === 'number' ? ix.constant(op.value) : undefined
    if (op.kind !== 'scalar' || !['add', 'sub', 'div', 'rem'].includes(op.op)) return undefined
    const [x, y] = op.args.map((a) => this.positionOf(a))
    if (x === undefined || y === undefined) return undefined
    if (op.op === 'div' || op.op === 'rem') {
      // Quotients of integers round to zero, those of positions down.
      const by = y.terms.length === 0 ? y.offset : 0
      if (by <= 0 || ix.rangeOf(x).lo < 0) return undefined
      return op.op === 'div' ? ix.div(x, by) : ix.mod(x, by)
    }
    const e = op.op === 'add' ? ix.add(x, y) : ix.sub(x, y)
    const { lo, hi } = ix.rangeOf(e)
    // Nothing wraps.
    return lo >= -(2 ** 31) && hi < 2 ** 31 && l.dtype === 'i32' ? e : undefined
  }
}

/** What holds where a comparison of integers does not. */
export const opposite: Readonly<Partial<Record<string, string>>> = { le: 'gt', lt: 'ge', ge: 'lt', gt: 'le', ne: 'eq' }
