/**
 * Chains of contractions: products of which others sum over the columns, with anything elementwise and folds along
 * that shared axis in between. A program holds a block of rows and goes through the shared axis in blocks; it carries the blocks of
 * results, and beside them what is folded along the shared axis. Sums against a greatest (least) value stream
 * (src/kernel/streams.ts): they move with it. So the first products' results are never all there at once.
 */
import { axesOf } from '../../affine/expr.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { type Streamed, streamedDot, streamedSum, unrounded } from '../../kernel/streams.ts'
import { ancestorsOf, liveLets, renameOperands } from '../../kernel/walk.ts'
import { isModerate } from '../../scalar/moderate.ts'
import { combinerOp, scalarInfo } from '../../scalar/ops.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { withoutScale } from './chainScale.ts'
import type { DepthParts, MatrixRole } from './fusedReductions.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

type Axes = readonly string[]

const noOp: LetStmt['op'] = { kind: 'const', value: 0 }

/** The products of a chain and the roles of their axes. */
export interface ChainRole {
  /** Products of rows and the shared axes: a step of the loop has a block of each. */
  readonly tiles: readonly ValueId[]
  /** Products that sum along the shared axes what is made of tiles: the loop carries their results. */
  readonly sums: readonly ValueId[]
  /** Axes of which a program has one index: both operands of a product have them, or one product alone. */
  readonly batch: readonly string[]
  /** Rows of the tiles and of the results. */
  readonly rows: readonly string[]
  /** Columns of the tiles, depth of the sums. */
  readonly shared: readonly string[]
  /** Depths of the tiles, and columns of the sums: a program holds both whole. */
  readonly depth: readonly string[]
  readonly columns: readonly string[]
  /** Blocks of products that vectors of registers multiply, from staged tiles; absent: a matrix unit does, or loops do. */
  readonly vectors?: { readonly rows: number; readonly shared: number; readonly rate: number }
  /** How the shared axis is cut, if it is: each part is a program of its own (chainParts.ts). */
  readonly parts?: DepthParts
}

/** Whether a chain is one product and one over it. */
export const isPair = ({ tiles, sums }: ChainRole): boolean => tiles.length === 1 && sums.length === 1

/** What a program holds whole of each product: the depth of a tile, the columns of a sum. */
export const widthsOf = (
  { tiles, sums, columns }: ChainRole,
  lets: Lets,
  extents: ReadonlyMap<string, number>,
): number[] => [
  ...tiles.flatMap((id) => lets.get(id) ?? []).map((l) => pointsOf(extents, foldAxes(l))),
  ...sums.map((id) =>
    pointsOf(
      extents,
      columns.filter((t) => lets.get(id)?.axes.includes(t)),
    ),
  ),
]

/** Operands of a product of a chain that stand in tiles: what its tiles lead to stands in registers. */
export const stagedOperands = (l: LetStmt | undefined, { tiles }: ChainRole, lets: Lets): ValueId[] => {
  const isOwn = (id: ValueId): boolean => [...ancestorsOf([id], lets)].some((of) => tiles.includes(of))
  return l?.op.kind === 'dot' ? [l.op.a, l.op.b].filter((id) => !isOwn(id)) : []
}

/** A fold along the shared axes, the sums among them, and how it streams if it does. */
export interface ChainFold {
  readonly let: LetStmt
  readonly combiner: 'sum' | 'prod' | 'max' | 'min'
  readonly streamed: Streamed | undefined
}

/** A body as a chain computes it. */
export interface ChainForm {
  /** The body with factors that are one along the shared axes behind the sums. */
  readonly body: Body
  /** In the order of their statements. */
  readonly folds: readonly ChainFold[]
}

type Found<T> = ({ readonly ok: true } & T) | Refused

/** What a chain is made of: which of its products are tiles, which sum along the shared axes, and those axes. */
interface Parts {
  readonly tiles: readonly LetStmt[]
  readonly sums: readonly LetStmt[]
  readonly shared: readonly string[]
}

const noChain = refuse(
  'two-contractions',
  'a kernel holds one matrix product, or some of which others sum over the columns',
)

/** Which of some products sum what is made of the others, along which axes; of products that none sums, the axes that folds of them run along. */
function partsOf(lets: Lets, products: readonly ValueId[]): Parts | undefined {
  const below = new Map(products.map((id) => [id, ancestorsOf(operandsOf(lets.get(id)?.op ?? noOp), lets)]))
  const isSum = (id: ValueId): boolean => products.some((p) => p !== id && below.get(id)?.has(p) === true)
  const statements = products.flatMap((id) => lets.get(id) ?? [])
  const sums = statements.filter((l) => isSum(l.id))
  const tiles = statements.filter((l) => !isSum(l.id))
  if (sums.some((l) => sums.some((s) => below.get(l.id)?.has(s.id) === true))) return undefined
  const isTile = new Set(tiles.map((l) => l.id))
  const folds = [...lets.values()].filter(
    (l) => l.op.kind === 'reduce' && [...ancestorsOf([l.op.arg], lets)].some((id) => isTile.has(id)),
  )
  const sumOrFold = sums[0] ?? folds[0]
  const shared = sumOrFold === undefined ? [] : foldAxes(sumOrFold)
  const isShared = (axes: Axes): boolean => axes.length === shared.length && axes.every((t) => shared.includes(t))
  return shared.length > 0 && sums.every((l) => isShared(foldAxes(l))) ? { tiles, sums, shared } : undefined
}

/** The roles of some products as a chain, or why they are none. */
export function chainRole(lets: Lets, products: readonly MatrixRole[]): Found<{ readonly role: ChainRole }> {
  const ids = products.map((p) => p.id)
  const parts = partsOf(lets, ids)
  if (parts === undefined) return noChain
  const { tiles, sums, shared } = parts
  const isTile = new Set(tiles.map((l) => l.id))
  const axesAt = (id: ValueId): readonly string[] => lets.get(id)?.axes ?? []
  const isOwn = (id: ValueId): boolean => isTile.has(id) || [...ancestorsOf([id], lets)].some((x) => isTile.has(x))
  /** Axes of the sides without and with the shared ones, of every tile; of the operands that tiles lead to and of the others, of every sum. */
  const [lefts, rights, owns, others]: [Axes[], Axes[], Axes[], Axes[]] = [[], [], [], []]
  const depth = new Set<string>()
  for (const { op } of tiles) {
    if (op.kind !== 'dot') return noChain
    const [x, y] = [axesAt(op.a), axesAt(op.b)]
    const has = (axes: Axes, all: boolean): boolean =>
      all ? shared.every((t) => axes.includes(t)) : !shared.some((t) => axes.includes(t))
    if (!(has(x, false) && has(y, true)) && !(has(y, false) && has(x, true))) return noChain
    const swap = has(x, true)
    lefts.push(swap ? y : x)
    rights.push(swap ? x : y)
    for (const t of op.axes) depth.add(t)
  }
  for (const { op } of sums) {
    if (op.kind !== 'dot' || isOwn(op.a) === isOwn(op.b)) return noChain
    const [own, other] = isOwn(op.a) ? [op.a, op.b] : [op.b, op.a]
    owns.push(axesAt(own))
    others.push(axesAt(other))
  }
  const carried = sums.length > 0 ? owns : tiles.map((l) => l.axes)
  if ([...owns, ...others, ...tiles.map((l) => l.axes)].some((axes) => axes.some((t) => depth.has(t)))) return noChain
  const kept = [...new Set(carried.flat())].filter((t) => !shared.includes(t))
  const isBatch = (t: string): boolean =>
    [...others, ...rights].some((axes) => axes.includes(t)) || !lefts.every((axes) => axes.includes(t))
  const role: ChainRole = {
    tiles: tiles.map((l) => l.id),
    sums: sums.map((l) => l.id),
    batch: kept.filter(isBatch),
    rows: kept.filter((t) => !isBatch(t)),
    shared,
    depth: [...depth],
    columns: [...new Set(others.flat())].filter((t) => !shared.includes(t) && !kept.includes(t)),
  }
  const isWhole = role.rows.length > 0 && (sums.length === 0 || role.columns.length > 0)
  return isWhole && owns.every((axes) => role.rows.every((t) => axes.includes(t))) ? { ok: true, role } : noChain
}

/** What a body is as a chain, or why the folds along the shared axes do not stream. */
export function chainForm(planned: Body, role: ChainRole): Found<ChainForm> {
  const made = role.sums.reduce<Body | Refused>(
    (body, sum) => ('ok' in body ? body : withoutFactors(body, role, sum)),
    withoutScale(withoutRounding(planned, role), role.shared),
  )
  if ('ok' in made) return made
  const body = made
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
    const found = foldOf(l, role, lets, folded)
    if (!found.ok) return found
    folds.push(found.fold)
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
export function lateOf(body: Body, folds: ReadonlySet<ValueId>): Set<ValueId> {
  const out = new Set<ValueId>()
  for (const l of body.lets) if (operandsOf(l.op).some((o) => folds.has(o) || out.has(o))) out.add(l.id)
  return out
}

/** Whether a statement folds nothing, or what a program holds whole; of other products there are none. */
function mayStand({ id, op }: LetStmt, role: ChainRole): boolean {
  if (op.kind === 'scan') return false
  if (op.kind === 'dot') return role.tiles.includes(id)
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
  const sum = role.sums.includes(l.id)
  if (!sum && (op.kind !== 'reduce' || !(op.combiner in combinerOp)))
    return refuse('reduction-of-contraction', `a ${op.kind} along the axis that a chain of products goes through`)
  if (foldAxes(l).length !== role.shared.length)
    return refuse('reduction-of-contraction', 'a fold along a part of the axes that a chain of products goes through')
  if (computeDType(l.dtype) !== l.dtype)
    return refuse('reduction-of-contraction', `a fold in ${l.dtype} has no partial results`)
  if (!l.axes.every((t) => [role.batch, role.rows, role.columns].some((axes) => axes.includes(t))))
    return refuse('reduction-of-contraction', 'a fold beside a chain of products has an axis that no product has')
  const combiner = op.kind === 'reduce' ? (op.combiner as keyof typeof combinerOp) : 'sum'
  const needs = ancestorsOf(operandsOf(op), lets)
  if (![...needs].some((id) => folded.has(id))) return { ok: true, fold: { let: l, combiner, streamed: undefined } }
  const streamed = sum ? streamedDot(l, operandOf(l, role, lets).id, lets) : streamedSum(l, lets)
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

/** The operand of a sum that tiles lead to; `at` names it in the statement. */
function operandOf(
  { id, op }: LetStmt,
  { tiles }: ChainRole,
  lets: Lets,
): { readonly id: ValueId; readonly at: 'a' | 'b' } {
  const [a, b] = op.kind === 'dot' ? [op.a, op.b] : [id, id]
  return tiles.some((t) => a === t || dependsOn(a, t, lets)) ? { id: a, at: 'a' } : { id: b, at: 'b' }
}

/** A factor of a sum's terms that is one along the shared axes. */
interface Factor {
  readonly id: ValueId
  readonly divides: boolean
}

/** The body without the rounding of tiles to half precision where they are widened again. */
function withoutRounding(body: Body, { tiles }: ChainRole): Body {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  // Casts that users ask for round.
  const isLoose = (id: ValueId): boolean => {
    const op = lets.get(id)?.op
    return op?.kind === 'scalar' && op.loose === true
  }
  const renamed = new Map<ValueId, ValueId>()
  for (const l of body.lets) {
    const narrow = castOperand(l)
    const tile = narrow === undefined ? undefined : castOperand(lets.get(narrow))
    if (narrow === undefined || tile === undefined || !tiles.includes(tile) || !isLoose(narrow)) continue
    if (lets.get(tile)?.dtype === l.dtype) renamed.set(l.id, tile)
  }
  if (renamed.size === 0) return body
  const all = body.lets.map((l) => ({ ...l, op: renameOperands(l.op, (id) => renamed.get(id) ?? id) }))
  const stored = body.stores.map((s) => s.value)
  return { ...body, lets: liveLets(all, stored) }
}

/** What a cast converts. */
const castOperand = (l: LetStmt | undefined): ValueId | undefined =>
  l?.op.kind === 'scalar' && l.op.op === 'cast' ? l.op.args[0] : undefined

/** An operand without its factors; `undefined`: all of it is factors. */
interface Split {
  readonly rest: ValueId | undefined
  readonly factors: readonly Factor[]
}

/** The body with factors of a sum's terms that follow from folds along the shared axes and are one along them, and numbers, behind it. */
function withoutFactors(body: Body, role: ChainRole, sum: ValueId): Body | Refused {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const dot = lets.get(sum)
  if (dot?.op.kind !== 'dot') return body
  const folds = new Set(
    body.lets.flatMap((l) => (l.id !== sum && foldAxes(l).some((t) => role.shared.includes(t)) ? [l.id] : [])),
  )
  const isLate = (id: ValueId): boolean => folds.has(id) || [...ancestorsOf([id], lets)].some((o) => folds.has(o))
  /** Whether a value is another times a number, which nothing needs to hold. */
  const isScaled = (id: ValueId): boolean => {
    const op = lets.get(unrounded(id, lets))?.op
    if (op?.kind !== 'scalar' || scalarInfo(op.op).factors?.every((p) => p === 1) !== true) return false
    return op.args.some((a) => isNumber(a, lets))
  }
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
  /** Factors of what is chosen where a condition does not choose zero. */
  const splitOfChoice = (l: LetStmt, [condition, x, y]: readonly ValueId[]): Split | undefined => {
    const zero = y !== undefined && isZero(y, lets) ? y : x
    const value = zero === y ? x : y
    if (
      condition === undefined ||
      value === undefined ||
      zero === undefined ||
      !isZero(zero, lets) ||
      isLate(condition)
    )
      return undefined
    const { rest, factors } = splitOf(value)
    if (rest === undefined || factors.length === 0) return undefined
    return { rest: emit({ ...l, op: renameOperands(l.op, (id) => (id === value ? rest : id)) }), factors }
  }
  const findSplit = (id: ValueId): Split => {
    const l = lets.get(id)
    const whole: Split = { rest: id, factors: [] }
    if (l === undefined || !isFloat(l.dtype)) return whole
    if (isNumber(id, lets)) return { rest: undefined, factors: [{ id, divides: false }] }
    if (!isLate(id) && !isScaled(id)) return whole
    if (!l.axes.some((t) => role.shared.includes(t))) return { rest: undefined, factors: [{ id, divides: false }] }
    if (l.op.kind !== 'scalar') return whole
    const { op, args } = l.op
    const inner = unrounded(id, lets)
    const { factors: powers } = scalarInfo(op)
    if (scalarInfo(op).chooses === true) return splitOfChoice(l, args) ?? whole
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
  const { id: operand, at } = operandOf(dot, role, lets)
  const { rest, factors } = splitOf(operand)
  if (rest === undefined || factors.length === 0) return body
  const narrow = lets.get(operand)
  if (
    narrow?.dtype === 'f16' &&
    !isBounded(unrounded(rest, new Map([...lets, ...made.map((l) => [l.id, l] as const)])), lets)
  )
    return factors.some((f) => isLate(f.id))
      ? refuse('no-stream', 'without its factor an operand may exceed the range of f16')
      : body
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
  const stored = stores.map((s) => s.value)
  return { ...body, lets: liveLets(all, stored), stores, origin }
}

/** Axes of a value that keeps some of its operands, in its own order. */
function unionOf(axes: readonly string[], args: readonly ValueId[], lets: Lets, made: readonly LetStmt[]): string[] {
  const of = new Set(args.flatMap((id) => (lets.get(id) ?? made.find((l) => l.id === id))?.axes ?? []))
  return axes.filter((t) => of.has(t))
}

/** Whether a value is an exponential, which an anchor keeps at one at most, or zero where a condition hides that. */
function isBounded(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  if (op?.kind !== 'scalar') return false
  const { exponentialIn, chooses, factors } = scalarInfo(op.op)
  if (exponentialIn !== undefined) return true
  if (chooses !== true && factors?.every((p) => p === 1) !== true) return false
  const isMask = (a: ValueId): boolean => {
    const cast = lets.get(unrounded(a, lets))?.op
    const from = cast?.kind === 'scalar' && cast.op === 'cast' ? lets.get(cast.args[0] ?? a) : undefined
    return from?.dtype === 'bool'
  }
  const rest = op.args.filter((a, i) => (chooses === true ? i > 0 && !isZero(a, lets) : !isMask(a)))
  const [only, ...others] = rest
  return only !== undefined && others.length === 0 && isBounded(only, lets)
}

function isZero(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  return op?.kind === 'const' && op.value === 0
}

/** Whether a value is a number that may meet a sum instead of its terms (docs/numerics.md). */
function isNumber(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  return op?.kind === 'const' && typeof op.value === 'number' && isModerate(op.value)
}

const dependsOn = (id: ValueId, on: ValueId, lets: Lets): boolean => id !== on && ancestorsOf([id], lets).has(on)
