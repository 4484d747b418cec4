/**
 * Pairs of axes: where results run over an axis of two indices inside another one (a reshape that a window or a doubling
 * asked for), no axis of theirs is a good vector axis. Their statements run over one axis for both instead, along which the
 * results are contiguous; what lacks the inner axis is read at half of it.
 */

import type { Expr } from '../../../affine/expr.ts'
import * as ix from '../../../affine/expr.ts'
import { substitutePredicate } from '../../../affine/predicate.ts'
import { isFoldOrScan } from '../../../kernel/folds.ts'
import {
  type KernelAxis,
  type KernelParam,
  type KernelPart,
  type LetStmt,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../../../kernel/ir.ts'
import { liveLets, mapExpressions, renameOperands, storeOperands } from '../../../kernel/walk.ts'
import { isLong } from '../../../scalar/ops.ts'

interface Pair {
  readonly outer: KernelAxis
  readonly inner: KernelAxis
  /** The axis that stands for both. */
  readonly joined: KernelAxis
}

/** The part with every pair of axes of its results joined. Sums keep their terms, not their order: not for strict mode. */
export function joinPairs(part: KernelPart, params: ReadonlyMap<string, KernelParam>): KernelPart {
  if (part.body.some((s) => s.kind === 'loop')) return part
  let out = part
  for (let pair = pairOf(out, params); pair !== undefined; pair = pairOf(out, params)) {
    const joined = joinPair(out, pair, params)
    if (joined === undefined) return out
    out = joined
  }
  return out
}

/** Axes that every program holds whole, the inner one of two indices and contiguous in a store, the outer one next to it. */
function pairOf(part: KernelPart, params: ReadonlyMap<string, KernelParam>): Pair | undefined {
  const extents = new Map(part.axes.map((a) => [a.name, a.extent]))
  const cut = new Set(part.grid.filter((g) => g.block < (extents.get(g.axis) ?? 1)).map((g) => g.axis))
  const whole = part.axes.filter((a) => !cut.has(a.name) && a.open === undefined)
  for (const s of part.body) {
    const shape = s.kind === 'store' ? params.get(s.param)?.shape : undefined
    if (s.kind !== 'store' || shape === undefined || s.combiner !== undefined) continue
    const flat = ix.flatten(s.index, shape)
    const inner = whole.find((a) => a.extent === 2 && ix.strideOf(flat, a.name) === 1)
    const outer = whole.find((a) => a.extent > 1 && ix.strideOf(flat, a.name) === 2)
    if (inner === undefined || outer === undefined || inner === outer) continue
    return { outer, inner, joined: { name: `${outer.name}_${inner.name}`, extent: 2 * outer.extent } }
  }
  return undefined
}

function joinPair(part: KernelPart, pair: Pair, params: ReadonlyMap<string, KernelParam>): KernelPart | undefined {
  const { outer, inner, joined } = pair
  const at = ix.axis(joined.name, joined.extent)
  const places = new Map([
    [outer.name, ix.div(at, 2)],
    [inner.name, ix.mod(at, 2)],
  ])
  const place = (a: ix.Atom): Expr | undefined => (a.kind === 'axis' ? places.get(a.name) : undefined)
  const copier = new Copier(part, pair, place)
  const body: Stmt[] = []
  for (const s of part.body) {
    const moved = s.kind === 'store' ? joinedStore(s) : s.kind === 'let' ? joinedFold(s) : s
    if (moved === undefined) return undefined
    body.push(...copier.take(), moved)
  }
  const lets = liveLets(
    body.filter((s) => s.kind === 'let'),
    body.flatMap((s) => (s.kind === 'store' ? storeOperands(s) : [])),
  )
  const live = new Set<Stmt>(lets)
  return { ...part, axes: [...part.axes, joined], body: body.filter((s) => s.kind !== 'let' || live.has(s)) }

  /** A store over both axes runs over the joined one; undefined where it cannot. */
  function joinedStore(s: StoreStmt): StoreStmt | undefined {
    const value = copier.isJoined(s.value) || s.index.some((e) => [...ix.axesOf(e)].some((a) => places.has(a)))
    const flat = ix.flatten(s.index, params.get(s.param)?.shape ?? [])
    if (!value || ix.strideOf(flat, inner.name) === 0) return s
    const step = ix.strideOf(flat, inner.name)
    if (step === undefined || ix.strideOf(flat, outer.name) !== 2 * step || s.combiner !== undefined) return undefined
    const operands = storeOperands(s)
    const copies = new Map(operands.map((o) => [o, copier.of(o)]))
    const copyOf = (o: ValueId): ValueId => copies.get(o) ?? o
    if (operands.some((o) => copies.get(o) === undefined) || s.index.some((e) => ix.valuesOf(e).size > 0))
      return undefined
    return {
      ...s,
      index: s.index.map((e) => ix.substitute(e, place)),
      mask: substitutePredicate(s.mask, place),
      value: copyOf(s.value),
      ...(s.maskValue === undefined ? {} : { maskValue: copyOf(s.maskValue) }),
    }
  }

  /** A fold over both axes, one right inside the other, folds the joined one in the same order. */
  function joinedFold(l: LetStmt): LetStmt {
    const { op } = l
    if (op.kind !== 'reduce' || op.combiner.startsWith('arg')) return l
    const from = op.axes.indexOf(outer.name)
    if (from < 0 || op.axes[from + 1] !== inner.name || !copier.isJoined(op.arg)) return l
    const arg = copier.of(op.arg)
    if (arg === undefined) return l
    return { ...l, op: { ...op, arg, axes: op.axes.toSpliced(from, 2, joined.name) } }
  }
}

/** Copies of values over a joined axis. */
class Copier {
  private readonly byId: ReadonlyMap<ValueId, LetStmt>
  private readonly copies = new Map<ValueId, ValueId>()
  private readonly pair: Pair
  private readonly place: (a: ix.Atom) => Expr | undefined
  private readonly extents: ReadonlyMap<string, number>
  private made: LetStmt[] = []
  private next: ValueId

  constructor(part: KernelPart, pair: Pair, place: (a: ix.Atom) => Expr | undefined) {
    const lets = part.body.filter((s) => s.kind === 'let')
    const single = new Set(part.grid.filter((g) => g.block === 1).map((g) => g.axis))
    this.byId = new Map(lets.map((l) => [l.id, l]))
    this.extents = new Map(part.axes.map((a) => [a.name, single.has(a.name) ? 1 : a.extent]))
    this.pair = pair
    this.place = place
    this.next = Math.max(-1, ...lets.map((l) => l.id)) + 1
  }

  /** The copies made since they were taken last. */
  take(): LetStmt[] {
    const { made } = this
    this.made = []
    return made
  }

  private has(l: LetStmt, a: KernelAxis): boolean {
    return l.axes.includes(a.name)
  }

  /** Whether a value runs over both axes. */
  isJoined(id: ValueId): boolean {
    const l = this.byId.get(id)
    return l !== undefined && this.has(l, this.pair.outer) && this.has(l, this.pair.inner)
  }

  /** The value over the joined axis (itself where it has none of the pair); undefined where it has no copy. */
  of(id: ValueId): ValueId | undefined {
    const known = this.copies.get(id)
    if (known !== undefined) return known
    const l = this.byId.get(id)
    if (l === undefined) return undefined
    if (!this.has(l, this.pair.outer) && !this.has(l, this.pair.inner)) return id
    const copy = this.copy(l)
    if (copy !== undefined) this.copies.set(id, copy)
    return copy
  }

  private copy(l: LetStmt): ValueId | undefined {
    const { op } = l
    if (op.kind === 'at' || op.kind === 'stage') return undefined
    if (isFoldOrScan(l) || this.isDear(l)) return this.read(l)
    const operands = new Map<ValueId, ValueId>()
    for (const o of operandsOf(op)) {
      const copy = this.of(o)
      if (copy === undefined) return undefined
      operands.set(o, copy)
    }
    const moved = mapExpressions(op, (e) => ix.substitute(e, this.place))
    return this.emit(
      l,
      renameOperands(moved, (o) => operands.get(o) ?? o),
    )
  }

  /** What is computed over one of the axes is not computed again for each index of the other. */
  private isDear(l: LetStmt): boolean {
    if (this.isJoined(l.id)) return false
    const { op } = l
    return op.kind === 'random' || (op.kind === 'scalar' && isLong(op.op))
  }

  /** Reads a value of one of the axes where it stands. */
  private read(l: LetStmt): ValueId | undefined {
    if (this.isJoined(l.id)) return undefined
    const axis = this.has(l, this.pair.outer) ? this.pair.outer : this.pair.inner
    const index = this.place({ kind: 'axis', name: axis.name, extent: axis.extent })
    if (index === undefined) return undefined
    const of = this.stands(l) ? l.id : this.emit({ ...l, axes: l.axes }, { kind: 'stage', of: l.id }, l.axes)
    return this.emit(l, { kind: 'at', of, index: { [axis.name]: index } })
  }

  /** Whether the value has a tile of its own: a fold over several indices. */
  private stands(l: LetStmt): boolean {
    const { op } = l
    return (op.kind === 'reduce' || op.kind === 'dot') && op.axes.some((a) => (this.extents.get(a) ?? 1) > 1)
  }

  private emit(l: LetStmt, op: LetStmt['op'], axes?: readonly string[]): ValueId {
    const { outer, inner, joined } = this.pair
    const own = l.axes.map((a) => (a === outer.name || a === inner.name ? joined.name : a))
    this.made.push({ ...l, id: this.next, op, axes: axes ?? [...new Set(own)] })
    return this.next++
  }
}
