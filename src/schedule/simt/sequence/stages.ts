/** Statements that run under layouts of their own: tiles that are filled, stores that are walked in order. */
import { invariant, UserError } from '../../../diagnostics/errors.ts'
import type { LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import type { Place } from '../access/place.ts'
import {
  filledFrom,
  fragmentTile,
  matrixTile,
  packedTile,
  plainTile,
  productTile,
  type TilePlan,
  tileArray,
  vectorTile,
} from '../access/tiles.ts'
import { orderedLayout, stageLayout } from '../layout/partLayout.ts'
import { storeValues } from '../part/facts.ts'
import { filterOf, queuedValues } from '../part/filter.ts'
import { packedForm } from '../part/packed.ts'
import { itemsOf, type OrderedWork, type StageWork } from './sequence.ts'
import type { PlanItems } from './walks.ts'

/** Fills a tile under a layout of its own, or the slice of it that its product asks for: everything pure that it needs is computed there. */
export function planStage(at: Place, l: LetStmt, planItems: PlanItems): StageWork {
  invariant(l.op.kind === 'stage', 'not a stage')
  const { part, setting } = at
  const early = at.stages.get(l.id)
  const layout = early?.layout ?? stageLayout(part, l, setting.machine, at.layout.threads)
  const product = part.productOn(l.id)
  const isFragments = early?.asFragments === true && product !== undefined
  const packed =
    product === undefined || product.dtype === 'tf32' ? undefined : packedForm(part, l.op.of, product.dtype)
  const tile = isFragments
    ? fragmentTile(l, layout, product, packed)
    : packedTile(ownTile(at, l, layout), layout, packed)
  if (!isFragments && tile.form.kind !== 'matrices') at.shared.share(tileArray(tile))
  const { lets } = part.closureOf(filledFrom(tile, l.op.of))
  const inner = at.inside({ layout, open: new Set(), copied: early })
  for (const x of lets) if (part.axesOf(x.id).length > 0) inner.held.delete(x.id)
  const whole = inner.openWhole(layout.axes.keys())
  const slices = part.slicesOf(l.id)
  const open = slices === undefined ? whole : whole.inside({ open: new Set([...whole.open, slices.axis]) })
  const body = planItems(open, [...itemsOf(lets), { kind: 'fill', tile, of: l.op.of }], new Set())
  at.holds(l.id, isFragments ? 'registers' : 'shared')
  return { kind: 'stage', let: l, layout, tile, isAhead: early !== undefined, body }
}

/** The tile of a stage by what reads it, where that is no matrix unit. */
export function mainTile(at: Place, l: LetStmt): TilePlan {
  const vectors = at.part.vectorsOn(l.id)
  return vectors === undefined ? plainTile(at, l) : vectorTile(at, l, vectors.product, vectors.operand)
}

function ownTile(at: Place, l: LetStmt, layout: StageWork['layout']): TilePlan {
  const vectors = at.part.vectorsOn(l.id)
  if (vectors?.product.onMatrices) return matrixTile(at, l, layout, vectors.product, vectors.operand)
  if (vectors !== undefined) return vectorTile(at, l, vectors.product, vectors.operand, layout)
  const product = at.part.productOn(l.id)
  return product === undefined ? plainTile(at, l) : productTile(at, l, layout, product)
}

/** Values that an ordered store rests on and that are not computed again under its own layout. */
export const orderedNeeds = ({ part }: Place, s: StoreStmt): number[] => [...part.closureOf(storeValues(s)).rest]

/**
 * A store whose points may meet at one place (a combiner, an index from data): walked in row-major order by one thread a place.
 * Axes that lead to places of their own are spread over the threads.
 */
export function planOrdered(at: Place, s: StoreStmt, planItems: PlanItems): OrderedWork {
  const { part, setting } = at
  const { rest } = part.closureOf(storeValues(s))
  const filter = filterOf(part, s)
  const queued = filter === undefined ? new Set<ValueId>() : queuedValues(filter)
  const { lets } = part.closureOf(storeValues(s).filter((id) => !queued.has(id)))
  for (const id of rest)
    if (part.axesOf(id).length > 0 && at.held.get(id)?.kind !== 'shared')
      throw new UserError(
        'E_UNSUPPORTED',
        `the store into ${s.param} may meet a place more than once and rests on folded or carried tiles`,
      )
  const nests = lets.map((l) => ({ axes: part.nestOf(l) }))
  const layout = orderedLayout(part, s, nests, setting.machine, at.layout.threads)
  const inner = at.inside({ layout, open: new Set() })
  for (const l of lets) inner.held.delete(l.id)
  for (const id of queued) inner.holds(id, 'scalar')
  const open = inner.openWhole(layout.axes.keys())
  const body = planItems(open, [...itemsOf(lets), { kind: 'ordered', store: s }], new Set())
  return { kind: 'ordered', store: s, layout, body }
}
