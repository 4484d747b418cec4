/**
 * Reductions, scans and contractions inside a kernel: which axes they run over. A reduced dimension is bound to axes that exist
 * already where that is free of conflicts, so dependent reductions of one row share its axis.
 */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { always, type Predicate } from '../../affine/predicate.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import { combinerIdentity, isArgCombiner } from '../../scalar/ops.ts'
import { computeDType, dtypeBits, isFloat, isWide } from '../../types/dtype.ts'
import type { UnitPrecision } from '../../types/product.ts'
import { Refusal, type Refused, refuse } from '../refusal.ts'
import { Alignment } from './alignment.ts'
import { coversOnceInside, overlaps, visitsOnce } from './bijection.ts'
import { pointsOf } from './body.ts'
import { alike, axesOfCover, type Cover, coverOf, foldPieces, readAlong } from './cover.ts'
import type { Evaluation } from './evaluation.ts'
import type { BoundDim, Rebind, Tiles } from './tiles.ts'

/** A dimension that a fold runs over on axes of its own. */
interface OwnFold {
  readonly key: string
  readonly operand: Node
  readonly index: readonly Expr[]
  readonly d: number
}

/** The refusal of a fold whose result is read more than once an element. */
export const recomputed = ({ op }: Node): Refused =>
  refuse('reduction-recomputed', `${op} would be evaluated more than once an element`)

/** Why a kernel does not evaluate each element of a fold's result once, at coordinates that do not cover it. */
function whyNotOnce(node: Node, index: readonly Expr[], mask: Predicate): Refused {
  const { op, shape } = node
  const kinds = new Set<ix.Atom['kind']>()
  for (const e of index) ix.visitAtoms(e, (a) => kinds.add(a.kind))
  if (kinds.has('value'))
    return refuse('reduction-recomputed', `data says which elements of the ${op} are read, and how often`)
  const regrouped = kinds.has('div') || kinds.has('mod')
  if (regrouped && mask.length === 0)
    return refuse('regrouped-axes', `a reshape between the two regroups the axes of the ${op}'s result`)
  if (regrouped || overlaps(index, shape)) return recomputed(node)
  return refuse('reduction-in-part', `only a part of the ${op}'s result is read here`)
}

/** The folds of one region's evaluation. */
export class Folds {
  private readonly nodes: Evaluation
  private readonly tiles: Tiles
  private readonly own: OwnFold[] = []
  /** The dimensions that axes were bound to. */
  private readonly boundTo = new Map<string, [Node, number][]>()
  private alignment: Alignment | undefined

  private readonly mayTie: boolean
  /** Whether a fold was bound, or might have been, to axes that only its extent ties it to. */
  ties = false

  /** `mayTie`: whether folds may run over axes that have nothing but their extent. */
  constructor(nodes: Evaluation, mayTie: boolean) {
    this.nodes = nodes
    this.mayTie = mayTie
    this.tiles = nodes.tiles
  }

  /** Pieces that the kernel reads, and that a fold on axes of its own might run over instead. */
  findCover(): Rebind | undefined {
    for (const { key, operand, index, d } of this.own) {
      const read = readAlong(operand, index, d, this.nodes.region.members, (n) => this.nodes.instancesOf(n))
      const cover = coverOf(
        read.flatMap((e) => this.tiles.pieceOf(e) ?? []),
        operand.shape[d] ?? 1,
      )
      if (cover !== undefined) return { kind: 'cover', key, pieces: cover }
    }
    return undefined
  }

  /** Notes that axes are those of a dimension of a value. */
  bind({ axes }: BoundDim, node: Node, d: number): void {
    const key = axes.join()
    const have = this.boundTo.get(key)
    if (have === undefined) this.boundTo.set(key, [[node, d]])
    else have.push([node, d])
  }

  /** Whether axes are those of a dimension: bound to one that the region evaluates at the same index. */
  private runsAlong({ axes }: BoundDim, node: Node, d: number): boolean {
    this.alignment ??= new Alignment(this.nodes.region)
    const alignment = this.alignment
    const axis = alignment.axisOf(node, d)
    return this.boundTo.get(axes.join())?.some(([n, e]) => alignment.axisOf(n, e) === axis) === true
  }

  /** Of axes of a dimension's extent those that it may run over. */
  private sharedBy(node: Node, d: number, options: readonly BoundDim[]): BoundDim | undefined {
    const [first] = options
    if (first === undefined || this.runsAlong(first, node, d)) return first
    this.ties = true
    return this.mayTie ? first : options.find((o) => this.runsAlong(o, node, d))
  }

  /**
   * Binds the reduced dimensions of an input: to axes where that very instance exists, else to axes of their extent (of the same dimension,
   * where folds are not to be tied by extents alone), else to fresh ones.
   */
  private bindReduced(
    x: Node,
    kept: (d: number) => Expr | undefined,
    key: (d: number) => string,
    avoid: Set<string>,
    covered?: number,
  ): { index: Expr[]; dims: BoundDim[] } {
    const dims: BoundDim[] = []
    const index: Expr[] = []
    const known = this.nodes.instancesNear(x)
    const own: number[] = []
    x.shape.forEach((extent, d) => {
      const fixed = kept(d)
      if (fixed !== undefined) {
        index.push(fixed)
        return
      }
      if (d === covered) {
        index.push(ix.zero)
        return
      }
      const options = extent === 1 ? [] : this.tiles.candidates(extent, avoid)
      const best =
        options.find((o) => known.some((k) => k.index[d]?.key === o.expr.key)) ?? this.sharedBy(x, d, options)
      const dim = extent === 1 ? { expr: ix.zero, axes: [], extent: 1 } : (best ?? this.tiles.freshDim(key(d), extent))
      for (const a of dim.axes) avoid.add(a)
      this.bind(dim, x, d)
      dims.push(dim)
      index.push(dim.expr)
      if (extent > 1 && best === undefined && this.tiles.coverOf(key(d)) === undefined) own.push(d)
    })
    for (const d of own) this.own.push({ key: key(d), operand: x, index, d })
    return { index, dims }
  }

  private requireOnce(node: Node, index: readonly Expr[], mask: Predicate): void {
    // A result in pieces has its reductions in pieces.
    if (this.tiles.mayCut && node.op === 'reduce' && visitsOnce(index, node.shape)) return
    if (coversOnceInside(index, node.shape, mask, this.tiles.guards.inside(index, node.shape))) return
    this.tiles.askOverhang(index)
    throw new Refusal(whyNotOnce(node, index, mask))
  }

  /** The value of a reduction at coordinates; each element of it is evaluated once. */
  reduce(node: NodeOf<'reduce'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'reduce without input')
    this.requireOnce(node, index, mask)
    const { combiner, axes, last } = node.attrs
    let next = 0
    const kept = (d: number): Expr | undefined => (axes.includes(d) ? undefined : (index[next++] ?? ix.zero))
    const avoid = this.tiles.axesOfExprs([...index, ...mask.map((b) => b.expr)])
    const cover = this.coverOf(node, avoid)
    for (const a of cover === undefined ? [] : axesOfCover(cover)) avoid.add(a)
    const { index: inner, dims } = this.bindReduced(x, kept, (d) => `${node.id}.${d}`, avoid, cover?.d)
    if (cover !== undefined)
      return foldPieces(
        this.tiles,
        node,
        cover,
        dims.flatMap((b) => b.axes),
        (e) => this.nodes.value(x, inner.with(cover.d, e), always),
      )
    const over = dims.flatMap((d) => d.axes)
    // What the index map reaches is there: nothing need be masked.
    const arg = this.tiles.spread(this.nodes.value(x, inner, this.tiles.mayCut ? always : mask), over, node)
    const position = isArgCombiner(combiner) ? dims[0]?.expr : undefined
    if (over.length === 0)
      return position === undefined ? arg : this.tiles.constant(isWide(node.dtype) ? 0n : 0, node.dtype, node)
    const out = this.tiles.letOf(arg).axes.filter((a) => !over.includes(a))
    const op: TileOp = {
      kind: 'reduce',
      combiner,
      arg,
      axes: over,
      ...(position === undefined ? {} : { position }),
      ...(last === true ? { last } : {}),
    }
    return this.tiles.emit(op, node.dtype, out, node)
  }

  /**
   * The pieces that a reduced dimension is to run over, where the reduction may be made of theirs. Pieces over axes that the result's
   * own index runs over are no pieces for it.
   */
  private coverOf(node: NodeOf<'reduce'>, taken: ReadonlySet<string>): Cover | undefined {
    const cover = this.piecesOf(node)
    return cover === undefined || axesOfCover(cover).some((a) => taken.has(a)) ? undefined : cover
  }

  private piecesOf(node: NodeOf<'reduce'>): Cover | undefined {
    const { combiner, axes } = node.attrs
    if (isArgCombiner(combiner)) return undefined
    for (const d of axes) {
      const pieces = this.tiles.coverOf(`${node.id}.${d}`)
      if (pieces === undefined) continue
      if (!isFloat(node.dtype) || (combiner !== 'sum' && combiner !== 'prod')) return { d, pieces }
      if (this.nodes.mode === 'fast') return computeDType(node.dtype) === node.dtype ? { d, pieces } : undefined
      // The number of the piece as one more axis keeps the order.
      return axes.length === 1 && alike(pieces) ? { d, pieces, digit: this.tiles.digitOf(pieces) } : undefined
    }
    return undefined
  }

  /** The value of a scan along an axis of its own. */
  scan(node: NodeOf<'scan'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'scan without input')
    this.requireOnce(node, index, mask)
    const { axis, combiner, reverse, exclusive, tree } = node.attrs
    const along = ix.asAxis(index[axis] ?? ix.zero)
    const arg = this.tiles.spread(this.nodes.value(x, index, mask), along === undefined ? [] : [along.name], node)
    if (along === undefined) {
      this.tiles.rejoin(index[axis] ?? ix.zero)
      if ((x.shape[axis] ?? 0) > 1) throw new Refusal(refuse('unaligned-output', 'a scan needs an axis of its own'))
      if (exclusive) return this.tiles.constant(combinerIdentity(combiner, node.dtype), node.dtype, node)
      return arg
    }
    return this.tiles.emit(
      { kind: 'scan', combiner, arg, axis: along.name, reverse, exclusive, ...(tree === true ? { tree } : {}) },
      node.dtype,
      this.tiles.ordered([...this.tiles.letOf(arg).axes, along.name]),
      node,
    )
  }

  /** The value of a contraction: a dot in the dtype that products accumulate in. */
  contract(node: NodeOf<'contract'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [a, b] = node.inputs
    invariant(a !== undefined && b !== undefined, 'a contraction without operands')
    this.requireOnce(node, index, mask)
    const { lhs, rhs, out } = node.attrs
    const at = new Map<string, Expr>([...out].map((l, i) => [l, index[i] ?? ix.zero]))
    const over: string[] = []
    const bind = (labels: string, x: Node): Expr[] =>
      [...labels].map((l, d) => {
        const have = at.get(l)
        if (have !== undefined) return have
        const dim = this.tiles.freshDim(`${node.id}.${l}`, x.shape[d] ?? 1)
        this.bind(dim, x, d)
        over.push(...dim.axes)
        at.set(l, dim.expr)
        return dim.expr
      })
    const operand = (labels: string, x: Node): { readonly value: ValueId; readonly axes: readonly string[] } => {
      const exprs = bind(labels, x)
      return { value: this.nodes.value(x, exprs, mask), axes: [...this.tiles.axesOfExprs(exprs)] }
    }
    const [left, right] = [operand(lhs, a), operand(rhs, b)]
    // What one operand repeats along an axis of the result is a row or a column of the other's, not a batch of its own: weights and keys that many share.
    const whole = ({ value, axes }: typeof left, other: ValueId): ValueId => {
      const has = new Set(this.tiles.letOf(other).axes)
      return this.tiles.spread(
        value,
        axes.filter((x) => over.includes(x) || !has.has(x)),
        node,
      )
    }
    const vb = whole(right, left.value)
    const va = whole(left, vb)
    const free = new Set([...this.tiles.letOf(va).axes, ...this.tiles.letOf(vb).axes].filter((x) => !over.includes(x)))
    const acc = computeDType(node.dtype)
    const [na, nb] = [this.narrow(va), this.narrow(vb)]
    const isNarrow = na?.dtype === nb?.dtype && na !== undefined && nb !== undefined && this.isShallow(node, over)
    const dot = this.tiles.emit(
      {
        kind: 'dot',
        a: isNarrow ? na.id : va,
        b: isNarrow ? nb.id : vb,
        axes: this.tiles.ordered(over),
        ...(isNarrow ? {} : precisionOf(node)),
      },
      acc,
      this.tiles.ordered(free),
      node,
    )
    if (acc === node.dtype) return dot
    return this.nodes.mode === 'fast'
      ? this.tiles.looseCast(dot, node.dtype, node)
      : this.tiles.scalar('cast', [dot], node.dtype, node)
  }

  /** A value in 16 bits that another widens to f32: of two such products are exact, whichever unit multiplies them. */
  private narrow(id: ValueId): LetStmt | undefined {
    const { op, dtype } = this.tiles.letOf(id)
    const from = op.kind === 'scalar' && op.op === 'cast' && dtype === 'f32' ? op.args[0] : undefined
    const of = from === undefined ? undefined : this.tiles.letOf(from)
    return of !== undefined && isFloat(of.dtype) && dtypeBits(of.dtype) === 16 ? of : undefined
  }

  /** Whether a unit for 16 bits sums a product of f32 as precisely as is asked for: in so few steps (docs/numerics.md). */
  private isShallow({ attrs }: NodeOf<'contract'>, over: readonly string[]): boolean {
    if (this.nodes.mode !== 'fast' || attrs.precision === 'ieee') return false
    return attrs.precision === 'tf32' || pointsOf(this.tiles.extents, over) <= mostExact
  }
}

/** Terms of a sum that a matrix unit's accumulator takes without a loss that is told from f32's. */
const mostExact = 256

/** How the operands of a contraction are multiplied, where not in their own precision. */
const precisionOf = ({ attrs, inputs: [a] }: NodeOf<'contract'>): { readonly precision?: UnitPrecision } =>
  attrs.precision === undefined || attrs.precision === 'ieee' || a?.dtype !== 'f32'
    ? {}
    : { precision: attrs.precision }
