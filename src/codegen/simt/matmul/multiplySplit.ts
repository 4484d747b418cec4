/**
 * Products of f32 on tensor cores whose operands are split into sums of two numbers of tf32 (`tf32x3`, docs/numerics.md): of the four products
 * of their terms the three largest are summed. A block of the depth is summed from zero, so that the unit's accumulators, which
 * truncate, leave it soon; what they have is added to the running sums in f32. Where an operand is not split exactly enough (it is not finite,
 * close to the greatest number, or tiny), or the sum is not finite, the warp sums that block's products again in f32.
 */
import type { Product } from '../../../schedule/simt/part/product.ts'
import { add, type Block, bin, bitcast, call, type Ex, elem, int, lit, lt, mul, not, uint, v } from '../ir/ir.ts'
import { type Lanes, registerAt, registerIndex } from '../ir/registers.ts'
import { digitOf, type Scope, type SharedTile, tid } from '../nest/scope.ts'
import type { Accumulator } from '../reduce/open.ts'

/** The least magnitude that is split exactly enough: the lower term of a lesser one may be subnormal. */
const leastSplit = 2 ** -100

/** The depth of one instruction. */
const depthOfStep = 8

/** Adds the product of two staged tiles to the accumulator. */
export function multiplySplit(
  scope: Scope,
  acc: Accumulator,
  p: Product,
  [ta, tb]: readonly [SharedTile, SharedTile],
  out: Block,
): void {
  const { unit, layout } = scope
  const rowTiles = layout.axis(p.rows).reps / 2
  const columnTiles = layout.axis(p.columns).reps
  const name = (wish: string): string => unit.name(`${wish}_${p.dot}`)
  const [raw, high, low] = [name('raw'), name('high'), name('low')]
  const [rawB, highB, lowB] = [name('raw'), name('high'), name('low')]
  const [sums, least, other] = [name('block'), v('f32', name('least')), v('f32', name('apart'))]
  const word = (array: string, i: Ex): Ex => elem('u32', array, i)
  const words = (array: string, from: Ex, n: number): Ex[] =>
    Array.from({ length: n }, (_, i) => word(array, add(from, int(i))))
  const array = (of: string, length: number): Block[number] => ({ k: 'array', name: of, type: 'u32', length })
  const loop = (wish: string, count: number, make: (i: Ex) => Block): Block[number] => {
    const i = unit.name(wish)
    return { k: 'for', name: i, from: int(0), to: int(count), step: 1, unroll: true, body: make(v('i32', i)) }
  }
  const split = (from: string, to: readonly [string, string], count: number): Block[number] =>
    loop('word', count, (i) => [
      { k: 'call', fn: 'split_tf32', args: [word(to[0], i), word(to[1], i), word(from, i), least] },
    ])
  const sum = (lanes: Lanes): Ex => elem('f32', sums, registerIndex(layout, acc.kept, lanes))
  const results = (row: Ex, column: Ex): Ex[] =>
    [0, 1, 2, 3].map((n) =>
      sum(
        new Map([
          [p.rows, { rep: add(mul(row, int(2)), int(n >> 1)), lane: int(0) }],
          [p.columns, { rep: column, lane: int(n & 1) }],
        ]),
      ),
    )
  const length = acc.values.length
  const zero = (): Block[number] =>
    loop('result', length, (i) => [{ k: 'assign', to: elem('f32', sums, i), value: lit('f32', 0) }])
  out.push({
    k: 'comment',
    text: `dot %${p.dot} on tensor cores in three products: ${rowTiles} x ${columnTiles} tiles of 16 x 8 a warp`,
  })
  out.push({ k: 'array', name: sums, type: 'f32', length }, zero())
  out.push({ k: 'var', name: nameOf(least), type: 'f32', value: lit('f32', 1) })
  out.push(
    loop('step', p.depthSize / depthOfStep, (step) => {
      const depth0 = mul(step, int(depthOfStep))
      const inner = (column: Ex): Block => [
        array(rawB, 2),
        array(highB, 2),
        array(lowB, 2),
        ...loadColumn(scope, p, tb, { column, depth0 }, words(rawB, int(0), 2)),
        split(rawB, [highB, lowB], 2),
        // The lesser products first.
        ...(
          [
            [low, highB],
            [high, lowB],
            [high, highB],
          ] as const
        ).map(([a, b]) =>
          loop('row_tile', rowTiles, (row) => [
            {
              k: 'call',
              fn: 'multiply_tf32',
              args: [...results(row, column), ...words(a, mul(row, int(4)), 4), ...words(b, int(0), 2)],
            },
          ]),
        ),
      ]
      return [
        array(raw, rowTiles * 4),
        array(high, rowTiles * 4),
        array(low, rowTiles * 4),
        loop('row_tile', rowTiles, (row) => loadRows(scope, p, ta, { row, depth0 }, words(raw, mul(row, int(4)), 4))),
        split(raw, [high, low], rowTiles * 4),
        loop('column_tile', columnTiles, inner),
      ]
    }),
  )
  // Zero times a sum that is not finite is no number.
  out.push({ k: 'var', name: nameOf(other), type: 'f32', value: lit('f32', 0) })
  out.push(
    loop('result', length, (i) => [
      { k: 'assign', to: other, value: add(mul(elem('f32', sums, i), lit('f32', 0)), other) },
    ]),
  )
  const isApart = bin('||', not(bin('==', other, lit('f32', 0))), lt(least, lit('f32', leastSplit)))
  const again: Block = [zero(), ...sumInOrder(scope, p, [ta, tb], sum)]
  out.push({ k: 'if', cond: call('bool', 'any_lane', isApart), body: again, otherwise: [] })
  out.push(
    loop('result', length, (i) => [
      { k: 'assign', to: registerAt(acc.values, i), value: add(registerAt(acc.values, i), elem('f32', sums, i)) },
    ]),
  )
}

/** The first element of an 8-wide block of an axis that a warp holds at a repeat, relative to the tile. */
function blockOf(scope: Scope, axis: string, laneBits: number, rep: Ex): Ex {
  const warps = scope.layout.axis(axis).bits.slice(laneBits)
  return mul(add(mul(rep, int(2 ** warps.length)), digitOf(warps)), int(8))
}

/** Where an element of an operand stands, by its index along its side of the result and along the depth. */
function place(p: Product, tile: SharedTile, side: Ex, depth: Ex): Ex {
  const [first = 1, second = 1] = tile.strides
  const [x, y] = isDepthLast(p, tile) ? [side, depth] : [depth, side]
  const index = add(add(mul(x, int(first)), mul(y, int(second))), tile.offset ?? int(0))
  return { k: 'address', type: 'u32', of: tile.array.name, index }
}

const isDepthLast = (p: Product, tile: SharedTile): boolean => tile.axes[1] === p.depth

const bit = (b: number): Ex => bin('&', bin('>>', tid, uint(b)), int(1))
const lane8 = bin('&', tid, int(7))
/** The lane's place in groups of four, and the number of its group. */
const lane4 = bin('&', tid, int(3))
const group = bin('&', bin('>>', tid, uint(2)), int(7))

/** A fragment of 16 rows and 8 of the depth (PTX ISA, "Matrix Fragments for mma.m16n8k8"). */
function loadRows(
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
function loadColumn(
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
function sumInOrder(
  scope: Scope,
  p: Product,
  [ta, tb]: readonly [SharedTile, SharedTile],
  sum: (lanes: Lanes) => Ex,
): Block {
  const { unit, layout } = scope
  const depth = v('i32', unit.name(p.depth))
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
  return [{ k: 'for', name: nameOf(depth), from: int(0), to: int(p.depthSize), step: 1, unroll: false, body }]
}

const nameOf = (e: Ex): string => (e.k === 'var' ? e.name : '')
