/**
 * Products of f32 on tensor cores whose operands are split into sums of two numbers of tf32 (`tf32x3`, docs/numerics.md): of the four products
 * of their terms the three largest are summed. A block of the depth is summed from zero, so that the unit's accumulators, which
 * truncate, leave it soon; what they have is added to the running sums in f32. Where an operand is not split exactly enough (it is not finite,
 * close to the greatest number, or tiny), or the sum is not finite, the warp sums that block's products again in f32.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { splitTiles } from '../../../schedule/simt/access/tiles.ts'
import type { Product } from '../../../schedule/simt/part/product.ts'
import { panelElements } from '../../../schedule/simt/storage/swizzle.ts'
import { add, type Block, bin, type Ex, elem, int, mul, uint } from '../ir/ir.ts'
import { type Lanes, registerIndex } from '../ir/registers.ts'
import { type Scope, type SharedTile, tid } from '../nest/scope.ts'
import type { Accumulator } from '../reduce/open.ts'
import {
  closeBlock,
  depthOfStep,
  isDepthLast,
  loadColumn,
  loadRows,
  openBlock,
  place,
  repeat,
  type SplitBlock,
  type SplitTiles,
  splitWords,
  zeroSums,
} from './splitOperands.ts'

const words = (array: string, from: Ex, n: number): Ex[] =>
  Array.from({ length: n }, (_, i) => elem('u32', array, add(from, int(i))))

const array = (name: string, length: number): Block[number] => ({ k: 'array', name, type: 'u32', length })

/** Adds the product of two staged tiles to the accumulator: fragments of both operands are split in registers. */
export function multiplySplit(scope: Scope, acc: Accumulator, p: Product, tiles: SplitTiles, out: Block): void {
  const { unit, layout } = scope
  const [ta, tb] = tiles
  const rowTiles = layout.axis(p.rows).reps / 2
  const columnTiles = layout.axis(p.columns).reps
  out.push({
    k: 'comment',
    text: `dot %${p.dot} on tensor cores in three products: ${rowTiles} x ${columnTiles} tiles of 16 x 8 a warp`,
  })
  const block = openBlock(scope, acc, p, out)
  out.push(zeroSums(scope, acc, block))
  const [raw, high, low, rawB, highB, lowB] = ['raw', 'high', 'low', 'raw', 'high', 'low'].map((wish) =>
    unit.name(`${wish}_${p.dot}`),
  ) as [string, string, string, string, string, string]
  const results = (row: Ex, column: Ex): Ex[] =>
    [0, 1, 2, 3].map((n) => {
      const lanes: Lanes = new Map([
        [p.rows, { rep: add(mul(row, int(2)), int(n >> 1)), lane: int(0) }],
        [p.columns, { rep: column, lane: int(n & 1) }],
      ])
      return elem('f32', block.sums, registerIndex(layout, acc.kept, lanes))
    })
  // The lesser products first.
  const products = [
    [low, highB],
    [high, lowB],
    [high, highB],
  ] as const
  const ofColumn = (column: Ex, depth0: Ex): Block => [
    array(rawB, 2),
    array(highB, 2),
    array(lowB, 2),
    ...loadColumn(scope, p, tb, { column, depth0 }, words(rawB, int(0), 2)),
    splitWords(scope, rawB, [highB, lowB], 2, block),
    ...products.map(([a, b]) =>
      repeat(scope, 'row_tile', rowTiles, (row) => [
        {
          k: 'call',
          fn: 'multiply_tf32',
          args: [...results(row, column), ...words(a, mul(row, int(4)), 4), ...words(b, int(0), 2)],
        },
      ]),
    ),
  ]
  out.push(
    repeat(scope, 'step', p.depthSize / depthOfStep, (step) => {
      const depth0 = mul(step, int(depthOfStep))
      return [
        ...[raw, high, low].map((name) => array(name, rowTiles * 4)),
        repeat(scope, 'row_tile', rowTiles, (row) =>
          loadRows(scope, p, ta, { row, depth0 }, words(raw, mul(row, int(4)), 4)),
        ),
        splitWords(scope, raw, [high, low], rowTiles * 4, block),
        repeat(scope, 'column_tile', columnTiles, (column) => ofColumn(column, depth0)),
      ]
    }),
  )
  closeBlock(scope, acc, p, tiles, block, out)
}

/**
 * The same by groups of four warps: rows are split in registers, columns into tiles, upper terms before lower ones; the products run while the next
 * block's copies start.
 */
export function multiplySplitInGroups(
  scope: Scope,
  acc: Accumulator,
  p: Product,
  { count, pieces }: NonNullable<Product['groups']>,
  tiles: SplitTiles,
  out: Block,
): void {
  const { unit } = scope
  out.push({
    k: 'comment',
    text: `dot %${p.dot} on tensor cores in three products: ${count} groups of warps, ${pieces} x 64 rows each`,
  })
  const block = openBlock(scope, acc, p, out)
  const columns = splitColumns(scope, p, 128 * count, tiles[1], block, out)
  const steps = p.depthSize / depthOfStep
  const fragments = 4 * steps * pieces
  const [raw, high, low] = ['raw', 'high', 'low'].map((wish) => unit.name(`${wish}_${p.dot}`)) as [
    string,
    string,
    string,
  ]
  const fragment = (piece: Ex, step: Ex): Ex => mul(add(mul(piece, int(steps)), step), int(4))
  const each = (make: (piece: Ex, step: Ex) => Block): Block[number] =>
    repeat(scope, 'piece', pieces, (piece) => [repeat(scope, `${p.depth}_step`, steps, (step) => make(piece, step))])
  out.push(...[raw, high, low].map((name) => array(name, fragments)))
  out.push(
    each((row, step) =>
      loadRows(scope, p, tiles[0], { row, depth0: mul(step, int(depthOfStep)) }, words(raw, fragment(row, step), 4)),
    ),
  )
  out.push(splitWords(scope, raw, [high, low], fragments, block))
  const plain = (fn: string, ...args: Ex[]): Block[number] => ({ k: 'call', fn, args })
  const address = (of: string, index: Ex): Ex => ({ k: 'address', type: 'u32', of, index })
  out.push(plain('tile_written'), { k: 'barrier' }, plain('group_begin'))
  const registers = acc.values.length / pieces
  const fn = `multiply_rows_tf32_${p.columnSize}`
  // In a panel of the depth a step is 16 elements of a row.
  const multiply = (piece: Ex, step: number, rows: string, lower: boolean, name: string): Block[number] =>
    plain(
      name,
      address(block.sums, mul(piece, int(registers))),
      ...words(rows, fragment(piece, int(step)), 4),
      address(columns, int((lower ? p.columnSize * panelElements : 0) + step * 16)),
    )
  out.push(
    repeat(scope, 'piece', pieces, (piece) =>
      Array.from({ length: steps }, (_, step) => [
        multiply(piece, step, low, false, step === 0 ? `${fn}_begin` : fn),
        multiply(piece, step, high, true, fn),
        multiply(piece, step, high, false, fn),
      ]).flat(),
    ),
  )
  out.push(plain('group_commit'), ...(unit.meanwhile.get(p.dot) ?? []), plain('group_wait'))
  unit.meanwhile.delete(p.dot)
  out.push(plain(`hold_${acc.values.length}`, address(block.sums, int(0))))
  out.push(...[high, low].map((name) => plain(`keep_${fragments}`, address(name, int(0)))))
  closeBlock(scope, acc, p, tiles, block, out)
}

/** Splits a staged tile into panels of its upper and of its lower terms, four words of the depth at a time; gives the array. */
function splitColumns(
  scope: Scope,
  p: Product,
  threads: number,
  from: SharedTile,
  { least }: SplitBlock,
  out: Block,
): string {
  const { type, length, align } = splitTiles(p)
  invariant(p.depthSize * p.halves === panelElements, 'a depth of operands that are split is a panel')
  const to = scope.unit.share(`split_${p.dot}`, type, length, { half: true, ...(align === undefined ? {} : { align }) })
  const pieces = panelElements / 8
  const atOnce = threads / p.columnSize
  const column = bin('&', tid, int(p.columnSize - 1))
  const first = bin('>>', tid, uint(Math.log2(p.columnSize)))
  const address = (index: Ex): Ex => ({ k: 'address', type: 'u32', of: to.name, index })
  out.push(
    repeat(scope, 'piece', pieces / atOnce, (i) => {
      const piece = add(mul(i, int(atOnce)), first)
      // 16 bytes are permuted by the row (swizzle.ts).
      const at = add(mul(column, int(panelElements)), mul(bin('^', piece, bin('&', column, int(7))), int(8)))
      const source = place(p, from, column, mul(piece, int(4)))
      const apart = isDepthLast(p, from) ? [] : [int(from.strides[0] ?? 1)]
      return [
        {
          k: 'call',
          fn: apart.length === 0 ? 'split_row' : 'split_column',
          args: [address(at), address(add(at, int(p.columnSize * panelElements))), source, ...apart, least],
        },
      ]
    }),
  )
  return to.name
}
