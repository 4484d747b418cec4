/**
 * Chains of contractions: two products of which the columns of the first are the depth of the second, with anything elementwise and folds along
 * that shared axis in between. A program holds a block of rows and goes through the shared axis in blocks; it carries the block of
 * results, and beside it what is folded along the shared axis. Sums against a greatest (least) value stream
 * (src/kernel/streams.ts): they move with it. So the first product's results are never all there at once.
 */
import { axesOf } from '../../affine/expr.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { type Streamed, streamedDot, streamedSum, unrounded } from '../../kernel/streams.ts'
import { ancestorsOf, renameOperands } from '../../kernel/walk.ts'
import { combinerOp, scalarInfo } from '../../scalar/ops.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import type { Body } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { DepthParts, MatrixRole } from './fusedReductions.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

/** The two products of a chain and the roles of their axes. */
export interface ChainRole {
  readonly first: ValueId
  readonly second: ValueId
  /** Axes of which a program has one index: both operands of a product have them, or one product alone. */
  readonly batch: readonly string[]
  /** Rows of the first product and of the results. */
  readonly rows: readonly string[]
  /** Columns of the first product, depth of the second. */
  readonly shared: readonly string[]
  /** Depth of the first product, and columns of the second: a program holds both whole. */
  readonly depth: readonly string[]
  readonly columns: readonly string[]
  /** How the shared axis is cut, if it is: each part is a program of its own (chainParts.ts). */
  readonly parts?: DepthParts
}

/** A fold along the shared axes, the second product among them, and how it streams if it does. */
export interface ChainFold {
  readonly let: LetStmt
  readonly combiner: 'sum' | 'prod' | 'max' | 'min'
  readonly streamed: Streamed | undefined
}

/** A body as a chain computes it. */
export interface ChainForm {
  /** The body with factors that are one along the shared axes behind the second product. */
  readonly body: Body
  /** In the order of their statements. */
  readonly folds: readonly ChainFold[]
}

type Found<T> = ({ readonly ok: true } & T) | Refused

/** The roles of two products as a chain, or why they are none. */
export function chainRole(lets: Lets, [p, q]: readonly [MatrixRole, MatrixRole]): Found<{ readonly role: ChainRole }> {
  const none = refuse(
    'two-contractions',
    'a kernel holds one matrix product, or two of which one sums over columns of the other',
  )
  const [first, second] = dependsOn(q.id, p.id, lets) ? [p, q] : [q, p]
  const [one, two] = [lets.get(first.id), lets.get(second.id)]
  if (one?.op.kind !== 'dot' || two?.op.kind !== 'dot') return none
  const { a, b, axes: shared } = two.op
  const [inA, inB] = [a, b].map((id) => id === first.id || dependsOn(id, first.id, lets))
  if (inA === inB) return none
  const axesAt = (id: ValueId): readonly string[] => lets.get(id)?.axes ?? []
  const [own, other] = inA === true ? [axesAt(a), axesAt(b)] : [axesAt(b), axesAt(a)]
  const [x, y] = [axesAt(one.op.a), axesAt(one.op.b)]
  const sides = [
    [x, y],
    [y, x],
  ] as const
  const side = sides.find(([l, r]) => shared.every((t) => r.includes(t) && !l.includes(t)))
  if (side === undefined) return none
  const [left, right] = side
  const depth = one.op.axes
  if (depth.some((d) => own.includes(d) || other.includes(d))) return none
  const kept = own.filter((t) => !shared.includes(t))
  const isBatch = (t: string): boolean => other.includes(t) || right.includes(t) || !left.includes(t)
  const role: ChainRole = {
    first: first.id,
    second: second.id,
    batch: kept.filter(isBatch),
    rows: kept.filter((t) => !isBatch(t)),
    shared,
    depth,
    columns: other.filter((t) => !shared.includes(t) && !own.includes(t)),
  }
  return role.rows.length === 0 || role.columns.length === 0 ? none : { ok: true, role }
}

/** What a body is as a chain, or why the folds along the shared axes do not stream. */
export function chainForm(planned: Body, role: ChainRole): Found<ChainForm> {
  const body = withoutFactors(withoutRounding(planned, role), role)
  if ('ok' in body) return body
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const folds: ChainFold[] = []
  const folded = new Set<ValueId>()
  for (const l of body.lets) {
    const along = foldAxes(l).some((t) => role.shared.includes(t))
    if (!along) {
      if (!mayStand(l, role))
        return refuse(
          'reduction-of-contraction',
          'beside a chain of products folds run along what a program holds whole',
        )
      continue
    }
    const made = foldOf(l, role, lets, folded)
    if (!made.ok) return made
    folds.push(made.fold)
    folded.add(l.id)
  }
  const through = new Set(folds.flatMap((f) => [...(f.streamed?.through ?? [])]))
  const late = lateOf(body, folded)
  for (const l of body.lets)
    if (late.has(l.id) && l.axes.some((t) => role.shared.includes(t)) && !through.has(l.id))
      return refuse('no-stream', 'what follows a fold along the shared axis needs the first product again')
  for (const s of body.stores)
    if (s.index.some((e) => [...axesOf(e)].some((t) => role.shared.includes(t) || role.depth.includes(t))))
      return refuse('unaligned-output', 'a result runs along the axis that a chain of products goes through in blocks')
  return { ok: true, body, folds }
}

/** Values that follow from some folds. */
function lateOf(body: Body, folds: ReadonlySet<ValueId>): Set<ValueId> {
  const out = new Set<ValueId>()
  for (const l of body.lets) if (operandsOf(l.op).some((o) => folds.has(o) || out.has(o))) out.add(l.id)
  return out
}

/** Whether a statement folds nothing, or what a program holds whole; of other products there are none. */
function mayStand({ id, op }: LetStmt, role: ChainRole): boolean {
  if (op.kind === 'scan') return false
  if (op.kind === 'dot') return id === role.first
  return op.kind !== 'reduce' || op.axes.every((t) => role.depth.includes(t) || role.columns.includes(t))
}

/** A fold along the shared axes as a loop makes it: of its own, or beside an anchor that is such a fold. */
function foldOf(
  l: LetStmt,
  role: ChainRole,
  lets: Lets,
  folded: ReadonlySet<ValueId>,
): Found<{ readonly fold: ChainFold }> {
  const { op } = l
  const sum = l.id === role.second
  if (!sum && (op.kind !== 'reduce' || !(op.combiner in combinerOp)))
    return refuse('reduction-of-contraction', `a ${op.kind} along the axis that a chain of products goes through`)
  if (foldAxes(l).length !== role.shared.length)
    return refuse('reduction-of-contraction', 'a fold along a part of the axes that a chain of products goes through')
  if (computeDType(l.dtype) !== l.dtype)
    return refuse('reduction-of-contraction', `a fold in ${l.dtype} has no partial results`)
  const combiner = op.kind === 'reduce' ? (op.combiner as keyof typeof combinerOp) : 'sum'
  const needs = ancestorsOf(operandsOf(op), lets)
  if (![...needs].some((id) => folded.has(id))) return { ok: true, fold: { let: l, combiner, streamed: undefined } }
  const streamed = sum ? streamedDot(l, operandOf(role, lets).id, lets) : streamedSum(l, lets)
  if (streamed === undefined || streamed.law.kind !== 'exponential')
    return refuse('no-stream', 'the terms of a sum do not move from one anchor to the next by an exponential')
  const anchor = lets.get(streamed.anchor)
  const reads = [l.id, ...streamed.through].flatMap((id) => operandsOf(lets.get(id)?.op ?? { kind: 'const', value: 0 }))
  const others = ancestorsOf(
    reads.filter((id) => id !== streamed.against && !streamed.through.has(id)),
    lets,
  )
  if (anchor === undefined || [...others].some((id) => folded.has(id)))
    return refuse('no-stream', 'the terms of a sum depend on more than one fold along the same axis')
  if (computeDType(anchor.dtype) !== anchor.dtype || !folded.has(anchor.id))
    return refuse('no-stream', `an anchor in ${anchor.dtype} does not move`)
  return { ok: true, fold: { let: l, combiner, streamed } }
}

/** The operand of the second product that the first leads to; `at` names it in the statement. */
function operandOf({ first, second }: ChainRole, lets: Lets): { readonly id: ValueId; readonly at: 'a' | 'b' } {
  const op = lets.get(second)?.op
  const a = op?.kind === 'dot' ? op.a : second
  if (a === first || dependsOn(a, first, lets)) return { id: a, at: 'a' }
  return { id: op?.kind === 'dot' ? op.b : second, at: 'b' }
}

/** A factor of the second product's terms that is one along the shared axes. */
interface Factor {
  readonly id: ValueId
  readonly divides: boolean
}

/** The body without the rounding of the first product to half precision where its results are widened again. */
function withoutRounding(body: Body, { first }: ChainRole): Body {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const wide = lets.get(first)?.dtype
  // Casts that users ask for round: the product's own has its node.
  const isOwn = (id: ValueId): boolean => body.origin.get(id) === body.origin.get(first)
  const renamed = new Map<ValueId, ValueId>()
  for (const l of body.lets) {
    const narrow = l.dtype === wide ? castOperand(l) : undefined
    const of = narrow === undefined || !isOwn(narrow) ? undefined : castOperand(lets.get(narrow))
    if (of === first) renamed.set(l.id, first)
  }
  if (renamed.size === 0) return body
  const all = body.lets.map((l) => ({ ...l, op: renameOperands(l.op, (id) => renamed.get(id) ?? id) }))
  const live = ancestorsOf(
    body.stores.map((s) => s.value),
    new Map(all.map((l) => [l.id, l])),
  )
  return { ...body, lets: all.filter((l) => live.has(l.id)) }
}

/** What a cast converts. */
const castOperand = (l: LetStmt | undefined): ValueId | undefined =>
  l?.op.kind === 'scalar' && l.op.op === 'cast' ? l.op.args[0] : undefined

/** An operand without its factors; `undefined`: all of it is factors. */
interface Split {
  readonly rest: ValueId | undefined
  readonly factors: readonly Factor[]
}

/** The body with factors of the second product's terms that follow from folds along the shared axes, and are one along them, behind it. */
function withoutFactors(body: Body, role: ChainRole): Body | Refused {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const dot = lets.get(role.second)
  if (dot?.op.kind !== 'dot') return body
  const folds = new Set(
    body.lets.flatMap((l) => (l.id !== role.second && foldAxes(l).some((t) => role.shared.includes(t)) ? [l.id] : [])),
  )
  const isLate = (id: ValueId): boolean => folds.has(id) || [...ancestorsOf([id], lets)].some((o) => folds.has(o))
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const made: LetStmt[] = []
  const emit = (l: LetStmt): ValueId => {
    const id = next++
    made.push({ ...l, id })
    return id
  }
  const known = new Map<ValueId, Split>()
  const splitOf = (id: ValueId): Split => {
    const split = known.get(id) ?? findSplit(id)
    known.set(id, split)
    return split
  }
  const findSplit = (id: ValueId): Split => {
    const l = lets.get(id)
    const whole: Split = { rest: id, factors: [] }
    if (l === undefined || !isFloat(l.dtype) || !isLate(id)) return whole
    if (!l.axes.some((t) => role.shared.includes(t))) return { rest: undefined, factors: [{ id, divides: false }] }
    if (l.op.kind !== 'scalar') return whole
    const { op, args } = l.op
    const inner = unrounded(id, lets)
    const { factors: powers } = scalarInfo(op)
    if (inner === id && powers === undefined) return whole
    const parts = inner === id ? args.map(splitOf) : [splitOf(inner)]
    const factors = parts.flatMap((s, i) =>
      s.factors.map((f) => ({ ...f, divides: f.divides !== (powers?.[i] === -1) })),
    )
    if (factors.length === 0 || parts.some((s, i) => s.rest === undefined && powers?.[i] === undefined)) return whole
    if (inner !== id) {
      const [rest] = parts.flatMap((s) => s.rest ?? [])
      return rest === undefined ? whole : { rest: emit({ ...l, op: { ...l.op, args: [rest] } }), factors }
    }
    const rests = parts.map((s) => s.rest)
    const left = rests.flatMap((r) => r ?? [])
    const [only, more] = left
    if (only === undefined || more !== undefined)
      return { rest: emit({ ...l, axes: unionOf(l.axes, left, lets, made), op: { ...l.op, args: left } }), factors }
    // One of the two is left: a divisor would stand alone.
    return powers?.[rests.indexOf(only)] === 1 ? { rest: only, factors } : whole
  }
  const { id: operand, at } = operandOf(role, lets)
  const { rest, factors } = splitOf(operand)
  if (rest === undefined || factors.length === 0) return body
  const narrow = lets.get(operand)
  if (
    narrow?.dtype === 'f16' &&
    !isBounded(unrounded(rest, new Map([...lets, ...made.map((l) => [l.id, l] as const)])), lets)
  )
    return refuse('no-stream', 'without its factor an operand may exceed the range of f16')
  const product: LetStmt = { ...dot, op: { ...dot.op, [at]: rest } }
  made.push(product)
  let result = product
  for (const f of factors) {
    const of = lets.get(f.id)
    if (of === undefined) continue
    const by =
      of.dtype === dot.dtype
        ? f.id
        : emit({ ...of, dtype: dot.dtype, op: { kind: 'scalar', op: 'cast', args: [f.id] } })
    const id = emit({ ...dot, op: { kind: 'scalar', op: f.divides ? 'div' : 'mul', args: [result.id, by] } })
    result = made.at(-1) ?? result
    if (result.id !== id) return body
  }
  const renamed = (id: ValueId): ValueId => (id === dot.id ? result.id : id)
  const node = body.origin.get(dot.id)
  const origin = new Map(body.origin)
  if (node !== undefined) for (const l of made) origin.set(l.id, node)
  const all = body.lets.flatMap((l) => (l === dot ? made : [{ ...l, op: renameOperands(l.op, renamed) }]))
  const stores = body.stores.map((s) => ({ ...s, value: renamed(s.value) }))
  const live = ancestorsOf(
    stores.map((s) => s.value),
    new Map(all.map((l) => [l.id, l])),
  )
  return { ...body, lets: all.filter((l) => live.has(l.id)), stores, origin }
}

/** Axes of a value that keeps some of its operands, in its own order. */
function unionOf(axes: readonly string[], args: readonly ValueId[], lets: Lets, made: readonly LetStmt[]): string[] {
  const of = new Set(args.flatMap((id) => (lets.get(id) ?? made.find((l) => l.id === id))?.axes ?? []))
  return axes.filter((t) => of.has(t))
}

/** Whether a value is an exponential, which an anchor keeps at one at most. */
function isBounded(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  return op?.kind === 'scalar' && scalarInfo(op.op).exponentialIn !== undefined
}

const dependsOn = (id: ValueId, on: ValueId, lets: Lets): boolean => id !== on && ancestorsOf([id], lets).has(on)
