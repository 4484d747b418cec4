/**
 * Chains of contractions: products of which others sum over the columns, with anything elementwise and folds along
 * that shared axis in between. A program holds a block of rows and goes through the shared axis in blocks; it carries the blocks of
 * results, and beside them what is folded along the shared axis. Sums against a greatest (least) value stream
 * (src/kernel/streams.ts): they move with it. So the first products' results are never all there at once.
 */
import { axesOf } from '../../affine/expr.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { type Streamed, streamedDot, streamedSum } from '../../kernel/streams.ts'
import { ancestorsOf, liveLets, renameOperands } from '../../kernel/walk.ts'
import { combinerOp } from '../../scalar/ops.ts'
import { computeDType } from '../../types/dtype.ts'
import { type Body, type BodyStore, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { operandOf, withoutFactors } from './chainFactors.ts'
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
  /** Results that have an element for every point of the shared axes: each step of the loop stores its own. */
  readonly ofSteps: readonly BodyStore[]
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
  const ofSteps: BodyStore[] = []
  for (const s of body.stores) {
    const own = new Set(s.index.flatMap((e) => [...axesOf(e)]))
    if (role.depth.some((t) => own.has(t)))
      return refuse('unaligned-output', 'a result runs along the depth of a product that a chain holds whole')
    if (!isOfSteps(s, role)) continue
    ofSteps.push(s)
    if (role.columns.some((t) => own.has(t)) || !role.shared.every((t) => own.has(t)))
      return refuse('unaligned-output', 'a result of a step runs along a part of the axes that a chain goes through')
    if (late.has(s.value) || folded.has(s.value))
      return refuse('no-stream', 'a result of a step follows from a fold along the axis that a chain goes through')
  }
  return { ok: true, body, folds, ofSteps }
}

/** Whether a result runs along the shared axes of a chain. */
export const isOfSteps = ({ index }: BodyStore, { shared }: Pick<ChainRole, 'shared'>): boolean =>
  index.some((e) => shared.some((t) => axesOf(e).has(t)))

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
