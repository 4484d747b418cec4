/**
 * Products on tensor cores whose columns a thread computes as the fragments that it multiplies (partLayout.ts has their layout). Of the depth a thread
 * has a run: an instruction takes two pairs of neighbours of it as what the PTX ISA calls numbers 2 c, 2 c + 1 and 2 c + 8, 2 c + 9 of the depth, of
 * columns and of rows alike, so the sum is over the same pairs of factors.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { TilePlan } from '../../../schedule/simt/access/tiles.ts'
import type { Product } from '../../../schedule/simt/part/product.ts'
import { add, type Block, bin, call, type Ex, elem, int, lit, mul, select, uint, v } from '../ir/ir.ts'
import { type Lanes, registerAt, registerIndex, withLane } from '../ir/registers.ts'
import { packedWord } from '../memory/packedPairs.ts'
import { Point } from '../nest/point.ts'
import { digitOf, type Fragments, inside, type Scope, type SharedTile, tid } from '../nest/scope.ts'
import type { Accumulator } from '../reduce/open.ts'
import type { Unit } from '../unit.ts'

/** Words of two elements that a thread reads of a row at a time, and instructions that take them. */
const wordsOfRun = 4
const stepsOfRun = 2

/** Registers for fragments. */
export function openFragments(unit: Unit, { let: l, length, strides, form }: TilePlan, out: Block): Fragments {
  const name = unit.name(`fragments_${l.id}`)
  out.push({ k: 'array', name, type: 'u32', length })
  const apart = form.kind === 'fragments' && form.packed !== undefined
  return { kind: 'fragments', name, run: strides[0] ?? 0, apart }
}

/** Writes the run of a column at a point: what lies outside the range is zero. */
export function fillFragments(p: Point, of: number, { let: l, axes, form }: TilePlan, out: Block): void {
  const { scope, lanes } = p
  const to = scope.held.get(l.id)
  invariant(to?.kind === 'fragments' && form.kind === 'fragments', 'there is no room for fragments')
  const { columns, depth, dtype } = form.product
  const { packed } = form
  const there = (lane: number): Ex => inside(scope, axes, withLane(lanes, depth, lane))
  const point = (lane: number): Point => new Point(scope, withLane(lanes, depth, lane), p.here)
  const pair = (low: number, high: number): Ex => {
    if (packed === undefined || dtype === 'tf32') {
      const value = (lane: number): Ex => select(there(lane), point(lane).read(of), lit('f32', 0))
      return call('u32', `${dtype}_pair`, value(low), value(high))
    }
    return packedWord(packed, dtype, [point(low), point(high)], [there(low), there(high)])
  }
  const first = mul(lanes.get(columns)?.rep ?? int(0), int(to.run))
  for (let i = 0; i < to.run; i++)
    out.push({
      k: 'assign',
      to: elem('u32', to.name, add(first, int(i))),
      value: to.apart ? pair(...pairApart(i)) : pair(2 * i, 2 * i + 1),
    })
}

/** Numbers of the depth in a word, four apart in a run of eight: of four bits each, both are in their places when their word is shifted once. */
const pairApart = (word: number): readonly [number, number] => {
  const first = Math.floor(word / wordsOfRun) * 2 * wordsOfRun + (word % wordsOfRun)
  return [first, first + wordsOfRun]
}

/** The number of a warp among those that share a step's depth. */
export const warpOfDepth = ({ warpsOfDepth = 1 }: Product): Ex =>
  digitOf(Array.from({ length: Math.log2(warpsOfDepth) }, (_, i) => 5 + i))

/** Adds the product of rows in a tile, the depth side by side, and of columns in fragments to the accumulator. */
export function multiplyFragments(
  scope: Scope,
  acc: Accumulator,
  p: Product,
  rows: SharedTile,
  columns: Fragments,
  out: Block,
): void {
  const { unit, layout } = scope
  const rowTiles = layout.axis(p.rows).reps / 2
  const columnTiles = layout.axis(p.columns).reps
  const [pitch = 1, apart = 1] = rows.strides
  invariant(rows.axes[1] === p.depth && apart === 1, 'the depth of rows does not lie side by side')
  const [run, row, column] = ['run', 'row_tile', 'column_tile'].map((wish) => v('i32', unit.name(wish)))
  invariant(run?.k === 'var' && row?.k === 'var' && column?.k === 'var', 'loops have names')
  const fa = unit.name(`a_${p.dot}`)
  const at = (i: Ex): Ex => elem('u32', fa, i)
  const loop = (x: { readonly name: string }, count: number, body: Block): Block[number] => ({
    k: 'for',
    name: x.name,
    from: int(0),
    to: int(count),
    step: 1,
    unroll: true,
    body,
  })
  const ofDepth = add(bin('&', tid, int(3)), mul(warpOfDepth(p), int(4)))
  const depth = add(mul(ofDepth, int(2 * columns.run)), mul(run, int(2 * wordsOfRun)))
  const lane = bin('&', bin('>>', tid, uint(2)), int(7))
  const load = [0, 1].map((half): Block[number] => {
    const warps = layout.axis(p.rows).bits.slice(3)
    const block = add(mul(add(mul(row, int(2)), int(half)), int(2 ** warps.length)), digitOf(warps))
    const index = add(add(mul(add(mul(block, int(8)), lane), int(pitch)), depth), rows.offset ?? int(0))
    const to = add(mul(row, int(2 * wordsOfRun)), int(half * wordsOfRun))
    const words = Array.from({ length: wordsOfRun }, (_, i) => at(add(to, int(i))))
    const fn = columns.apart ? 'load_run_apart' : 'load_run'
    return { k: 'call', fn, args: [...words, { k: 'address', type: 'u32', of: rows.array.name, index }] }
  })
  const lanes = (half: number, side: number): Lanes =>
    new Map([
      [p.rows, { rep: add(mul(row, int(2)), int(half)), lane: int(0) }],
      [p.columns, { rep: column, lane: int(side) }],
    ])
  const c = [0, 1, 2, 3].map((n) => registerAt(acc.values, registerIndex(layout, acc.kept, lanes(n >> 1, n & 1))))
  const multiply = Array.from({ length: stepsOfRun }, (_, s): Block[number] => {
    const first = add(mul(row, int(2 * wordsOfRun)), int(2 * s))
    const a = [0, wordsOfRun, 1, wordsOfRun + 1].map((i) => at(add(first, int(i))))
    const from = add(mul(column, int(columns.run)), add(mul(run, int(wordsOfRun)), int(2 * s)))
    const b = [0, 1].map((i) => elem('u32', columns.name, add(from, int(i))))
    return { k: 'call', fn: `multiply_${p.dtype}`, args: [...c, ...a, ...b] }
  })
  out.push({
    k: 'comment',
    text: `dot %${p.dot} on tensor cores: ${rowTiles} x ${columnTiles} tiles of 16 x 8 a warp, columns in fragments`,
  })
  const body: Block = [
    { k: 'array', name: fa, type: 'u32', length: rowTiles * 2 * wordsOfRun },
    loop(row, rowTiles, load),
    loop(row, rowTiles, [loop(column, columnTiles, multiply)]),
  ]
  out.push(loop(run, columns.run / wordsOfRun, body))
}
