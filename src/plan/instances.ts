/**
 * Instances: a region's nodes evaluated at index maps over named axes. One node may have several instances in a kernel
 * (`x @ x.T` reads x at [m, k] and at [n, k]); equal maps share one. Views are composition of maps. This is the one piece
 * of code that decides which regions can be a kernel: the planner asks it, the lowering uses what it built.
 */
import { invariant, unreachable } from '../diagnostics/errors.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { familyOf, opDef } from '../graph/table.ts'
import type { Expr } from '../index/expr.ts'
import * as ix from '../index/expr.ts'
import { always, type Bound, conjoin, decideBound, isNever, type Predicate, predicateKey } from '../index/predicate.ts'
import { type LetStmt, operandsOf, type TileOp, type ValueId } from '../kernel/ir.ts'
import { readElement } from '../scalar/host.ts'
import { isArgCombiner, type Scalar } from '../scalar/ops.ts'
import { computeDType, type DType, isWide } from '../types/dtype.ts'
import { coversOnce } from './bijection.ts'
import type { Body, BodyStore } from './body.ts'
import { type Refused, refuse } from './refusal.ts'
import { isFree, type Region } from './region.ts'

/** A dimension bound to axes: its index expression and the axes it runs over. */
interface BoundDim {
  readonly expr: Expr
  readonly axes: readonly string[]
  readonly extent: number
}

/** Thrown inside the builder when an axis must be split: `key` names the dimension, `factors` its new digits. */
class SplitAxis {
  readonly key: string
  readonly factors: readonly number[]
  constructor(key: string, factors: readonly number[]) {
    this.key = key
    this.factors = factors
  }
}

class Refusal {
  readonly refused: Refused
  constructor(refused: Refused) {
    this.refused = refused
  }
}

const axisLetters = 'ijklmnpqrstuvwxyzabcdefgh'

/** Reductions below a node: operands with fewer are visited first, so later reductions find the axes of the full rows. */
function reductionDepth(node: Node, memo: Map<Node, number>): number {
  const have = memo.get(node)
  if (have !== undefined) return have
  let depth = 0
  for (const x of node.inputs) depth = Math.max(depth, reductionDepth(x, memo))
  const f = familyOf(node)
  if (f === 'reduction' || f === 'contraction' || f === 'scan') depth++
  memo.set(node, depth)
  return depth
}

class Builder {
  readonly lets: LetStmt[] = []
  readonly loads = new Map<string, Node>()
  readonly origin = new Map<ValueId, Node>()
  readonly extents = new Map<string, number>()
  private readonly loadNames = new Map<Node, string>()
  private readonly memo = new Map<string, ValueId>()
  private readonly instances = new Map<Node, { readonly index: readonly Expr[]; readonly value: ValueId }[]>()
  private readonly bound: BoundDim[] = []
  private readonly keys = new Map<string, { key: string; factors: readonly number[] }>()
  private readonly region: Region
  private readonly splits: ReadonlyMap<string, readonly number[]>
  private readonly depths: Map<Node, number>
  private nextAxis = 0

  constructor(region: Region, splits: ReadonlyMap<string, readonly number[]>, depths: Map<Node, number>) {
    this.region = region
    this.splits = splits
    this.depths = depths
  }

  /** A dimension on fresh axes. */
  freshDim(key: string, extent: number): BoundDim {
    const factors = this.splits.get(key) ?? [extent]
    const axes: string[] = []
    let expr = ix.zero
    let stride = extent
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

  /** Axes that may be reused for a reduced dimension: same extent, none of them free in the result. */
  private candidates(extent: number, avoid: ReadonlySet<string>): BoundDim[] {
    return this.bound.filter((b) => b.extent === extent && b.axes.length > 0 && !b.axes.some((a) => avoid.has(a)))
  }

  private emit(op: TileOp, dtype: DType, axes: readonly string[], node: Node): ValueId {
    const id = this.lets.length
    this.lets.push({ kind: 'let', id, dtype, axes, op })
    this.origin.set(id, node)
    return id
  }

  letOf(id: ValueId): LetStmt {
    const l = this.lets[id]
    invariant(l !== undefined, `value %${id} is not defined`)
    return l
  }

  /** Axes in creation order: outer dimensions first. */
  private ordered(names: Iterable<string>): string[] {
    const set = new Set(names)
    return [...this.extents.keys()].filter((a) => set.has(a))
  }

  private axesOfExprs(exprs: readonly Expr[]): Set<string> {
    const out = new Set<string>()
    for (const e of exprs) {
      for (const a of ix.axesOf(e)) out.add(a)
      for (const v of ix.valuesOf(e)) for (const a of this.letOf(v).axes) out.add(a)
    }
    return out
  }

  private scalar(
    op: Extract<TileOp, { kind: 'scalar' }>['op'],
    args: readonly ValueId[],
    dtype: DType,
    node: Node,
  ): ValueId {
    const key = `s:${op}:${dtype}:${args.join()}`
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id = this.emit(
      { kind: 'scalar', op, args },
      dtype,
      this.ordered(args.flatMap((a) => this.letOf(a).axes)),
      node,
    )
    this.memo.set(key, id)
    return id
  }

  private constant(value: Scalar, dtype: DType, node: Node): ValueId {
    const key = `c:${dtype}:${typeof value}:${Object.is(value, -0) ? '-0' : String(value)}`
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id = this.emit({ kind: 'const', value }, dtype, [], node)
    this.memo.set(key, id)
    return id
  }

  private predicate(p: Predicate, node: Node): ValueId {
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

  /** The value of a node at coordinates, where `mask` holds (elsewhere anything, but memory is not touched). */
  value(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    invariant(
      index.length === node.shape.length,
      `${node.op} of rank ${node.shape.length} at ${index.length} coordinates`,
    )
    const key = `${node.id}@${index.map((e) => e.key).join()}|${predicateKey(mask)}`
    const have = this.memo.get(key)
    if (have !== undefined) return have
    const id =
      this.region.members.has(node) || isFree(node) ? this.compute(node, index, mask) : this.load(node, index, mask, 0)
    this.memo.set(key, id)
    const list = this.instances.get(node) ?? []
    list.push({ index, value: id })
    this.instances.set(node, list)
    return id
  }

  /** Instances of a node so far. */
  instancesOf(node: Node): readonly { readonly index: readonly Expr[]; readonly value: ValueId }[] {
    return this.instances.get(node) ?? []
  }

  private load(node: Node, index: readonly Expr[], mask: Predicate, other: Scalar): ValueId {
    let name = this.loadNames.get(node)
    if (name === undefined) {
      name = `x${this.loads.size}`
      this.loadNames.set(node, name)
      this.loads.set(name, node)
    }
    const zero: Scalar = node.dtype === 'bool' ? Boolean(other) : isWide(node.dtype) ? BigInt(other) : other
    const axes = this.ordered(this.axesOfExprs([...index, ...mask.map((b) => b.expr)]))
    return this.emit({ kind: 'load', param: name, index, mask, other: zero }, node.dtype, axes, node)
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
        throw new Refusal(refuse(`${opDef(node).boundary ?? 'opaque'}-boundary`, `${node.op} stands alone`))
    }
  }

  private elementwise(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const op = opDef(node).scalar
    invariant(op !== undefined, `${node.op} has no scalar operation`)
    const args = new Array<ValueId>(node.inputs.length)
    const order = node.inputs
      .map((x, i) => ({ i, depth: reductionDepth(x, this.depths) }))
      .sort((a, b) => a.depth - b.depth)
    for (const { i } of order) {
      const x = node.inputs[i]
      if (x !== undefined) args[i] = this.value(x, index, mask)
    }
    return this.scalar(op, args, node.dtype, node)
  }

  private source(node: Node, index: readonly Expr[]): ValueId {
    switch (node.op) {
      case 'full':
        return this.constant(node.attrs.value, node.dtype, node)
      case 'constant':
        return this.constant(readElement(node.attrs.data, node.dtype, 0), node.dtype, node)
      case 'iota': {
        const at = index[node.attrs.axis] ?? ix.zero
        const key = `i:${at.key}`
        let id = this.memo.get(key)
        if (id === undefined) {
          id = this.emit({ kind: 'index', expr: at }, 'i32', this.ordered(this.axesOfExprs([at])), node)
          this.memo.set(key, id)
        }
        return node.dtype === 'i32' ? id : this.scalar('cast', [id], node.dtype, node)
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
    const counter = ix.flatten(index, node.shape)
    const axes = this.ordered([...this.axesOfExprs([counter]), ...this.letOf(k0).axes, ...this.letOf(k1).axes])
    return this.emit({ kind: 'random', k0, k1, counter }, 'u32', axes, node)
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
    const padding = (): ValueId => this.constant(node.attrs.value, node.dtype, node)
    if (own.length === 0) return this.value(x, inner, mask)
    if (isNever(own)) return padding()
    const v = this.value(x, inner, conjoin(mask, ...own))
    const stmt = this.letOf(v)
    if (stmt.op.kind === 'load' && this.instances.get(x)?.some((s) => s.value === v)) {
      if (Object.is(stmt.op.other, node.attrs.value)) return v
      return this.emit({ ...stmt.op, other: node.attrs.value }, stmt.dtype, stmt.axes, this.origin.get(v) ?? node)
    }
    return this.scalar('select', [this.predicate(own, node), v, padding()], node.dtype, node)
  }

  private concat(node: NodeOf<'concat'>, index: readonly Expr[], mask: Predicate): ValueId {
    const { axis } = node.attrs
    const at = index[axis] ?? ix.zero
    let offset = 0
    const parts: { readonly p: Predicate; readonly v: ValueId }[] = []
    for (const x of node.inputs) {
      const n = x.shape[axis] ?? 0
      const bound = { expr: at, lo: offset, hi: offset + n }
      if (n > 0 && decideBound(bound) !== 'false') {
        const p = conjoin(always, bound)
        const inner = index.map((e, i) => (i === axis ? ix.addConst(e, -offset) : e))
        parts.push({ p, v: this.value(x, inner, conjoin(mask, ...p)) })
      }
      offset += n
    }
    const last = parts.pop()
    if (last === undefined) return this.constant(isWide(node.dtype) ? 0n : 0, node.dtype, node)
    return parts.reduceRight(
      (rest, { p, v }) => this.scalar('select', [this.predicate(p, node), v, rest], node.dtype, node),
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
      const literal = (v: number): ValueId => this.constant(isWide(source.dtype) ? BigInt(v) : v, source.dtype, node)
      const clamped = this.scalar(
        'min',
        [this.scalar('max', [raw, literal(0)], source.dtype, node), literal(n - 1)],
        source.dtype,
        node,
      )
      return ix.value(source.dtype === 'i32' ? clamped : this.scalar('cast', [clamped], 'i32', node), n)
    })
    return this.value(x, inner, mask)
  }

  /** Binds the reduced dimensions of an input: to axes where that very instance exists, else to any free axes, else to fresh ones. */
  private bindReduced(
    x: Node,
    kept: (d: number) => Expr | undefined,
    mask: Predicate,
    key: (d: number) => string,
    avoid: Set<string>,
  ): { index: Expr[]; dims: BoundDim[] } {
    const dims: BoundDim[] = []
    const index: Expr[] = []
    const known = this.instancesOf(x)
    x.shape.forEach((extent, d) => {
      const fixed = kept(d)
      if (fixed !== undefined) {
        index.push(fixed)
        return
      }
      const options = extent === 1 ? [] : this.candidates(extent, avoid)
      const best = options.find((o) => known.some((k) => k.index[d]?.key === o.expr.key)) ?? options[0]
      const dim = extent === 1 ? { expr: ix.zero, axes: [], extent: 1 } : (best ?? this.freshDim(key(d), extent))
      for (const a of dim.axes) avoid.add(a)
      dims.push(dim)
      index.push(dim.expr)
    })
    return { index, dims }
  }

  private requireOnce(node: Node, index: readonly Expr[], mask: Predicate): void {
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
    const avoid = this.axesOfExprs([...index, ...mask.map((b) => b.expr)])
    const { index: inner, dims } = this.bindReduced(x, kept, mask, (d) => `${node.id}.${d}`, avoid)
    const arg = this.value(x, inner, mask)
    const over = dims.flatMap((d) => d.axes)
    const position = isArgCombiner(combiner) ? dims[0]?.expr : undefined
    if (over.length === 0)
      return position === undefined ? arg : this.constant(isWide(node.dtype) ? 0n : 0, node.dtype, node)
    const out = this.letOf(arg).axes.filter((a) => !over.includes(a))
    const op: TileOp = {
      kind: 'reduce',
      combiner,
      arg,
      axes: over,
      ...(position === undefined ? {} : { position }),
      ...(last === true ? { last } : {}),
    }
    return this.emit(op, node.dtype, out, node)
  }

  private scan(node: NodeOf<'scan'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x] = node.inputs
    invariant(x !== undefined, 'scan without input')
    this.requireOnce(node, index, mask)
    const { axis, combiner, reverse, exclusive } = node.attrs
    const along = ix.asAxis(index[axis] ?? ix.zero)
    const arg = this.value(x, index, mask)
    if (along === undefined) {
      if ((x.shape[axis] ?? 0) > 1 || exclusive)
        throw new Refusal(refuse('unaligned-output', 'a scan needs an axis of its own'))
      return arg
    }
    return this.emit(
      { kind: 'scan', combiner, arg, axis: along.name, reverse, exclusive },
      node.dtype,
      this.ordered([...this.letOf(arg).axes, along.name]),
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
        const dim = this.freshDim(`${node.id}.${l}`, x.shape[d] ?? 1)
        over.push(...dim.axes)
        at.set(l, dim.expr)
        return dim.expr
      })
    const va = this.value(a, bind(lhs, a), mask)
    const vb = this.value(b, bind(rhs, b), mask)
    const free = new Set([...this.letOf(va).axes, ...this.letOf(vb).axes].filter((x) => !over.includes(x)))
    const acc = computeDType(node.dtype)
    const dot = this.emit({ kind: 'dot', a: va, b: vb, axes: this.ordered(over) }, acc, this.ordered(free), node)
    return acc === node.dtype ? dot : this.scalar('cast', [dot], node.dtype, node)
  }

  /** Finds an axis a quotient or remainder asks to split, and asks for it. */
  checkSplits(exprs: Iterable<Expr>): void {
    for (const e of exprs)
      ix.visitAtoms(e, (atom) => {
        if (atom.kind !== 'div' && atom.kind !== 'mod') return
        const t = atom.of.terms[0]
        if (atom.of.terms.length !== 1 || atom.of.offset !== 0 || t === undefined || t.atom.kind !== 'axis') return
        const by = atom.by % t.coef === 0 ? atom.by / t.coef : 0
        const { name, extent } = t.atom
        const made = this.keys.get(name)
        if (by <= 1 || extent % by !== 0 || made === undefined) return
        const at = this.positionInKey(name, made.key)
        throw new SplitAxis(made.key, [...made.factors.slice(0, at), extent / by, by, ...made.factors.slice(at + 1)])
      })
  }

  /** Which digit of its dimension an axis is (digits of extent 1 have no axis). */
  private positionInKey(name: string, key: string): number {
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

/** Every expression of a statement. */
function* exprsOf(op: TileOp): Iterable<Expr> {
  switch (op.kind) {
    case 'index':
      yield op.expr
      break
    case 'predicate':
      for (const b of op.predicate) yield b.expr
      break
    case 'load':
      yield* op.index
      for (const b of op.mask) yield b.expr
      break
    case 'random':
      yield op.counter
      break
    default:
  }
}

function buildOnce(region: Region, splits: ReadonlyMap<string, readonly number[]>, depths: Map<Node, number>): Body {
  const b = new Builder(region, splits, depths)
  const roots = [...region.outputs].sort(
    (p, q) => q.shape.reduce((x, y) => x * y, 1) - p.shape.reduce((x, y) => x * y, 1) || q.id - p.id,
  )
  const stores: BodyStore[] = []
  const rootDims: BoundDim[][] = []
  for (const root of roots) {
    const found = b.instancesOf(root).find((s) => coversOnce(s.index, root.shape))
    if (found !== undefined) {
      stores.push({ node: root, shape: root.shape, value: found.value, index: found.index })
      continue
    }
    const dims = bindRoot(b, root, rootDims)
    if (dims === undefined)
      throw new Refusal(
        refuse(
          'unaligned-output',
          `a result of shape [${root.shape.join(', ')}] does not line up with the kernel's axes`,
        ),
      )
    rootDims.push(dims)
    const index = dims.map((d) => d.expr)
    stores.push({ node: root, shape: root.shape, value: b.value(root, index, always), index })
  }
  const used = liveLets(
    b.lets,
    stores.map((s) => s.value),
  )
  for (const l of used) b.checkSplits(exprsOf(l.op))
  const axisNames = new Set(
    used.flatMap((l) => [...l.axes, ...(l.op.kind === 'reduce' || l.op.kind === 'dot' ? l.op.axes : [])]),
  )
  for (const s of stores) for (const e of s.index) for (const a of ix.axesOf(e)) axisNames.add(a)
  const loaded = new Set(used.flatMap((l) => (l.op.kind === 'load' ? [l.op.param] : [])))
  return {
    axes: [...b.extents].filter(([name]) => axisNames.has(name)).map(([name, extent]) => ({ name, extent })),
    lets: used,
    stores,
    loads: new Map(
      [...b.loads].filter(([name]) => loaded.has(name)).map(([name, node]) => [name, { node, shape: node.shape }]),
    ),
    origin: b.origin,
  }
}

/** Axes for a result: those of an earlier result where extents line up, else (for the first, or a scalar) fresh ones. */
function bindRoot(b: Builder, root: Node, earlier: readonly BoundDim[][]): BoundDim[] | undefined {
  if (earlier.length === 0) return root.shape.map((n, d) => b.freshDim(`root.${d}`, n))
  if (root.shape.every((n) => n === 1)) return root.shape.map(() => ({ expr: ix.zero, axes: [], extent: 1 }))
  for (const dims of earlier) {
    const out: BoundDim[] = []
    let at = 0
    for (const n of root.shape) {
      if (n === 1) {
        out.push({ expr: ix.zero, axes: [], extent: 1 })
        continue
      }
      while (at < dims.length && dims[at]?.extent !== n) at++
      const d = dims[at++]
      if (d === undefined) break
      out.push(d)
    }
    if (out.length === root.shape.length) return out
  }
  return undefined
}

/** The statements that feed the given values, in order. */
function liveLets(lets: readonly LetStmt[], roots: readonly ValueId[]): LetStmt[] {
  const live = new Set<ValueId>(roots)
  for (let i = lets.length - 1; i >= 0; i--) {
    const l = lets[i]
    if (l !== undefined && live.has(l.id)) for (const o of operandsOf(l.op)) live.add(o)
  }
  return lets.filter((l) => live.has(l.id))
}

/** Builds a region's body, or says why it cannot be one kernel. */
export function buildBody(region: Region): { readonly ok: true; readonly body: Body } | Refused {
  const splits = new Map<string, readonly number[]>()
  const depths = new Map<Node, number>()
  for (let attempt = 0; ; attempt++) {
    try {
      return { ok: true, body: buildOnce(region, splits, depths) }
    } catch (e) {
      if (e instanceof Refusal) return e.refused
      if (!(e instanceof SplitAxis)) throw e
      invariant(attempt < 32, 'splitting of axes does not end')
      splits.set(e.key, e.factors)
    }
  }
}
