/** Tiles that a product fills itself, a slice of its depth at a time (src/schedule/simt/part/slices.ts). */
import type { ValueId } from '../../../kernel/ir.ts'
import type { Slices } from '../../../schedule/simt/part/vectorProduct.ts'
import type { StageWork } from '../../../schedule/simt/sequence/sequence.ts'
import { add, type Block, cast, type Ex, int, mul } from '../ir/ir.ts'
import { openTile } from '../memory/stage.ts'
import type { EmitSequence } from './loop.ts'
import type { Scope, SharedTile } from './scope.ts'

/** The tiles of a product's slices, and what fills them with the slice of a number. */
export interface SlicedTiles {
  readonly tiles: ReadonlyMap<ValueId, SharedTile>
  fill(slice: Ex, out: Block): void
}

/** Room for the slices of a product. */
export function openSlices(
  scope: Scope,
  { axis, size }: Slices,
  fills: readonly StageWork[],
  emit: EmitSequence,
): SlicedTiles {
  const tiles = new Map(fills.map((f) => [f.let.id, openTile(scope.unit, f.tile)]))
  const fill = (slice: Ex, out: Block): void => {
    for (const { let: l, layout, body } of fills) {
      const inner = scope.child({ layout, bases: new Map() })
      for (const x of scope.part.closureOf(l.op.kind === 'stage' ? [l.op.of] : []).lets)
        if (scope.part.axesOf(x.id).length > 0) inner.held.delete(x.id)
      const tile = tiles.get(l.id)
      if (tile !== undefined) inner.tiles.set(l.id, tile)
      out.push({ k: 'comment', text: `slice of %${l.id} {${l.axes.join(', ')}}` })
      const whole = inner.openWhole(layout.axes.keys(), out)
      const start = add(cast('i32', scope.range(axis).start), mul(slice, int(size)))
      const bases = new Map([...whole.bases, [axis, whole.baseOf(layout.axis(axis), start, out)]])
      emit(whole.child({ bases }), body, out)
    }
  }
  return { tiles, fill }
}
