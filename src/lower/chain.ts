/**
 * Lowering of a chain of products (src/plan/axes/chain.ts): a program has a block of rows, and a loop over blocks of the shared axes
 * carries the blocks of results with what is folded along them. Where sums are taken against an anchor, it moves with what each block
 * finds, kept finite, and they are rescaled; behind the loop they are rescaled to what their terms name.
 */
import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import { foldAxes } from '../kernel/folds.ts'
import {
  type KernelAxis,
  type KernelPart,
  type LetStmt,
  operandsOf,
  type Stmt,
  type TileOp,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf, liveLets, renameOperands } from '../kernel/walk.ts'
import { type ChainFold, type ChainForm, type ChainRole, chainForm } from '../plan/axes/chain.ts'
import { partAxis } from '../plan/axes/chainParts.ts'
import { type ChainBlocks, chainBlocks } from '../plan/axes/chainRoles.ts'
import type { DepthParts } from '../plan/axes/fusedReductions.ts'
import type { Roles } from '../plan/axes/roles.ts'
import { type Visible, visibleOf } from '../plan/axes/visible.ts'
import type { Body, BodyStore } from '../plan/body/body.ts'
import { combinerIdentity, combinerOp, greatestFinite } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { chainEnds } from './chainEnds.ts'
import { type ChainState, chainStates, type FoldState, finishChain } from './chainStates.ts'
import { carryingLoops } from './depthLoops.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

/** Lowers a body around a chain of products. */
export function lowerChain(name: string, planned: Body, roles: Roles, target: Machine): Launch {
  const { chain, extents } = roles
  invariant(chain !== undefined, 'no chain of products')
  const form = chainForm(planned, chain)
  invariant(form.ok, `a chain that was planned does not lower: ${form.ok ? '' : form.detail}`)
  const blocks = chainBlocks(planned, chain, extents, target)
  const visible = visibleOf(form, blocks, extents)
  const loop = new ChainLoop(form, chain, blocks)
  const statements = loop.lower(chain.parts === undefined ? visible : within(visible, chain.parts))
  const params = new Params()
  params.loads(form.body, statements)
  const stored = (s: BodyStore): Stmt => ({
    kind: 'store',
    param: params.stored(s),
    index: s.index,
    mask: s.mask ?? [],
    value: s.value,
  })
  const made =
    chain.parts === undefined
      ? undefined
      : chainStates(form.folds, chain, chain.parts, loop.states, roles, loop.reserve())
  const stores =
    made?.map((s) => s.store(params)) ?? form.body.stores.filter((s) => !form.ofSteps.includes(s)).map(stored)
  const ofSteps = form.ofSteps.map(stored)
  const own = chain.parts === undefined ? [] : [{ name: partAxis(chain.parts), extent: chain.parts.parts }]
  const part: KernelPart = {
    axes: [...form.body.axes, ...loop.axes, ...own],
    grid: blocks.grid,
    body: [...inSteps(statements, ofSteps), ...stores],
  }
  return {
    main: { kernel: { name, params: params.list, mode: 'fast', parts: [part] }, bindings: params.bindings },
    finishing: made === undefined ? [] : [finishChain(name, form.body, loop.combine(made), made, target)],
    partials: made?.map((s) => s.partial) ?? [],
  }
}

/** Statements with more at the end of the innermost loop's. */
function inSteps(statements: readonly Stmt[], more: readonly Stmt[]): readonly Stmt[] {
  if (more.length === 0) return statements
  const loop = statements.findIndex((s) => s.kind === 'loop')
  return loop < 0
    ? [...statements, ...more]
    : statements.map((s, i) => (s.kind === 'loop' && i === loop ? { ...s, body: inSteps(s.body, more) } : s))
}

/** What is visible of one part of the shared axis. */
function within({ from, to }: Visible, { axis, parts, length }: DepthParts): Visible {
  const first = ix.mul(ix.axis(`${partAxis({ axis, parts, length })}.start`, parts), length)
  return { from: [...from, first], to: [...to, ix.addConst(first, length)], tested: [] }
}

/** What a loop carries of the anchor that sums are taken against, before and after a block. */
interface Anchor {
  readonly before: ValueId
  readonly after: ValueId
  readonly result: ValueId
  readonly dtype: DType
  readonly axes: readonly string[]
}

type Dot = Extract<TileOp, { kind: 'dot' }>

class ChainLoop {
  private readonly body: Body
  /** What steps of the loop store. */
  private readonly ofSteps: readonly ValueId[]
  private readonly role: ChainRole
  private readonly blocks: ChainBlocks
  private readonly folds: ReadonlyMap<ValueId, ChainFold>
  private readonly lets: ReadonlyMap<ValueId, LetStmt>
  private next: ValueId
  /** Statements before the loop, in it, and behind it. */
  private readonly before: LetStmt[] = []
  private readonly inside: LetStmt[] = []
  private readonly after: LetStmt[] = []
  readonly states: FoldState[] = []
  /** Axes beside the body's. */
  readonly axes: KernelAxis[] = []
  private readonly anchors = new Map<ValueId, Anchor>()
  /** Values that are made once, by what they are. */
  private readonly shared = new Map<string, ValueId>()
  /** What stands in the loop for values that are taken against an anchor, by anchor. */
  private readonly moved = new Map<ValueId, Map<ValueId, ValueId>>()

  constructor({ body, folds, ofSteps }: ChainForm, role: ChainRole, blocks: ChainBlocks) {
    this.body = body
    this.ofSteps = ofSteps.map((s) => s.value)
    this.role = role
    this.blocks = blocks
    this.folds = new Map(folds.map((f) => [f.let.id, f]))
    this.lets = new Map(body.lets.map((l) => [l.id, l]))
    this.next = Math.max(...body.lets.map((l) => l.id)) + 1
  }

  private readonly fresh = (): ValueId => this.next++

  /** As many numbers for statements as there are folds, from the first of them on. */
  reserve(): ValueId {
    const first = this.next
    this.next += this.folds.size
    return first
  }

  private emit(into: LetStmt[], dtype: DType, axes: readonly string[], op: TileOp, id = this.fresh()): ValueId {
    into.push({ kind: 'let', id, dtype, axes, op })
    return id
  }

  lower(visible: Visible): Stmt[] {
    const { shared } = this.role
    const folds = [...this.folds.values()]
    const along = new Set<ValueId>()
    for (const l of this.body.lets)
      if (l.axes.some((t) => shared.includes(t)) || this.folds.has(l.id) || operandsOf(l.op).some((o) => along.has(o)))
        along.add(l.id)
    const needed = ancestorsOf([...folds.flatMap((f) => operandsOf(f.let.op)), ...this.ofSteps], this.lets)
    const through = new Set(folds.flatMap((f) => [...(f.streamed?.through ?? [])]))
    const loops = (l: LetStmt): boolean =>
      needed.has(l.id) && l.axes.some((t) => shared.includes(t)) && !through.has(l.id)
    this.before.push(...this.body.lets.filter((l) => needed.has(l.id) && !along.has(l.id)))
    for (const l of this.body.lets) {
      const fold = this.folds.get(l.id)
      if (fold !== undefined) this.fold(fold)
      else if (loops(l)) this.inside.push(this.role.tiles.includes(l.id) ? this.tile(l) : l)
    }
    const { bounds, axes } = chainEnds(visible, {
      body: this.body,
      role: this.role,
      blocks: this.blocks,
      lets: this.lets,
      emit: (dtype, axes, op) => this.emit(this.before, dtype, axes, op),
    })
    this.axes.push(...axes)
    const loop = carryingLoops(
      this.blocks.loops,
      this.inside,
      this.states,
      this.fresh,
      bounds,
      this.blocks.loops.at(-1)?.axis,
    )
    if (this.role.parts !== undefined) return [...this.before, loop]
    const done = new Set(this.before.map((l) => l.id))
    for (const f of folds) this.end(f)
    return [...this.before, loop, ...inOrder([...this.late(done), ...this.after])]
  }

  /** Statements behind the loop, but for the folds and what is there already. */
  private late(done: ReadonlySet<ValueId>): LetStmt[] {
    const { shared } = this.role
    return liveLets(
      this.body.lets.filter((l) => !this.folds.has(l.id) && !done.has(l.id) && !l.axes.some((t) => shared.includes(t))),
      [...this.body.stores.map((s) => s.value), ...this.after.flatMap((l) => operandsOf(l.op))],
    )
  }

  /**
   * What combines the states that parts of the shared axis leave: folds over the parts, of sums as they are against what their terms name, which
   * rescales each part's by its own anchor. A part that saw nothing has a sum of zero, and leaves it so.
   */
  combine(parts: readonly ChainState[]): LetStmt[] {
    for (const { fold, load, over } of parts) {
      const { let: l, combiner, streamed } = fold
      this.after.push(load)
      let arg = load.id
      if (streamed?.law.kind === 'exponential') {
        const anchor = parts.find((p) => p.fold.let.id === streamed.anchor)?.load
        invariant(anchor !== undefined, 'a sum streams beside a fold that is no state')
        const at = { result: anchor.id, dtype: anchor.dtype, axes: anchor.axes }
        const factor = this.ending(at, streamed.against, streamed.law.rate, l.dtype)
        arg = this.emit(this.after, l.dtype, load.axes, { kind: 'scalar', op: 'mul', args: [load.id, factor] })
      }
      this.emit(this.after, l.dtype, l.axes, { kind: 'reduce', combiner, arg, axes: [over] }, l.id)
    }
    const constants = this.before.filter((l) => l.op.kind === 'const')
    const all = [...constants, ...this.late(new Set(constants.map((l) => l.id))), ...this.after]
    const stored = this.body.stores.map((s) => s.value)
    const live = ancestorsOf(stored, new Map(all.map((l) => [l.id, l])))
    return inOrder(all.filter((l) => live.has(l.id)))
  }

  /** Axes of a product's operands and results: batch, rows, then the shared axes, the depth or columns. */
  private layout(axes: readonly string[]): string[] {
    const { batch } = this.role
    const { rows, shared, depth, columns } = this.blocks
    return [...batch, ...rows, ...shared, ...depth, ...columns].filter((t) => axes.includes(t))
  }

  /** A tile, whose operands are staged: rows before the loop. */
  private tile(l: LetStmt): LetStmt {
    const { op } = l
    invariant(op.kind === 'dot', 'a tile is no dot')
    return { ...l, axes: this.layout(l.axes), op: { ...this.product(op), a: this.staged(op.a), b: this.staged(op.b) } }
  }

  private staged(id: ValueId): ValueId {
    const of = this.lets.get(id)
    if (of === undefined) return id
    const along = of.axes.some((t) => this.role.shared.includes(t))
    return this.stage(of, along ? this.inside : this.before)
  }

  /** A tile of a value: where vectors read it, of f32. */
  private stage({ id, dtype, axes: given }: LetStmt, into: LetStmt[]): ValueId {
    const axes = this.layout(given)
    return this.once(`stage ${id}`, () => {
      if (this.role.vectors === undefined || dtype === 'f32')
        return this.emit(into, dtype, axes, { kind: 'stage', of: id })
      const wide = this.emit(into, 'f32', axes, { kind: 'scalar', op: 'cast', args: [id] })
      return this.emit(into, 'f32', axes, { kind: 'stage', of: wide })
    })
  }

  /** A product, which vectors multiply as f32. */
  private product({ precision, ...op }: Dot): Dot {
    return this.role.vectors === undefined && precision !== undefined ? { ...op, precision } : op
  }

  /** What a sum is made of, as a tile that vectors are read from. */
  private stagedOwn(id: ValueId): ValueId {
    const of = this.inside.find((l) => l.id === id)
    invariant(of !== undefined, 'a sum of what the loop does not make')
    return this.stage(of, this.inside)
  }

  /** What a block adds to a fold, and the state before and after. */
  private fold({ let: l, combiner, streamed }: ChainFold): void {
    const axes = this.layout(l.axes)
    const init = this.emit(this.before, l.dtype, axes, { kind: 'const', value: combinerIdentity(combiner, l.dtype) })
    const [param, result] = [this.fresh(), streamed === undefined ? l.id : this.fresh()]
    const anchor = streamed === undefined ? undefined : this.anchors.get(streamed.anchor)
    invariant((anchor === undefined) === (streamed === undefined), 'a sum streams beside a fold that is no state')
    let from = param
    let op = l.op
    if (streamed?.law.kind === 'exponential' && anchor !== undefined) {
      const names = this.termsOf(streamed.through, streamed.against, streamed.anchor)
      op = renameOperands(op, (id) => names.get(id) ?? id)
      const factor = this.rescaling(streamed.anchor, anchor, streamed.law.rate, l.dtype)
      from = this.emit(this.inside, l.dtype, axes, { kind: 'scalar', op: 'mul', args: [param, factor] })
    }
    let next: ValueId
    if (op.kind === 'dot') {
      // What tiles lead to stands in registers, for matrix units and loops.
      const isOther = (id: ValueId): boolean =>
        this.lets.get(id)?.axes.some((t) => this.role.rows.includes(t)) === false
      const operand = (id: ValueId): ValueId =>
        isOther(id) ? this.staged(id) : this.role.vectors === undefined ? id : this.stagedOwn(id)
      const [a, b] = [operand(op.a), operand(op.b)]
      next = this.emit(this.inside, l.dtype, axes, { ...this.product(op), a, b, acc: from })
    } else {
      const block = this.emit(this.inside, l.dtype, l.axes, op)
      next = this.emit(this.inside, l.dtype, axes, { kind: 'scalar', op: combinerOp[combiner], args: [from, block] })
    }
    const start = this.before.find((x) => x.id === init)
    invariant(start !== undefined, 'a state without a start')
    this.states.push({ fold: l.id, init: start, param, next, result })
    const isAnchor = [...this.folds.values()].some((f) => f.streamed?.anchor === l.id)
    if (isAnchor) this.anchors.set(l.id, this.anchorOf(l, param, next, result))
  }

  /** A sum behind the loop against what its terms name: where that is not finite, the result is what it makes of them. */
  private end({ let: l, streamed }: ChainFold): void {
    const anchor = streamed === undefined ? undefined : this.anchors.get(streamed.anchor)
    const state = this.states.find((s) => s.fold === l.id)
    if (streamed?.law.kind !== 'exponential' || anchor === undefined || state === undefined) return
    const factor = this.ending(anchor, streamed.against, streamed.law.rate, l.dtype)
    const axes = this.layout(l.axes)
    this.emit(this.after, l.dtype, axes, { kind: 'scalar', op: 'mul', args: [state.result, factor] }, l.id)
  }

  private anchorOf(l: LetStmt, param: ValueId, next: ValueId, result: ValueId): Anchor {
    const at = { dtype: l.dtype, axes: l.axes }
    return {
      ...at,
      before: this.clamped(this.inside, param, at),
      after: this.clamped(this.inside, next, at),
      result,
    }
  }

  /** An anchor as sums are taken against it on the way: finite, far from every number at first. */
  private clamped(into: LetStmt[], id: ValueId, { dtype, axes }: Pick<Anchor, 'dtype' | 'axes'>): ValueId {
    invariant(isFloat(dtype), 'an anchor is a float')
    const most = this.number(greatestFinite[dtype], dtype)
    const least = this.number(-greatestFinite[dtype], dtype)
    const above = this.emit(into, dtype, axes, { kind: 'scalar', op: 'max', args: [id, least] })
    return this.emit(into, dtype, axes, { kind: 'scalar', op: 'min', args: [above, most] })
  }

  /** A number that stands before the loop. */
  private number(value: number, dtype: DType): ValueId {
    return this.once(`${value} ${dtype}`, () => this.emit(this.before, dtype, [], { kind: 'const', value }))
  }

  private once(key: string, make: () => ValueId): ValueId {
    const have = this.shared.get(key)
    if (have !== undefined) return have
    const made = make()
    this.shared.set(key, made)
    return made
  }

  /** What sums against the anchor before a block are multiplied by to be sums against the one after it. */
  private rescaling(id: ValueId, anchor: Anchor, rate: number, dtype: DType): ValueId {
    const make = (): ValueId => this.exponential(this.inside, anchor.before, anchor, anchor.after, rate, dtype)
    return this.once(`moving ${id} ${rate} ${dtype}`, make)
  }

  /** What sums against the last anchor on the way are multiplied by to be sums against what their terms name. */
  private ending(
    anchor: Pick<Anchor, 'result' | 'dtype' | 'axes'>,
    against: ValueId,
    rate: number,
    dtype: DType,
  ): ValueId {
    const end = this.once(`end ${anchor.result}`, () => this.clamped(this.after, anchor.result, anchor))
    const make = (): ValueId => this.exponential(this.after, end, anchor, against, rate, dtype)
    return this.once(`ending ${anchor.result} ${against} ${rate} ${dtype}`, make)
  }

  /** exp(rate (from - to)), of an anchor and a value of its dtype or a wider one. */
  private exponential(
    into: LetStmt[],
    from: ValueId,
    { dtype, axes }: Pick<Anchor, 'dtype' | 'axes'>,
    to: ValueId,
    rate: number,
    result: DType,
  ): ValueId {
    const scalar = (op: 'sub' | 'mul' | 'exp' | 'cast', of: DType, ...args: ValueId[]): ValueId =>
      this.emit(into, of, axes, { kind: 'scalar', op, args })
    const given = this.lets.get(to)?.dtype ?? dtype
    const left = given === dtype ? from : scalar('cast', given, from)
    const apart = scalar('sub', given, left, to)
    const by = rate === 1 ? undefined : this.number(rate, given)
    const exponent = by === undefined ? apart : scalar('mul', given, apart, by)
    const made = scalar('exp', given, exponent)
    return given === result ? made : scalar('cast', result, made)
  }

  /** The terms of a sum against the anchor on the way: statements in the loop, and what they are called there. */
  private termsOf(through: ReadonlySet<ValueId>, against: ValueId, anchor: ValueId): Map<ValueId, ValueId> {
    const names = this.moved.get(anchor) ?? new Map<ValueId, ValueId>()
    this.moved.set(anchor, names)
    const { after, dtype, axes } = this.anchors.get(anchor) ?? {}
    invariant(after !== undefined && dtype !== undefined && axes !== undefined, 'an anchor that no state is')
    if (!names.has(against)) {
      const wide = this.lets.get(against)?.dtype ?? dtype
      names.set(
        against,
        wide === dtype ? after : this.emit(this.inside, wide, axes, { kind: 'scalar', op: 'cast', args: [after] }),
      )
    }
    for (const l of this.body.lets) {
      if (!through.has(l.id) || names.has(l.id)) continue
      const id = this.fresh()
      names.set(l.id, id)
      invariant(foldAxes(l).length === 0, 'a fold among the terms of a sum')
      this.inside.push({ ...l, id, op: renameOperands(l.op, (o) => names.get(o) ?? o) })
    }
    return names
  }
}

/** Statements each behind those it needs. */
function inOrder(lets: readonly LetStmt[]): LetStmt[] {
  const byId = new Map(lets.map((l) => [l.id, l]))
  const out: LetStmt[] = []
  const done = new Set<ValueId>()
  const visit = (l: LetStmt): void => {
    if (done.has(l.id)) return
    done.add(l.id)
    for (const o of operandsOf(l.op)) {
      const of = byId.get(o)
      if (of !== undefined) visit(of)
    }
    out.push(l)
  }
  for (const l of lets) visit(l)
  return out
}
