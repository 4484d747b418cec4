/**
 * The places of elements in a tile that warp groups multiply: panels of 64, 32 or 16 elements a row (128, 64 or 32 bytes); 16-byte pieces change places
 * within a row by the number of its 128 bytes, so that neither copies nor tensor cores meet in a bank. (PTX ISA, "Swizzling modes".)
 */
import { panelElements, type RowOrder, type Swizzle } from '../../../schedule/simt/storage/swizzle.ts'
import { add, bin, type Ex, int, mul, uint } from '../ir/ir.ts'

const bitsAt = (x: Ex, from: number, count: number): Ex => bin('&', bin('>>', x, uint(from)), int(2 ** count - 1))

/** The tile's row of a product's row. The layout counts (low digit first) rows of an instruction, groups, pieces; the tile those rows, pieces, groups. */
function tileRow(row: Ex, { groups, pieces }: RowOrder): Ex {
  const rows = bin('&', row, int(63))
  const piece = mul(bitsAt(row, 6 + groups, pieces), int(64))
  return add(add(rows, piece), mul(bitsAt(row, 6, groups), int(64 << pieces)))
}

/** The place of an element of a tile, by its indices along both axes. */
export function swizzled(s: Swizzle, outer: Ex, inner: Ex): Ex {
  const row = s.order?.axis === 0 ? tileRow(outer, s.order) : outer
  const column = s.order?.axis === 1 ? tileRow(inner, s.order) : inner
  const bits = Math.log2(s.panel)
  const line = s.panel === panelElements ? row : bin('>>', row, uint(Math.log2(panelElements) - bits))
  const piece = bin('^', bitsAt(column, 3, bits - 3), bin('&', line, int(s.panel / 8 - 1)))
  const panel = mul(bin('>>', column, uint(bits)), int(s.rows * s.panel))
  return add(add(add(panel, mul(row, int(s.panel))), mul(piece, int(8))), bin('&', column, int(7)))
}
