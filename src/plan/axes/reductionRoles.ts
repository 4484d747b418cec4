/** Roles of a body with reductions and no matrix product: rows that a program holds, and reductions that are cut. */
import * as ix from '../../affine/expr.ts'
import { foldOrScanAxes } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { streamedSum } from '../../kernel/streams.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { isFloat } from '../../types/dtype.ts'
import { type Body, heldPoints, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Analysis } from './analysis.ts'
import { tooManyBound } from './bindings.ts'
import { ownExtents, straightGrid } from './blocks.ts'
import { tooMuchHeld } from './heldTiles.ts'
import { partialOf } from './partials.ts'
import { type Roles, unitAxis } from './roles.ts'
import { splitReductions } from './split.ts'
import { stagesOf } from './stages.ts'

/** Bytes of an element of a row, as it is held: f32. */
const heldBytes = 4

/** The roles of such a body, or why no kernel computes it; `alongAxes`: reductions are cut along an axis where programs would be too few. */
export function reductionRoles(a: Analysis, alongAxes = true): { readonly ok: true; readonly roles: Roles } | Refused {
  const { body, target, mode, extents, row, reduced, parallel } = a
  const held = heldPoints(body, extents, row)
  if (row.size > 0 && held * heldBytes > target.rowBytes && target.rereadShare === undefined)
    return refuse('row-too-long', `rows of ${held} elements do not stay resident`)

  if (mode === 'strict' && target.rereadShare !== undefined && body.lets.some((l) => isOutOfOrder(l, a)))
    return refuse('strict-order', 'the sum would be taken along another axis first, of which what it sums needs folds')

  const hasScans = body.lets.some((l) => l.op.kind === 'scan')
  const contiguous = unitAxis(body)
  const byColumns = contiguous !== undefined && parallel.has(contiguous)
  // A scan's program is one block: what folds much below it would keep few blocks busy.
  const whole = heldPoints(body, extents, new Set([...row, ...reduced]))
  const programs = pointsOf(extents, parallel) / (byColumns ? target.partialColumns : 1)
  const most = (target.lineBytes?.fast ?? Number.POSITIVE_INFINITY) / heldBytes
  if (hasScans && whole > Math.max(held, most) && programs < target.minPrograms)
    return refuse('row-too-long', `a scan over folds of ${whole} elements would be one block of threads`)
  const cut = splitReductions(a, byColumns, alongAxes, (among) =>
    among === undefined ? contiguous : unitAxis(body, among),
  )
  if (!cut.ok) return cut
  const { split, splitBy } = cut
  const parts = body.lets.filter((l) => split.has(l.id))
  const stages = stagesOf(
    body,
    new Map(splitBy === undefined ? [] : parts.map((l) => [l.id, partialOf(a, l, splitBy)])),
  )
  const over = tooManyBound(body, stages, target) ?? tooMuchHeld(a, split, splitBy)
  if (over !== undefined) return over
  const loops = split.size > 0 && splitBy !== 'every-index'
  const inBlock = mode === 'strict' || loops || hasScans
  const room = inBlock ? (target.blockRowBytes ?? target.rowBytes) : target.rowBytes
  const isCut = row.size > 0 && held * heldBytes > room
  if (isCut && foldsAcross(a) && passesOver(a, false) > 1)
    return refuse('row-too-long', `tiles of ${held} elements, folded along several axes, do not stay resident`)
  const roles: Roles = { kind: 'reduction', extents, row, reduced, parallel, stages, splitBy }
  const passes = isCut || !isResident(a, roles, room) ? passesOver(a, mode === 'fast') : 1
  return { ok: true, roles: { ...roles, passes } }
}

/** Whether the rows of a program, all of its columns of them, stay with it; rows are read again where machines do so, else refused alone. */
function isResident({ body, target, mode, row, extents }: Analysis, roles: Roles, room: number): boolean {
  if (row.size === 0 || target.rereadShare === undefined || roles.stages.main !== undefined) return true
  const own = ownExtents(extents, straightGrid(body, roles, target, mode))
  return heldPoints(body, own, new Set([...row, ...roles.parallel])) * heldBytes <= room
}

/**
 * Whether a sum's terms need folds along one of its axes for each index of a later one. A program that reads again instead of holding what folds leave
 * goes through the later axis first then, which is another order than that of the sum alone.
 */
function isOutOfOrder({ op, dtype }: LetStmt, { lets }: Analysis): boolean {
  if (op.kind !== 'reduce' || !isFloat(dtype) || (op.combiner !== 'sum' && op.combiner !== 'prod')) return false
  const { axes, arg } = op
  return [...ancestorsOf([arg], lets)].some((id) => {
    const fold = lets.get(id)
    const along = fold === undefined ? [] : foldOrScanAxes(fold)
    const first = axes.findIndex((x) => along.includes(x))
    return first >= 0 && fold?.axes.some((x) => axes.indexOf(x) > first) === true
  })
}

/** How often a program goes through rows it does not hold: once more after every fold that what follows depends on. */
function passesOver({ body, lets, row }: Analysis, streams: boolean): number {
  const { before, folds } = passesBefore(body, lets, row, streams)
  let passes = 1
  for (const l of body.lets) if (folds(l)) passes = Math.max(passes, before.get(l.id) ?? 0)
  for (const s of body.stores)
    if (s.index.some((e) => [...ix.axesOf(e)].some((a) => row.has(a))))
      passes = Math.max(passes, (before.get(s.value) ?? 0) + 1)
  return passes
}

/**
 * The passes over a row that end before each value is there, and which values `folds` make along it. A sum that `streams`
 * (src/kernel/streams.ts) joins the pass of its anchor where all else that it needs is there before.
 */
export function passesBefore(
  body: Body,
  lets: ReadonlyMap<ValueId, LetStmt>,
  row: ReadonlySet<string>,
  streams: boolean,
): { readonly before: ReadonlyMap<ValueId, number>; readonly folds: (l: LetStmt) => boolean } {
  const before = new Map<ValueId, number>()
  const latest = (ids: readonly ValueId[]): number => ids.reduce((n, o) => Math.max(n, before.get(o) ?? 0), 0)
  const operands = (id: ValueId): readonly ValueId[] => operandsOf(lets.get(id)?.op ?? { kind: 'const', value: 0 })
  const beforeAnchor = (l: LetStmt): number | undefined => {
    const streamed = streams ? streamedSum(l, lets) : undefined
    if (streamed === undefined) return undefined
    const { anchor, through, against } = streamed
    const reads = [l.id, ...through].flatMap(operands).filter((id) => id !== against && !through.has(id))
    const start = latest(operands(anchor))
    return latest(reads) <= start ? start : undefined
  }
  const folds = (l: LetStmt): boolean => foldOrScanAxes(l).some((a) => row.has(a))
  for (const l of body.lets) {
    const isFold = folds(l)
    const start = (isFold ? beforeAnchor(l) : undefined) ?? latest(operandsOf(l.op))
    before.set(l.id, isFold ? start + 1 : start)
  }
  return { before, folds }
}

/** Whether rows are folded along some of their axes here and along others there: each fold's results would have to be held as well. */
function foldsAcross({ body, row }: Analysis): boolean {
  const sets = new Set<string>()
  for (const l of body.lets) {
    const axes = foldOrScanAxes(l).filter((a) => row.has(a))
    if (axes.length > 0) sets.add(axes.sort().join())
  }
  return sets.size > 1
}
