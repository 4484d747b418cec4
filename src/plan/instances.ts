/**
 * Instances: a region's nodes evaluated at index maps over named axes. One node may have several instances in a kernel
 * (`x @ x.T` reads x at [m, k] and at [n, k]); equal maps share one. Views are composition of maps. With buildBody.ts this is
 * the one piece of code that decides which regions can be a kernel: the planner asks it, the lowering uses what it built.
 */
import { invariant, unreachable } from '../diagnostics/errors.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { familyOf, opDef } from '../graph/table.ts'
import type { Expr } from '../index/expr.ts'
import * as ix from '../index/expr.ts'
import { always, type Bound, conjoin, decideBound, isNever, type Predicate, predicateKey } from '../index/predicate.ts'
import type { NumericsMode, TileOp, ValueId } from '../kernel/ir.ts'
import { roundTo } from '../scalar/eval.ts'
import { readElement } from '../scalar/host.ts'
import { combinerIdentity, isArgCombiner, type Scalar } from '../scalar/ops.ts'
import { computeDType, isFloat, isWide } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { coversOnce, visitsOnce } from './bijection.ts'
import { alike, type Cover, coverOf, foldPieces, offsetsAlong, readAlong } from './cover.ts'
import { joinLiterals } from './literals.ts'
import { type Refused, refuse } from './refusal.ts'
import { isFree, type Region, shallowFirst } from './region.ts'
import { type BoundDim, CoverAxis, type Tiles } from './tiles.ts'
import { unrounded } from './unrounded.ts'

/** Carries a refusal out of the evaluation. */
export class Refusal {
  readonly refused: Refused
  constructor(refused: Refused) {
    this.refused = refused
  }
}

/** A node at an index map. Where the mask does not hold the value is anything. */
interface Instance {
  readonly key: string
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly value: ValueId
}

/** A dimension that a fold runs over on axes of its own. */
interface OwnFold {
  readonly key: string
  readonly operand: Node
  readonly index: readonly Expr[]
  readonly d: number
}

/** Evaluates a region's nodes at index maps into tiles. */
export class Instances {
  readonly tiles: Tiles
  readonly loads = new Map<string, Node>()
  private readonly loadNames = new Map<Node, string>()
  private readonly positions = new Map<string, ValueId>()
  /** Keys of index maps: operands are evaluated at the very map of their user. */
  private readonly keys = new WeakMap<readonly Expr[], { readonly mask: Predicate; readonly key: string }>()
  private readonly instances = new Map<Node, Instance[]>()
  private readonly region: Region
  private readonly mode: NumericsMode
  private readonly ownFolds: OwnFold[] = []
  /** Whether a branch was met that a result bound in pieces would decide. */
  branches = false

  constructor(region: Region, tiles: Tiles, mode: NumericsMode) {
    this.region = region
    this.tiles = tiles
    this.mode = mode
  }

  /** Pieces that the kernel reads, and that a fold on axes of its own might run over instead. */
  findCover(): CoverAxis | undefined {
    for (const { key, operand, index, d } of this.ownFolds) {
      const read = readAlong(operand, index, d, this.region.members, (n) => this.instancesOf(n))
      const cover = coverOf(
        read.flatMap((e) => this.tiles.pieceOf(e) ?? []),
        operand.shape[d] ?? 1,
      )
      if (cover !== undefined) return new CoverAxis(key, cover)
    }
    return undefined
  }

  /** The value of a node at coordinates, where `mask` holds (elsewhere anything, but memory is not touched). */
  value(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    invariant(
      index.length === node.shape.length,
      `${node.op} of rank ${node.shape.length} at ${index.length} coordinates`,
    )
    const key = this.keyOf(index, mask)
    for (const i of this.instances.get(node) ?? []) if (i.key === key) return i.value
    const id =
      this.region.members.has(node) || isFree(node) ? this.compute(node, index, mask) : this.load(node, index, mask, 0)
    const instance = { key, index, mask, value: id }
    const list = this.instances.get(node)
    if (list === undefined) this.instances.set(node, [instance])
    else list.push(instance)
    return id
  }

  private keyOf(index: readonly Expr[], mask: Predicate): string {
    const have = this.keys.get(index)
    if (have?.mask === mask) return have.key
    let key = ''
    for (const e of index) key += `${e.key},`
    if (mask.length > 0) key += `|${predicateKey(mask)}`
    this.keys.set(index, { mask, key })
    return key
  }

  /** Instances of a node so far. */
  instancesOf(node: Node): readonly Instance[] {
    return this.instances.get(node) ?? []
  }

  /** Instances of a node, else of the elementwise operands of its shape that it would be computed from. */
  instancesNear(node: Node): readonly Instance[] {
    const stack = [node]
    const seen = new Set<Node>()
    for (let n = stack.shift(); n !== undefined; n = stack.shift()) {
      const have = this.instancesOf(n)
      if (have.length > 0) return have
      if (seen.has(n) || familyOf(n) !== 'elementwise' || !this.region.members.has(n)) continue
      seen.add(n)
      stack.push(...n.inputs)
    }
    return []
  }

  private load(node: Node, index: readonly Expr[], mask: Predicate, other: Scalar): ValueId {
    let name = this.loadNames.get(node)
    if (name === undefined) {
      name = `x${this.loads.size}`
      this.loadNames.set(node, name)
      this.loads.set(name, node)
    }
    const zero: Scalar = node.dtype === 'bool' ? Boolean(other) : isWide(node.dtype) ? BigInt(other) : other
    const axes = this.tiles.ordered(this.tiles.axesOfExprs([...index, ...mask.map((b) => b.expr)]))
    return this.tiles.emit({ kind: 'load', param: name, index, mask, other: zero }, node.dtype, axes, node)
  }

  private compute(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    switch (familyOf(node)) {
      case 'elementwise':
        return this.elementwise(node, index, mask)
      case 'source':
        return this.source(node, index)
      case 'random':
        return this.random(node, index, mask)
      case 'view':
        return this.view(node, index, mask)
      case 'gather':
        return this.gather(node as NodeOf<'gather'>, index, mask)
      case 'reduction':
        return this.reduce(node as NodeOf<'reduce'>, index, mask)
      case 'scan':
        return this.scan(node as NodeOf<'scan'>, index, mask)
      case 'contraction':
        return this.contract(node as NodeOf<'contract'>, index, mask)
      case 'scatter':
      case 'boundary':
      case 'region':
        throw new Refusal(refuse(`${opDef(node).boundary ?? 'opaque'}-boundary`, `${node.op} stands alone`))
    }
  }

  private elementwise(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const op = opDef(node).scalar
    invariant(op !== undefined, `${node.op} has no scalar operation`)
    const wide = this.mode === 'fast' ? unrounded(node, (x) => this.region.members.has(x)) : undefined
    if (wide !== undefined) return this.value(wide, index, mask)
    const args = new Array<ValueId>(node.inputs.length)
    for (const i of shallowFirst(node)) {
      const x = node.inputs[i]
      if (x !== undefined) args[i] = this.value(x, index, mask)
    }
    const joined = this.mode === 'fast' && op === 'mul' ? joinLiterals(this.tiles, args, node) : undefined
    return joined ?? this.tiles.scalar(op, args, node.dtype, node)
  }

  private source(node: Node, index: readonly Expr[]): ValueId {
    switch (node.op) {
      case 'full':
        return this.tiles.constant(node.attrs.value, node.dtype, node)
      case 'constant':
        return this.tiles.constant(readElement(node.attrs.data, node.dtype, 0), node.dtype, node)
      case 'iota': {
        const at = index[node.attrs.axis] ?? ix.zero
        let id = this.positions.get(at.key)
        if (id === undefined) {
          id = this.tiles.emit(
            { kind: 'index', expr: at },
            'i32',
            this.tiles.ordered(this.tiles.axesOfExprs([at])),
            node,
          )
          this.positions.set(at.key, id)
        }
        return node.dtype === 'i32' ? id : this.tiles.scalar('cast', [id], node.dtype, node)
      }
      default:
        throw new Refusal(refuse('unaligned-output', `${node.op} is not computed`))
    }
  }

  private random(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const [key] = node.inputs
    invariant(key !== undefined, 'random bits without key')
    const k0 = this.value(key, [ix.constant(0)], mask)
    const k1 = this.value(key, [ix.constant(1)], mask)
    const at = ix.flatten(index, node.shape)
    const { lo, hi } = ix.rangeOf(at)
    if (lo < 0 || hi >= Math.max(1, sizeOf(node.shape)))
      throw new Refusal(refuse('random-in-padding', 'random bits would be drawn outside their tensor'))
    const axes = this.tiles.ordered([
      ...this.tiles.axesOfExprs([at]),
      ...this.tiles.letOf(k0).axes,
      ...this.tiles.letOf(k1).axes,
    ])
    return this.tiles.emit({ kind: 'random', k0, k1, index: at }, node.dtype, axes, node)
  }

  private view(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'a view without input')
    const at = (i: number): Expr => index[i] ?? ix.zero
    switch (node.op) {
      case 'reshape':
        return this.value(x, ix.unflatten(ix.flatten(index, node.shape), x.shape), mask)
      case 'permute': {
        const inner = new Array<Expr>(x.shape.length).fill(ix.zero)
        node.attrs.perm.forEach((p, i) => {
          inner[p] = at(i)
        })
        return this.value(x, inner, mask)
      }
      case 'broadcast':
        return this.value(
          x,
          node.attrs.dims.map((d, i) => (x.shape[i] === 1 ? ix.zero : at(d))),
          mask,
        )
      case 'slice':
        return this.value(
          x,
          x.shape.map((_, i) => ix.addConst(ix.mul(at(i), node.attrs.step[i] ?? 1), node.attrs.start[i] ?? 0)),
          mask,
        )
      case 'flip':
        return this.value(
          x,
          x.shape.map((n, i) => (node.attrs.axes.includes(i) ? ix.sub(ix.constant(n - 1), at(i)) : at(i))),
          mask,
        )
      case 'window': {
        const { axis, stride, dilation } = node.attrs
        const inner = x.shape.map((_, i) =>
          i < axis ? at(i) : i > axis ? at(i + 1) : ix.add(ix.mul(at(axis), stride), ix.mul(at(axis + 1), dilation)),
        )
        return this.value(x, inner, mask)
      }
      case 'pad':
        return this.pad(node, x, index, mask)
      case 'concat':
        return this.concat(node, index, mask)
      default:
        throw unreachable(node as never, 'view')
    }
  }

  private pad(node: NodeOf<'pad'>, x: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const bounds: Bound[] = []
    const inner = x.shape.map((n, i) => {
      const e = ix.addConst(index[i] ?? ix.zero, -(node.attrs.low[i] ?? 0))
      const step = (node.attrs.interior[i] ?? 0) + 1
      if (step > 1) bounds.push({ expr: ix.mod(e, step), lo: 0, hi: 1 })
      const q = ix.div(e, step)
      bounds.push({ expr: q, lo: 0, hi: n })
      return q
    })
    const own = conjoin(always, ...bounds)
    const padding = (): ValueId => this.tiles.constant(node.attrs.value, node.dtype, node)
    if (own.length === 0) return this.value(x, inner, mask)
    if (isNever(own)) return padding()
    for (const b of own) if (this.tiles.cutAt(b.expr, [b.lo, b.hi])) this.branches = true
    const both = conjoin(mask, ...own)
    const v = this.value(x, inner, both)
    const { op, dtype, axes } = this.tiles.letOf(v)
    // A load under exactly this mask gives the padding itself.
    if (op.kind === 'load' && predicateKey(op.mask) === predicateKey(both))
      return this.tiles.emit(
        { ...op, other: roundTo(node.dtype, node.attrs.value) },
        dtype,
        axes,
        this.tiles.origin.get(v) ?? node,
      )
    return this.tiles.scalar('select', [this.tiles.predicate(own, node), v, padding()], node.dtype, node)
  }

  private concat(node: NodeOf<'concat'>, index: readonly Expr[], mask: Predicate): ValueId {
    const { axis } = node.attrs
    const at = index[axis] ?? ix.zero
    const edges = offsetsAlong(node.inputs, axis)
    const parts: { readonly p: Predicate; readonly v: ValueId }[] = []
    for (const [i, x] of node.inputs.entries()) {
      const n = x.shape[axis] ?? 0
      const offset = edges[i] ?? 0
      const bound = { expr: at, lo: offset, hi: offset + n }
      if (decideBound(bound) === 'unknown' && this.tiles.cutAt(at, edges)) this.branches = true
      if (n > 0 && decideBound(bound) !== 'false') {
        const p = conjoin(always, bound)
        const inner = index.with(axis, ix.addConst(at, -offset))
        parts.push({ p, v: this.value(x, inner, conjoin(mask, ...p)) })
      }
    }
    const last = parts.pop()
    if (last === undefined) return this.tiles.constant(isWide(node.dtype) ? 0n : 0, node.dtype, node)
    return parts.reduceRight(
      (rest, { p, v }) => this.tiles.scalar('select', [this.tiles.predicate(p, node), v, rest], node.dtype, node),
      last.v,
    )
  }

  private gather(node: NodeOf<'gather'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x, ...indices] = node.inputs
    invariant(x !== undefined, 'gather without input')
    const inner = node.attrs.sources.map((s, d) => {
      if ('axis' in s) return index[s.axis] ?? ix.zero
      const source = indices[s.input]
      invariant(source !== undefined, 'gather without index')
      const n = x.shape[d] ?? 1
      if (n === 1) return ix.zero
      const raw = this.value(source, index, mask)
      const literal = (v: number): ValueId =>
        this.tiles.constant(isWide(source.dtype) ? BigInt(v) : v, source.dtype, node)
      const clamped = this.tiles.scalar(
        'min',
        [this.tiles.scalar('max', [raw, literal(0)], source.dtype, node), literal(n - 1)],
        source.dtype,
        node,
      )
      return ix.value(source.dtype === 'i32' ? clamped : this.tiles.scalar('cast', [clamped], 'i32', node), n)
    })
    return this.value(x, inner, mask)
  }

  /** Binds the reduced dimensions of an input: to axes where that very instance exists, else to any free axes, else to fresh ones. */
  private bindReduced(
    x: Node,
    kept: (d: number) => Expr | undefined,
    key: (d: number) => string,
    avoid: Set<string>,
    covered?: number,
  ): { index: Expr[]; dims: BoundDim[] } {
    const dims: BoundDim[] = []
    const index: Expr[] = []
    const known = this.instancesNear(x)
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
      const best = options.find((o) => known.some((k) => k.index[d]?.key === o.expr.key)) ?? options[0]
      const dim = extent === 1 ? { expr: ix.zero, axes: [], extent: 1 } : (best ?? this.tiles.freshDim(key(d), extent))
      for (const a of dim.axes) avoid.add(a)
      dims.push(dim)
      index.push(dim.expr)
      if (extent > 1 && best === undefined && this.tiles.coverOf(key(d)) === undefined) own.push(d)
    })
    for (const d of own) this.ownFolds.push({ key: key(d), operand: x, index, d })
    return { index, dims }
  }

  private requireOnce(node: Node, index: readonly Expr[], mask: Predicate): void {
    // A result in pieces has its reductions in pieces.
    if (this.tiles.mayCut && node.op === 'reduce' && visitsOnce(index, node.shape)) return
    if (mask.length > 0 || !coversOnce(index, node.shape))
      throw new Refusal(refuse('reduction-recomputed', `${node.op} would be evaluated more than once an element`))
  }

  private reduce(node: NodeOf<'reduce'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'reduce without input')
    this.requireOnce(node, index, mask)
    const { combiner, axes, last } = node.attrs
    let next = 0
    const kept = (d: number): Expr | undefined => (axes.includes(d) ? undefined : (index[next++] ?? ix.zero))
    const avoid = this.tiles.axesOfExprs([...index, ...mask.map((b) => b.expr)])
    const cover = this.coverOf(node)
    const { index: inner, dims } = this.bindReduced(x, kept, (d) => `${node.id}.${d}`, avoid, cover?.d)
    if (cover !== undefined)
      return foldPieces(
        this.tiles,
        node,
        cover,
        dims.flatMap((b) => b.axes),
        (e) => this.value(x, inner.with(cover.d, e), always),
      )
    const over = dims.flatMap((d) => d.axes)
    // What the index map reaches is there: nothing need be masked.
    const arg = this.tiles.spread(this.value(x, inner, this.tiles.mayCut ? always : mask), over, node)
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

  /** The pieces that a reduced dimension is to run over, where the reduction may be made of theirs. */
  private coverOf(node: NodeOf<'reduce'>): Cover | undefined {
    const { combiner, axes } = node.attrs
    if (isArgCombiner(combiner)) return undefined
    for (const d of axes) {
      const pieces = this.tiles.coverOf(`${node.id}.${d}`)
      if (pieces === undefined) continue
      if (!isFloat(node.dtype) || (combiner !== 'sum' && combiner !== 'prod')) return { d, pieces }
      if (this.mode === 'fast') return computeDType(node.dtype) === node.dtype ? { d, pieces } : undefined
      // The number of the piece as one more axis keeps the order.
      return axes.length === 1 && alike(pieces) ? { d, pieces, digit: this.tiles.digitOf(pieces) } : undefined
    }
    return undefined
  }

  private scan(node: NodeOf<'scan'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'scan without input')
    this.requireOnce(node, index, mask)
    const { axis, combiner, reverse, exclusive } = node.attrs
    const along = ix.asAxis(index[axis] ?? ix.zero)
    const arg = this.tiles.spread(this.value(x, index, mask), along === undefined ? [] : [along.name], node)
    if (along === undefined) {
      this.tiles.rejoin(index[axis] ?? ix.zero)
      if ((x.shape[axis] ?? 0) > 1) throw new Refusal(refuse('unaligned-output', 'a scan needs an axis of its own'))
      if (exclusive) return this.tiles.constant(combinerIdentity(combiner, node.dtype), node.dtype, node)
      return arg
    }
    return this.tiles.emit(
      { kind: 'scan', combiner, arg, axis: along.name, reverse, exclusive },
      node.dtype,
      this.tiles.ordered([...this.tiles.letOf(arg).axes, along.name]),
      node,
    )
  }

  private contract(node: NodeOf<'contract'>, index: readonly Expr[], mask: Predicate): ValueId {
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
        over.push(...dim.axes)
        at.set(l, dim.expr)
        return dim.expr
      })
    const operand = (labels: string, x: Node): ValueId => {
      const exprs = bind(labels, x)
      return this.tiles.spread(this.value(x, exprs, mask), [...this.tiles.axesOfExprs(exprs)], node)
    }
    const va = operand(lhs, a)
    const vb = operand(rhs, b)
    const free = new Set([...this.tiles.letOf(va).axes, ...this.tiles.letOf(vb).axes].filter((x) => !over.includes(x)))
    const acc = computeDType(node.dtype)
    const dot = this.tiles.emit(
      { kind: 'dot', a: va, b: vb, axes: this.tiles.ordered(over) },
      acc,
      this.tiles.ordered(free),
      node,
    )
    return acc === node.dtype ? dot : this.tiles.scalar('cast', [dot], node.dtype, node)
  }
}
