/**
 * Which part of the shared axis a block of rows sees: where a predicate on positions hides everything else, so that no fold of a chain takes
 * anything there (an exponential of minus infinity weighs nothing, whatever it weighs; docs/numerics.md, "Modes"), a loop need not
 * go. Intervals of the predicate's expressions over a block give the ends of the loop.
 */
import { type BlockedAxis, endOfBlocks } from '../../affine/blocks.ts'
import * as ix from '../../affine/expr.ts'
import { type Bound, boundKey } from '../../affine/predicate.ts'
import { Conditions, type Either, type Tested } from '../../kernel/conditions.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { isScalarOp, scalarInfo } from '../../scalar/ops.ts'
import type { ChainFold, ChainForm } from './chain.ts'
import type { Blocked } from './matrixBlocks.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

/** Two lists of ends, as two conditions give them of which one holds: the loop has to go wherever either list lets it. */
export type EitherEnd = readonly [readonly ix.Expr[], readonly ix.Expr[]]

/** Ends of the innermost loop over shared axes, of which the greatest and the least are meant; none: its own. */
export interface Visible {
  readonly from: readonly (ix.Expr | EitherEnd)[]
  readonly to: readonly (ix.Expr | EitherEnd)[]
  /** Conditions without which no fold takes anything: of data, too. */
  readonly tested: readonly Tested[]
}

export const isEither = (end: ix.Expr | EitherEnd): end is EitherEnd => Array.isArray(end)

/** Bounds that hold wherever a fold takes anything, pairs of which one does, and the conditions themselves. */
type Seeing = Bound | Either | Tested
const isPair = (x: Seeing): x is Either => Array.isArray(x)
const isTested = (x: Seeing): x is Tested => 'truth' in x

const keyOf = (x: Seeing): string =>
  isTested(x)
    ? `${x.truth} %${x.id}`
    : isPair(x)
      ? x.map((side) => side.map(boundKey).join(' and ')).join(' or ')
      : boundKey(x)

/** What holds in all of some lists. */
function inAll([first, ...others]: readonly (readonly Seeing[])[]): readonly Seeing[] {
  const keys = others.map((o) => new Set(o.map(keyOf)))
  return (first ?? []).filter((b) => keys.every((k) => k.has(keyOf(b))))
}

/** What the blocks of a grid see of the axis of the innermost loop, whatever the indices of the loops around it. */
export function visibleOf(
  form: ChainForm,
  { grid, loops }: { readonly grid: readonly Blocked[]; readonly loops: readonly Blocked[] },
  extents: ReadonlyMap<string, number>,
): Visible {
  const axis = loops.at(-1)?.axis
  // What steps store is stored wherever it is hidden, too.
  if (axis === undefined || form.ofSteps.length > 0) return { from: [], to: [], tested: [] }
  const seen = new Seen(new Map(form.body.lets.map((l) => [l.id, l])), form.folds)
  const all = inAll(form.folds.map((f) => seen.by(f)))
  const extent = extents.get(axis) ?? 1
  const blockOf = (name: string): BlockedAxis | undefined => {
    const g = grid.find((x) => x.axis === name)
    return g === undefined ? undefined : { block: g.block, extent: extents.get(name) ?? 1 }
  }
  const endsOf = (bounds: readonly Bound[]): { readonly from: readonly ix.Expr[]; readonly to: readonly ix.Expr[] } => {
    const from: ix.Expr[] = []
    const to: ix.Expr[] = []
    for (const { expr, lo, hi } of bounds) {
      const term = expr.terms.find((t) => blocksOfAxis(t.atom, axis) !== undefined)
      const blocks = term === undefined ? undefined : blocksOfAxis(term.atom, axis)
      if (term === undefined || blocks === undefined || Math.abs(term.coef) !== 1) continue
      const count = ix.div(ix.addConst(ix.axis(axis, extent), blocks.offset), blocks.size)
      const rest = ix.sub(expr, ix.mul(count, term.coef))
      const [least, most] = [endOfBlocks(rest, blockOf, 'least'), endOfBlocks(rest, blockOf, 'most')]
      if (least === undefined || most === undefined || ix.axesOf(rest).has(axis)) continue
      // lo <= t + rest < hi, or lo <= rest - t < hi, of t = floor((axis + offset) / size).
      const [first, end] =
        term.coef === 1
          ? [ix.addConst(ix.mul(most, -1), lo), ix.addConst(ix.mul(least, -1), hi)]
          : [ix.addConst(least, 1 - hi), ix.addConst(most, 1 - lo)]
      const place = (e: ix.Expr): ix.Expr => ix.addConst(ix.mul(e, blocks.size), -blocks.offset)
      from.push(place(first))
      to.push(place(end))
    }
    return {
      from: from.filter((e) => ix.rangeOf(e).hi > 0),
      to: to.filter((e) => ix.rangeOf(e).lo < extent),
    }
  }
  const certain = endsOf(all.flatMap((x) => (isPair(x) || isTested(x) ? [] : [x])))
  const pairs = all.filter(isPair).map(([x, y]) => [endsOf(x), endsOf(y)] as const)
  const either = (x: readonly ix.Expr[], y: readonly ix.Expr[]): readonly EitherEnd[] =>
    x.length > 0 && y.length > 0 ? [[x, y]] : []
  return {
    from: [...certain.from, ...pairs.flatMap(([x, y]) => either(x.from, y.from))],
    to: [...certain.to, ...pairs.flatMap(([x, y]) => either(x.to, y.to))],
    tested: all.filter(isTested),
  }
}

/** The blocks of an axis that an atom counts: the axis itself, or a quotient of it. */
function blocksOfAxis(atom: ix.Atom, axis: string): { readonly size: number; readonly offset: number } | undefined {
  if (atom.kind === 'axis') return atom.name === axis ? { size: 1, offset: 0 } : undefined
  if (atom.kind !== 'div') return undefined
  const [only, more] = atom.of.terms
  const isAxis = only?.coef === 1 && more === undefined && only.atom.kind === 'axis' && only.atom.name === axis
  return isAxis ? { size: atom.by, offset: atom.of.offset } : undefined
}

/** The average part of an axis that the blocks of a grid see, of some of them. */
export function visibleShare(
  { from, to }: Pick<Visible, 'from' | 'to'>,
  grid: readonly Blocked[],
  extents: ReadonlyMap<string, number>,
  extent: number,
): number {
  if (from.length === 0 && to.length === 0) return 1
  const names = new Set([...from, ...to].flat(2).flatMap((e) => [...ix.axesOf(e)]))
  const moving = grid.filter((g) => names.has(`${g.axis}.start`))
  const samples = 64
  let seen = 0
  for (let i = 0; i < samples; i++) {
    const at = (name: string): number => {
      const g = moving.find((x) => `${x.axis}.start` === name)
      if (g === undefined) return 0
      const blocks = Math.ceil((extents.get(g.axis) ?? 1) / g.block)
      return g.block * Math.min(blocks - 1, Math.floor(((i + 0.5) / samples) * blocks))
    }
    const value = (e: ix.Expr): number => ix.evaluate(e, at, () => 0)
    const firstOf = (e: ix.Expr | EitherEnd): number =>
      isEither(e) ? Math.min(...e.map((side) => Math.max(...side.map(value)))) : value(e)
    const lastOf = (e: ix.Expr | EitherEnd): number =>
      isEither(e) ? Math.max(...e.map((side) => Math.min(...side.map(value)))) : value(e)
    const first = Math.max(0, ...from.map(firstOf))
    const last = Math.min(extent, ...to.map(lastOf))
    seen += Math.max(0, last - first) / extent
  }
  return seen / samples
}

/** Bounds on positions that hold wherever a fold takes anything. */
class Seen {
  private readonly lets: Lets
  private readonly folds: readonly ChainFold[]
  /** What is known of values already: many may be made of one. */
  private readonly known = new Map<string, readonly Seeing[]>()
  private readonly conditions: Conditions

  constructor(lets: Lets, folds: readonly ChainFold[]) {
    this.lets = lets
    this.folds = folds
    this.conditions = new Conditions(lets)
  }

  by({ let: l, combiner, streamed }: ChainFold): readonly Seeing[] {
    const { op } = l
    const terms = op.kind === 'dot' ? [op.a, op.b] : op.kind === 'reduce' ? [op.arg] : []
    if (streamed !== undefined) {
      const anchor = this.folds.find((f) => f.let.id === streamed.anchor)
      return [...terms.flatMap((t) => this.zero(t)), ...(anchor === undefined ? [] : this.by(anchor))]
    }
    if (combiner === 'max') return terms.flatMap((t) => this.least(t))
    return combiner === 'sum' ? terms.flatMap((t) => this.zero(t)) : []
  }

  /** Bounds outside of which a value is minus infinity. */
  private least(id: ValueId): readonly Seeing[] {
    return this.outside(id, Number.NEGATIVE_INFINITY, (op, args) => {
      if (op === 'add') return args.flatMap((a) => this.least(a))
      const [x, y] = args
      if (x === undefined) return []
      if (op === 'cast' || op === 'sub') return this.least(x)
      if (op !== 'mul' || y === undefined) return []
      return this.isPositive(y) ? this.least(x) : this.isPositive(x) ? this.least(y) : []
    })
  }

  /** Bounds outside of which a value is zero. */
  private zero(id: ValueId): readonly Seeing[] {
    return this.outside(id, 0, (op, args) => {
      const [x] = args
      if (x === undefined || !isScalarOp(op)) return []
      const { factors, terms, odd, exponentialIn } = scalarInfo(op)
      if (factors !== undefined) return args.flatMap((a, i) => (factors[i] === 1 ? this.zero(a) : []))
      if (op === 'cast' || odd === true) return this.zero(x)
      if (terms !== undefined) return inAll(args.map((a) => this.zero(a)))
      return exponentialIn === 0 ? this.least(x) : []
    })
  }

  private once(key: string, find: () => readonly Seeing[]): readonly Seeing[] {
    const have = this.known.get(key)
    if (have !== undefined) return have
    const found = find()
    this.known.set(key, found)
    return found
  }

  private outside(
    id: ValueId,
    value: number,
    through: (op: string, args: readonly ValueId[]) => readonly Seeing[],
  ): readonly Seeing[] {
    return this.once(`${value} ${id}`, () => this.findOutside(id, value, through))
  }

  private findOutside(
    id: ValueId,
    value: number,
    through: (op: string, args: readonly ValueId[]) => readonly Seeing[],
  ): readonly Seeing[] {
    const op = this.lets.get(id)?.op
    if (op?.kind !== 'scalar') return []
    const [condition, yes, no] = op.args
    if (op.op !== 'select' || condition === undefined || yes === undefined || no === undefined)
      return through(op.op, op.args)
    const isValue = (x: ValueId): boolean => Object.is(this.constantOf(x), value)
    const inner = (x: ValueId): readonly Seeing[] => (value === 0 ? this.zero(x) : this.least(x))
    if (isValue(no)) return [...this.seeing(condition, true), ...inner(yes)]
    return isValue(yes) ? [...this.seeing(condition, false), ...inner(no)] : []
  }

  private seeing(condition: ValueId, truth: boolean): readonly Seeing[] {
    const { bounds, either } = this.conditions.holding(condition, truth)
    return [...bounds, ...either, ...this.conditions.conjuncts(condition, truth)]
  }

  private isPositive(id: ValueId): boolean {
    return (this.constantOf(id) ?? 0) > 0
  }

  private constantOf(id: ValueId): number | undefined {
    const op = this.lets.get(id)?.op
    return op?.kind === 'const' && typeof op.value === 'number' ? op.value : undefined
  }
}
