/** Tile statements and the axes they run over, while a body is built: equal statements meet, axes may be split or reused. */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { type Predicate, predicateKey } from '../../affine/predicate.ts'
import { InternalError, invariant, unreachable } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import { roundTo } from '../../scalar/eval.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { type DType, isHalf, isWide } from '../../types/dtype.ts'
import { Refusal, refuse } from '../refusal.ts'
import { Guards } from './guards.ts'

/** A dimension bound to axes: its index expression and the axes it runs over. */
export interface BoundDim {
  readonly expr: Expr
  readonly axes: readonly string[]
  readonly extent: number
}

/** The indices offset + stride * base of a dimension, base a whole dimension of a result. */
export interface Piece {
  readonly base: Expr
  readonly axes: readonly string[]
  readonly extent: number
  readonly stride: number
  readonly offset: number
}

/** What an attempt found of how a dimension (or a digit of it), by its key, is to be bound instead. */
export type Rebind =
  /** Its digits: quotients or remainders ask for them. */
  | { readonly kind: 'split'; readonly key: string; readonly factors: readonly number[] }
  /** It stays one axis, since a scan runs along it. */
  | { readonly kind: 'keep'; readonly key: string }
  /** Where the ranges begin in which a result is bound. */
  | { readonly kind: 'cut'; readonly key: string; readonly edges: readonly number[] }
  /** A fold runs over the pieces in which the kernel reads what it folds. */
  | { readonly kind: 'cover'; readonly key: string; readonly pieces: readonly Piece[] }
  /** A result is bound to axes before the others: where it is evaluated others are found. */
  | { readonly kind: 'first'; readonly result: Node }

/** What earlier attempts found of how dimensions are to be bound. */
export interface Bindings {
  /** Digits of dimensions, by their key. */
  readonly splits: Map<string, readonly number[]>
  /** Dimensions that stay one axis. */
  readonly kept: Set<string>
  /** Where the ranges of results' dimensions (or digits of them) begin; absent: results are bound whole. */
  readonly cuts?: Map<string, readonly number[]>
  /** The pieces that folded dimensions are read in. */
  readonly covers: Map<string, readonly Piece[]>
  /** Results that are bound before the others. */
  readonly firsts: Set<Node>
  /** Dimensions of results may be split into digits that count beyond their extent; what stands there is not stored. */
  readonly overhang?: boolean
}

/** What is evaluated while a body is built is that many times what is used of it at most. */
const unusedShare = 4

/** Values that wait for one another are that many times the statements of a body at most: views wait, but are no statements. */
const waitingShare = 2

/** Letters of the index map that a value of several kernels' is evaluated at, at most; those of programs as they are written have hundreds. */
const longestIndex = 8192

const product = (factors: readonly number[]): number => factors.reduce((n, f) => n * f, 1)

const axisLetters = 'ijklmnpqrstuvwxyzabcdefgh'

export class Tiles {
  readonly lets: LetStmt[] = []
  readonly origin = new Map<ValueId, Node>()
  readonly extents = new Map<string, number>()
  private readonly memo = new Map<string, ValueId>()
  private readonly bound: BoundDim[] = []
  private readonly keys = new Map<string, { key: string; factors: readonly number[] }>()
  private readonly bindings: Bindings
  /** Dimensions of results, and the pieces of those that are cut, by key. */
  private readonly roots = new Map<string, BoundDim>()
  private readonly digits = new Map<string, BoundDim>()
  private nextAxis = 0
  private readonly most: number
  private asked: Rebind | undefined
  readonly guards = new Guards()
  /** Whether digits that count beyond a result might make another kernel of it. */
  overhangs = false

  /** `most`: statements of the body that is asked for. */
  constructor(bindings: Bindings, most = Number.POSITIVE_INFINITY) {
    this.bindings = bindings
    this.most = most
  }

  /** The first that was asked to be bound otherwise: nothing evaluated since means anything. */
  get rebind(): Rebind | undefined {
    return this.asked
  }

  /** Whether dimensions of results may be cut. */
  get mayCut(): boolean {
    return this.bindings.cuts !== undefined
  }

  /** A dimension of a result: one piece, or where it is cut one for each range. Ranges of one extent share their axes. */
  rootDim(key: string, extent: number): readonly BoundDim[] {
    const { splits, cuts } = this.bindings
    const factors = splits.get(key)
    if (factors?.some((_, i) => cuts?.has(`${key}/${i}`)) === true) {
      let out: readonly BoundDim[] = [{ expr: ix.zero, axes: [], extent: 1 }]
      let stride = extent
      factors.forEach((f, i) => {
        stride /= f
        const digit = this.rootDim(`${key}/${i}`, f)
        out = out.flatMap((o) =>
          digit.map((p) => ({
            expr: ix.add(o.expr, ix.mul(p.expr, stride)),
            axes: [...o.axes, ...p.axes],
            extent: o.extent * p.extent,
          })),
        )
      })
      return out
    }
    const edges = cuts?.get(key)
    if (edges === undefined) {
      const dim = this.roots.get(key) ?? this.freshDim(key, extent)
      this.roots.set(key, dim)
      return [dim]
    }
    return edges.flatMap((from, i) => {
      const n = (edges[i + 1] ?? extent) - from
      return this.rootDim(`${key}:${n}`, n).map((p) => ({ ...p, expr: ix.addConst(p.expr, from) }))
    })
  }

  /**
   * Where branches of a result's dimension change at `edges` of an expression: asks that it be cut, if it can be. Where results
   * are bound whole, whether it could be.
   */
  cutAt(e: Expr, edges: readonly number[]): boolean {
    const { cuts } = this.bindings
    if (cuts === undefined)
      return [...ix.axesOf(e)].every((a) => this.roots.has(this.keys.get(a)?.key ?? '')) && ix.valuesOf(e).size === 0
    this.asked ??= this.splitFor([e])
    const [t, second] = e.terms
    if (this.asked !== undefined || t === undefined || second !== undefined || t.coef !== 1 || t.atom.kind !== 'axis')
      return false
    const { name, extent } = t.atom
    const made = this.keys.get(name)
    if (made === undefined || !this.roots.has(made.key)) return false
    const inside = edges.map((at) => at - e.offset).filter((at) => at > 0 && at < extent)
    if (inside.length === 0) return false
    const key = made.factors.length === 1 ? made.key : `${made.key}/${this.positionInKey(name, made.key)}`
    this.asked = { kind: 'cut', key, edges: [0, ...new Set(inside.sort((p, q) => p - q))] }
    return false
  }

  /** The pieces a folded dimension is to run over, if earlier attempts found them. */
  coverOf(key: string): readonly Piece[] | undefined {
    return this.bindings.covers.get(key)
  }

  /** An axis that numbers the pieces of a cover. */
  digitOf(pieces: readonly Piece[]): BoundDim {
    const key = pieces.map((p) => `${p.base.key}*${p.stride}+${p.offset}`).join()
    const have = this.digits.get(key) ?? this.freshDim(`pieces of ${key}`, pieces.length)
    this.digits.set(key, have)
    return have
  }

  /** A range of indices: an expression over axes of results at a stride, and where it begins. */
  pieceOf(e: Expr): Piece | undefined {
    const [t] = e.terms
    if (t === undefined) return { base: ix.zero, axes: [], extent: 1, stride: 1, offset: e.offset }
    const stride = e.terms.reduce((g, u) => Math.min(g, u.coef), t.coef)
    if (stride < 1 || e.terms.some((u) => u.coef % stride !== 0)) return undefined
    const scaled = e.terms.reduce((sum, u) => {
      const { atom } = u
      return atom.kind === 'axis' ? ix.add(sum, ix.mul(ix.axis(atom.name, atom.extent), u.coef / stride)) : sum
    }, ix.zero)
    const dim = [...this.roots.values()].find((d) => d.axes.length > 0 && d.expr.key === scaled.key)
    if (dim === undefined) return undefined
    return { base: dim.expr, axes: dim.axes, extent: dim.extent, stride, offset: e.offset }
  }

  /** A dimension on fresh axes. */
  freshDim(key: string, extent: number): BoundDim {
    const factors = this.bindings.splits.get(key) ?? [extent]
    const axes: string[] = []
    let expr = ix.zero
    let stride = product(factors)
    for (const f of factors) {
      stride = f === 0 ? 0 : stride / f
      if (f === 1) continue
      const n = this.nextAxis++
      const name = `${axisLetters[n % axisLetters.length]}${n < axisLetters.length ? '' : Math.floor(n / axisLetters.length)}`
      this.extents.set(name, f)
      this.keys.set(name, { key, factors })
      axes.push(name)
      expr = ix.add(expr, ix.mul(ix.axis(name, f), Math.max(stride, 1)))
    }
    const dim = { expr, axes, extent }
    this.bound.push(dim)
    return dim
  }

  /** Axes that may be reused for a reduced dimension: same extent and none beyond it, none of them free in the result. */
  candidates(extent: number, avoid: ReadonlySet<string>): BoundDim[] {
    return this.bound.filter(
      (b) =>
        b.extent === extent &&
        b.axes.length > 0 &&
        !b.axes.some((a) => avoid.has(a)) &&
        ix.rangeOf(b.expr).hi < Math.max(extent, 1),
    )
  }

  /** Asks for digits that count beyond a result's dimension, where quotients of it do not divide it; else tells that they might help. */
  askOverhang(exprs: readonly Expr[]): void {
    const split = this.splitFor(exprs, true)
    if (split?.kind !== 'split' || product(split.factors) === this.indicesOf(split.key)) return
    if (this.bindings.overhang === true) this.asked ??= split
    else this.overhangs = true
  }

  /** The bound dimension an expression is. */
  dimOf(e: Expr): BoundDim | undefined {
    return this.bound.find((b) => b.axes.length > 0 && b.expr.key === e.key)
  }

  emit(op: TileOp, dtype: DType, axes: readonly string[], node: Node): ValueId {
    const id = this.lets.length
    if (id > unusedShare * this.most)
      throw new Refusal(refuse('too-many-live-values', `more than ${id} statements, the target takes ${this.most}`))
    this.lets.push({ kind: 'let', id, dtype, axes, op })
    this.origin.set(id, node)
    return id
  }

  /** Gives up where so many values are being evaluated, each for another: the recursion must end before the stack does. */
  checkDepth(depth: number): void {
    if (depth > waitingShare * this.most)
      throw new Refusal(
        refuse(
          'too-many-live-values',
          `more than ${depth} steps to one value, the target takes ${this.most} statements`,
        ),
      )
  }

  /** Gives up where index maps grow: each regrouping of an index that was regrouped may double it. */
  checkIndex(key: string): void {
    if (this.most < Number.POSITIVE_INFINITY && key.length > longestIndex)
      throw new Refusal(
        refuse('too-many-live-values', `an index of ${key.length} letters, a kernel takes up to ${longestIndex}`),
      )
  }

  letOf(id: ValueId): LetStmt {
    const l = this.lets[id]
    if (l === undefined) throw new InternalError(`value %${id} is not defined`)
    return l
  }

  /** Axes in creation order: outer dimensions first. */
  ordered(names: Iterable<string>): string[] {
    const set = new Set(names)
    return [...this.extents.keys()].filter((a) => set.has(a))
  }

  /** The axes of some values together. */
  private axesOfValues(ids: readonly ValueId[]): readonly string[] {
    let most: readonly string[] = []
    for (const id of ids) {
      const { axes } = this.letOf(id)
      if (axes.length > most.length) most = axes
    }
    for (const id of ids) {
      const { axes } = this.letOf(id)
      if (axes !== most && axes.some((a) => !most.includes(a)))
        return this.ordered(ids.flatMap((i) => this.letOf(i).axes))
    }
    return most
  }

  axesOfExprs(exprs: readonly Expr[]): Set<string> {
    const out = new Set<string>()
    for (const e of exprs) {
      for (const a of ix.axesOf(e)) out.add(a)
      for (const v of ix.valuesOf(e)) for (const a of this.letOf(v).axes) out.add(a)
    }
    return out
  }

  scalar(op: Extract<TileOp, { kind: 'scalar' }>['op'], args: readonly ValueId[], dtype: DType, node: Node): ValueId {
    return this.once(`s:${op}:${dtype}:${args.join()}`, { kind: 'scalar', op, args }, dtype, node)
  }

  /** A cast which, of f32 to a half dtype, need not round (`TileOp`). */
  looseCast(arg: ValueId, dtype: DType, node: Node): ValueId {
    if (this.letOf(arg).dtype !== 'f32' || !isHalf(dtype)) return this.scalar('cast', [arg], dtype, node)
    const op = { kind: 'scalar', op: 'cast', args: [arg], loose: true } as const
    return this.once(`s:cast:${dtype}:${arg}:loose`, op, dtype, node)
  }

  private once(key: string, op: Extract<TileOp, { kind: 'scalar' }>, dtype: DType, node: Node): ValueId {
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id = this.emit(op, dtype, this.axesOfValues(op.args), node)
    this.memo.set(key, id)
    return id
  }

  constant(literal: Scalar, dtype: DType, node: Node): ValueId {
    const value = roundTo(dtype, literal)
    const key = `c:${dtype}:${typeof value}:${Object.is(value, -0) ? '-0' : String(value)}`
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id = this.emit({ kind: 'const', value }, dtype, [], node)
    this.memo.set(key, id)
    return id
  }

  /** Zero of a node's dtype. */
  zero(node: Node): ValueId {
    return this.constant(node.dtype === 'bool' ? false : isWide(node.dtype) ? 0n : 0, node.dtype, node)
  }

  predicate(p: Predicate, node: Node): ValueId {
    const key = `p:${predicateKey(p)}`
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id = this.emit(
      { kind: 'predicate', predicate: p },
      'bool',
      this.ordered(this.axesOfExprs(p.map((b) => b.expr))),
      node,
    )
    this.memo.set(key, id)
    return id
  }

  /** The same value as a tile that has the given axes: repeated along those it lacks. */
  spread(id: ValueId, axes: readonly string[], node: Node): ValueId {
    const { dtype, axes: own } = this.letOf(id)
    const missing = axes.filter((a) => !own.includes(a))
    if (missing.length === 0) return id
    const everywhere = this.emit({ kind: 'const', value: true }, 'bool', missing, node)
    return this.emit(
      { kind: 'scalar', op: 'select', args: [everywhere, id, id] },
      dtype,
      this.ordered([...own, ...missing]),
      node,
    )
  }

  /**
   * The split of an axis that quotients or remainders ask for: into all its digits where they nest. `overhang`: those of results may
   * count beyond their extent.
   */
  splitFor(exprs: Iterable<Expr>, overhang = this.bindings.overhang === true): Rebind | undefined {
    let first: { readonly name: string; readonly extent: number } | undefined
    const strides = new Set<number>()
    for (const e of exprs)
      ix.visitAtoms(e, (atom) => {
        if (atom.kind !== 'div' && atom.kind !== 'mod') return
        const t = atom.of.terms[0]
        if (atom.of.terms.length !== 1 || atom.of.offset !== 0 || t === undefined || t.atom.kind !== 'axis') return
        if (first !== undefined && first.name !== t.atom.name) return
        const by = atom.by % t.coef === 0 ? atom.by / t.coef : 0
        const { name, extent } = t.atom
        const made = this.keys.get(name)
        if (by <= 1 || made === undefined || this.bindings.kept.has(made.key)) return
        if (extent % by !== 0 && !(overhang && by < extent && this.isFirstOfResult(name, made.key))) return
        first ??= { name, extent }
        strides.add(by)
      })
    if (first === undefined) return undefined
    const { name, extent } = first
    const made = this.keys.get(name)
    invariant(made !== undefined, `axis ${name} has no dimension`)
    const at = this.positionInKey(name, made.key)
    const [one = 1] = strides
    const inner = [...[...strides].filter((by) => by < extent).sort((a, b) => b - a), 1]
    const whole = Math.ceil(extent / (inner[0] ?? 1)) * (inner[0] ?? 1)
    const digits = inner.map((by, i) => (inner[i - 1] ?? whole) / by)
    const own = digits.every(Number.isInteger) ? digits : [Math.ceil(extent / one), one]
    const factors = [...made.factors.slice(0, at), ...own, ...made.factors.slice(at + 1)]
    return { kind: 'split', key: made.key, factors }
  }

  /** How many indices the digits of a dimension count. */
  private indicesOf(key: string): number {
    return product([...this.keys.values()].find((k) => k.key === key)?.factors ?? [])
  }

  /** Whether an axis is the outermost digit of a result's dimension: more of it are further indices. */
  private isFirstOfResult(name: string, key: string): boolean {
    const before = this.keys.get(name)?.factors.slice(0, this.positionInKey(name, key)) ?? []
    return this.roots.has(key) && before.every((f) => f === 1)
  }

  /** Asks that the split dimension an expression runs over, if it is one, be one axis. */
  rejoin(e: Expr): void {
    const [first, ...rest] = [...ix.axesOf(e)].map((a) => this.keys.get(a)?.key)
    if (first === undefined || rest.length === 0 || rest.some((k) => k !== first)) return
    this.asked ??= { kind: 'keep', key: first }
  }

  /** Which digit of its dimension an axis is (digits of extent 1 have no axis). */
  positionInKey(name: string, key: string): number {
    const factors = this.keys.get(name)?.factors ?? []
    const own = [...this.keys.entries()].filter(([, k]) => k.key === key).map(([n]) => n)
    let seen = own.indexOf(name)
    for (let i = 0; i < factors.length; i++) {
      if (factors[i] === 1) continue
      if (seen === 0) return i
      seen--
    }
    throw unreachable(name as never, 'axis')
  }
}
