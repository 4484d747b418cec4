/**
 * What products of f32 whose operands are split (`tf32x3`) share, by single warps and by groups of them: where elements of tiles stand, fragments,
 * and a block's sums, which begin at zero, are tested, and are added to the running ones.
 */
import type { Product } from '../../../schedule/simt/part/product.ts'
import { add, type Block, bin, bitcast, call, type Ex, elem, int, lit, lt, mul, not, uint, v } from '../ir/ir.ts'
import { type Lanes, registerAt, registerIndex } from '../ir/registers.ts'
import { digitOf, type Scope, type SharedTile, tid } from '../nest/scope.ts'
import type { Accumulator } from '../reduce/open.ts'

/** The least magnitude that is split exactly enough: the lower term of a lesser one may be subnormal. */
const leastSplit = 2 ** -100

/** The depth of one instruction. */
export const depthOfStep = 8

/** Both operands of a product in shared memory. */
export type SplitTiles = readonly [SharedTile, SharedTile]

/** Loops of registers, whose bodies are repeated in place. */
export function repeat(scope: Scope, wish: string, count: number, make: (i: Ex) => Block): Block[number] {
  const name = scope.unit.name(wish)
  return { k: 'for', name, from: int(0), to: int(count), step: 1, unroll: true, body: make(v('i32', name)) }
}

/** A block of the depth: its sums, and the least magnitude (one less in its last place) that was split and is not zero. */
export interface SplitBlock {
  readonly sums: string
  readonly least: Ex
}

/** Begins a block; its sums have no values yet. */
export function openBlock(scope: Scope, acc: Accumulator, p: Product, out: Block): SplitBlock {
  const [sums, least] = [scope.unit.name(`block_${p.dot}`), scope.unit.name(`least_${p.dot}`)]
  out.push({ k: 'array', name: sums, type: 'f32', length: acc.values.length })
  out.push({ k: 'var', name: least, type: 'f32', value: lit('f32', 1) })
  return { sums, least: v('f32', least) }
}

/** Sums that begin at zero. */
export const zeroSums = (scope: Scope, acc: Accumulator, { sums }: SplitBlock): Block[number] =>
  repeat(scope, 'result', acc.values.length, (i) => [{ k: 'assign', to: elem('f32', sums, i), value: lit('f32', 0) }])

/** Splits words into their upper and lower terms. */
export const splitWords = (
  scope: Scope,
  from: string,
  to: readonly [string, string],
  count: number,
  { least }: SplitBlock,
): Block[number] =>
  repeat(scope, 'word', count, (i) => [
    {
      k: 'call',
      fn: 'split_tf32',
      args: [elem('u32', to[0], i), elem('u32', to[1], i), elem('u32', from, i), least],
    },
  ])

/** Adds a block's sums to the running ones; those that were not split exactly enough, or are not finite, are summed in f32 before. */
export function closeBlock(
  scope: Scope,
  acc: Accumulator,
  p: Product,
  tiles: SplitTiles,
  block: SplitBlock,
  out: Block,
): void {
  const { length } = acc.values
  const name = scope.unit.name(`apart_${p.dot}`)
  const apart = v('f32', name)
  const sum = (i: Ex): Ex => elem('f32', block.sums, i)
  // Zero times a sum that is not finite is no number.
  out.push({ k: 'var', name, type: 'f32', value: lit('f32', 0) })
  out.push(
    repeat(scope, 'result', length, (i) => [{ k: 'assign', to: apart, value: add(mul(sum(i), lit('f32', 0)), apart) }]),
  )
  const isApart = bin('||', not(bin('==', apart, lit('f32', 0))), lt(block.least, lit('f32', leastSplit)))
  const at = (lanes: Lanes): Ex => sum(registerIndex(scope.layout, acc.kept, lanes))
  const again = [zeroSums(scope, acc, block), sumInOrder(scope, p, tiles, at)]
  out.push({ k: 'if', cond: call('bool', 'any_lane', isApart), body: again, otherwise: [] })
  out.push(
    repeat(scope, 'result', length, (i) => [
      { k: 'assign', to: registerAt(acc.values, i), value: add(registerAt(acc.values, i), sum(i)) },
    ]),
  )
}

/** The first element of an 8-wide block of an axis that a warp holds at a repeat, relative to the tile. */
export function blockOf(scope: Scope, axis: string, laneBits: number, rep: Ex): Ex {
  const { bits, pairAbove } = scope.layout.axis(axis)
  const warps = bits.slice(laneBits)
  if (pairAbove === undefined) return mul(add(mul(rep, int(2 ** warps.length)), digitOf(warps)), int(8))
  const pair = add(mul(bin('>>', rep, uint(1)), int(2 ** warps.length)), digitOf(warps))
  return mul(add(mul(pair, int(2)), bin('&', rep, int(1))), int(8))
}

/** Where an element of an operand stands, by its index along its side of the result and along the depth. */
export function place(p: Product, tile: SharedTile, side: Ex, depth: Ex): Ex {
  const [first = 1, second = 1] = tile.strides
  const [x, y] = isDepthLast(p, tile) ? [side, depth] : [depth, side]
  const index = add(add(mul(x, int(first)), mul(y, int(second))), tile.offset ?? int(0))
  return { k: 'address', type: 'u32', of: tile.array.name, index }
}

export const isDepthLast = (p: Product, tile: SharedTile): boolean => tile.axes[1] === p.depth

const bit = (b: number): Ex => bin('&', bin('>>', tid, uint(b)), int(1))
const lane8 = bin('&', tid, int(7))
/** The lane's place in groups of four, and the number of its group. */
const lane4 = bin('&', tid, int(3))
const group = bin('&', bin('>>', tid, uint(2)), int(7))

/** A fragment of 16 rows and 8 of the depth (PTX ISA, "Matrix Fragments for mma.m16n8k8"). */
export function loadRows(
  scope: Scope,
  p: Product,
  tile: SharedTile,
  at: { readonly row: Ex; readonly depth0: Ex },
  to: readonly Ex[],
): Block {
  const rows = (half: Ex): Ex => blockOf(scope, p.rows, 3, add(mul(at.row, int(2)), half))
  if (isDepthLast(p, tile)) {
    const from = place(p, tile, add(rows(bit(3)), lane8), add(at.depth0, mul(bit(4), int(4))))
    return [{ k: 'call', fn: 'load_matrices', args: [...to, from] }]
  }
  return to.map((word, n) => {
    const from = place(p, tile, add(rows(int(n & 1)), group), add(add(at.depth0, lane4), int(4 * (n >> 1))))
    return { k: 'assign', to: word, value: call('u32', 'tile_word', from) }
  })
}

/** A fragment of 8 of the depth and 8 columns. */
export function loadColumn(
  scope: Scope,
  p: Product,
  tile: SharedTile,
  at: { readonly column: Ex; readonly depth0: Ex },
  to: readonly Ex[],
): Block {
  const column = add(blockOf(scope, p.columns, 2, at.column), group)
  return to.map((word, n) => {
    const from = place(p, tile, column, add(add(at.depth0, lane4), int(4 * n)))
    return { k: 'assign', to: word, value: call('u32', 'tile_word', from) }
  })
}

/** The block's products in f32, in the order of the depth. */
function sumInOrder(scope: Scope, p: Product, [ta, tb]: SplitTiles, sum: (lanes: Lanes) => Ex): Block[number] {
  const { unit, layout } = scope
  const name = unit.name(p.depth)
  const depth = v('i32', name)
  const [rows, columns] = [layout.axis(p.rows).reps, layout.axis(p.columns).reps]
  const [xs, ys] = [unit.name('row_values'), unit.name('column_values')]
  const value = (from: Ex): Ex => bitcast('f32', call('u32', 'tile_word', from))
  const read = (to: string, i: number, from: Ex): Block[number] => ({
    k: 'assign',
    to: elem('f32', to, int(i)),
    value: value(from),
  })
  const body: Block = [
    { k: 'array', name: xs, type: 'f32', length: rows },
    { k: 'array', name: ys, type: 'f32', length: 2 * columns },
  ]
  for (let i = 0; i < rows; i++)
    body.push(read(xs, i, place(p, ta, add(blockOf(scope, p.rows, 3, int(i)), group), depth)))
  for (let i = 0; i < 2 * columns; i++) {
    const column = add(blockOf(scope, p.columns, 2, int(i >> 1)), add(mul(lane4, int(2)), int(i & 1)))
    body.push(read(ys, i, place(p, tb, column, depth)))
  }
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < 2 * columns; j++) {
      const to = sum(
        new Map([
          [p.rows, { rep: int(i), lane: int(0) }],
          [p.columns, { rep: int(j >> 1), lane: int(j & 1) }],
        ]),
      )
      const product = mul(elem('f32', xs, int(i)), elem('f32', ys, int(j)))
      body.push({ k: 'assign', to, value: add(product, to) })
    }
  return { k: 'for', name, from: int(0), to: int(p.depthSize), step: 1, unroll: false, body }
}
