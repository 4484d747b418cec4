/** The code of matrix products on vectors of four (vectorProduct.ts has the layout): their tiles, filling them, multiplying them. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { threadsOf } from '../../../schedule/simt/layout/layout.ts'
import { halvesOfGroup } from '../../../schedule/simt/part/subgroupMatrices.ts'
import {
  lanes as four,
  operandOf,
  swizzledVectors,
  type VectorOperand,
  type VectorProduct,
} from '../../../schedule/simt/part/vectorProduct.ts'
import { add, and, type Block, bin, type Ex, int, lit, mul, select, uint, v, when } from '../ir/ir.ts'
import { type Lanes, registerAt, registerIndex, withLane } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import { digitOf, inside, placeIn, type Scope, type SharedTile, withinTile } from '../nest/scope.ts'
import type { SlicedTiles } from '../nest/slices.ts'
import type { Accumulator } from '../reduce/open.ts'
import { castEx } from '../scalar/arith.ts'
import { putGroup } from './multiplyMatrices.ts'
import { type Vectors, vectorsOf } from './operandVectors.ts'

/** The index of an axis at a point, counted from the program's first, or from that of its chunk. */
function placeAlong(scope: Scope, axis: string, lanes: Lanes, inChunk: boolean): Ex {
  const a = scope.layout.find(axis)
  if (a === undefined) return int(0)
  if (a.chunks > 1 && !inChunk) return placeIn(scope, axis, lanes)
  const { rep, lane } = lanes.get(axis) ?? { rep: int(0), lane: int(0) }
  return add(mul(digitOf(a.bits), int(a.vec)), add(mul(rep, int(threadsOf(a) * a.vec)), lane))
}

/** What the number of a row's vector is combined with where a tile is swizzled, by that of four rows; undefined elsewhere. */
function swizzleOf(o: VectorOperand | undefined, { array }: SharedTile, fours: Ex): Ex | undefined {
  const vectors = (array.pitch ?? four) / four
  const among = Math.min(swizzledVectors, vectors & -vectors)
  return o?.swizzled === undefined || among < 2 ? undefined : bin('&', fours, int(among - 1))
}

/** Writes a vector of a tile, or single elements, or a group of halves for matrices: outside the range of the depth it is zero. */
export function fillVectors(
  p: Point,
  product: VectorProduct,
  of: ValueId,
  stage: ValueId,
  to: SharedTile,
  axis: string | undefined,
  out: Block,
): void {
  const { scope, lanes } = p
  const at = (lane: number): Lanes => (axis === undefined ? lanes : withLane(lanes, axis, lane))
  const sliced = scope.part.slicesOf(stage)?.axis
  const value = (lane: number): Ex => {
    const point = new Point(scope, at(lane), p.here)
    const x = castEx(scope.part.dtypeOf(of), 'f32', point.read(of))
    return select(inside(scope, product.depth, at(lane)), x, lit('f32', 0))
  }
  const place = (from: number, end: number, lane: number): Ex =>
    to.axes.slice(from, end).reduce<Ex>((sum, a, i) => {
      return add(sum, mul(placeAlong(scope, a, at(lane), a === sliced), int(to.strides[from + i] ?? 0)))
    }, int(0))
  const rows = product.depth.length
  const across = (lane: number): Ex => place(rows, to.axes.length, lane)
  const row = place(0, rows, 0)
  const turn = swizzleOf(operandOf(product, stage), to, bin('>>', row, uint(2)))
  const turned = (at: Ex): Ex => turnedBy(turn === undefined ? undefined : mul(turn, int(four)), at)
  const body: Block = []
  const n = axis === undefined ? 1 : scope.layout.axis(axis).vec
  const each = product.onMatrices ? halvesOfGroup : four
  for (let i = 0; i < n; i += each) {
    if (n === 1) {
      invariant(!product.onMatrices, 'a single half is written into a tile for matrices')
      body.push({ k: 'vector', of: { op: 'put', array: to.array, row, at: turned(across(0)), value: value(0) } })
      continue
    }
    const values = Array.from({ length: each }, (_, lane) => value(i + lane))
    if (product.onMatrices) body.push(putGroup(to, place(0, rows, i), across(i), values))
    else body.push({ k: 'vector', of: { op: 'write', array: to.array, row, at: turned(across(i)), values } })
  }
  const whole = to.axes.filter((a) => a !== sliced)
  const cond = and(scope.owner(to.axes), ...whole.map((a) => withinTile(scope, a, at(0))))
  out.push(...when(cond, body))
}

const turnedBy = (turn: Ex | undefined, at: Ex): Ex => (turn === undefined ? at : bin('^', at, turn))

/** Adds the product of two staged tiles to the accumulator; `slices`: those that it fills itself. */
export function multiplyVectors(
  scope: Scope,
  acc: Accumulator,
  p: VectorProduct,
  slices: SlicedTiles | undefined,
  out: Block,
): void {
  const { unit, layout, part } = scope
  const tile = (id: ValueId): SharedTile => {
    const t = slices?.tiles.get(id) ?? scope.held.get(id)
    invariant(t?.kind === 'shared', 'the operands of a product are not staged')
    return t
  }
  const [ta, tb] = [tile(p.a.stage), tile(p.b.stage)]
  const depth = p.slices?.size ?? p.depth.reduce((n, x) => n * part.axis(x).size, 1)
  if (slices === undefined) out.push({ k: 'barrier' })
  const [va, vb] = [vectorsOf(scope, p.a, out), vectorsOf(scope, p.b, out)]
  out.push({
    k: 'comment',
    text: `dot %${p.dot}: ${va.repeats.length} x ${vb.repeats.length} blocks of ${four} x ${four} a thread`,
  })
  const component = (of: string, at: number): Ex => ({ k: 'comp', type: 'f32', of, words: four, at })
  // Sums: a vector along the columns for every row and repeat of columns.
  const sums = va.repeats.flatMap((rows, i) =>
    Array.from({ length: four }, (_, lane) =>
      vb.repeats.map((columns, j) => ({
        name: unit.name(`sum_${i * four + lane}_${j}`),
        i,
        lane,
        j,
        registers: Array.from({ length: four }, (_, n) => {
          const at: Lanes = new Map([...withLane(rows, p.a.vector, lane), ...withLane(columns, p.b.vector, n)])
          return registerAt(acc.values, registerIndex(layout, acc.kept, at))
        }),
      })),
    ).flat(),
  )
  for (const s of sums) out.push({ k: 'vector', of: { op: 'var', name: s.name, values: s.registers } })
  const names = (wish: string, of: Vectors): string[] => of.repeats.map((_, i) => unit.name(`${wish}_${p.dot}_${i}`))
  const [as, bs] = [names('a', va), names('b', vb)]
  const slice = p.slices === undefined ? '' : unit.name('slice')
  /** Rows of an operand's tile before the slice: of one that has all of the depth. */
  const before = (o: VectorOperand): number =>
    p.slices === undefined || p.slices.stages.has(o.stage) ? 0 : p.slices.size
  const read = (o: VectorOperand, t: SharedTile, at: Ex, name: string, row: Ex, fours: Ex): Block[number] => {
    const first = mul(v('i32', slice), int(before(o)))
    const turn = swizzleOf(o, t, add(mul(v('i32', slice), int(before(o) / four)), fours))
    return { k: 'vector', of: { op: 'read', name, array: t.array, row: add(first, row), at: turnedBy(turn, at) } }
  }
  /** Of an index of the depth, and the number of four of them that it is in. */
  const step = (row: Ex, fours: Ex): Block => [
    ...as.map((name, i) => read(p.a, ta, va.at(i), name, row, fours)),
    ...bs.map((name, i) => read(p.b, tb, vb.at(i), name, row, fours)),
    ...sums.map(({ name, i, lane, j }): Block[number] => ({
      k: 'vector',
      of: { op: 'multiplyAdd', to: name, a: component(as[i] ?? '', lane), b: bs[j] ?? '' },
    })),
  ]
  const inner = unit.name('step')
  const repeated = (from: Ex): Block[number] => ({
    k: 'for',
    name: inner,
    from: int(0),
    to: int(p.unroll),
    step: 1,
    unroll: true,
    body: step(
      add(from, v('i32', inner)),
      p.unroll % four === 0
        ? add(bin('>>', from, uint(2)), bin('>>', v('i32', inner), uint(2)))
        : bin('>>', add(from, v('i32', inner)), uint(2)),
    ),
  })
  const multiply = (to: Block): void => {
    if (p.unroll === depth) to.push(repeated(int(0)))
    else {
      const row = unit.name('row')
      const body = [repeated(v('i32', row))]
      to.push({ k: 'for', name: row, from: int(0), to: int(depth), step: p.unroll, unroll: false, body })
    }
  }
  if (p.slices === undefined || slices === undefined) multiply(out)
  else {
    // The slice before has been read, what others staged is there.
    const body: Block = [{ k: 'barrier' }]
    slices.fill(v('i32', slice), body)
    body.push({ k: 'barrier' })
    multiply(body)
    out.push({ k: 'for', name: slice, from: int(0), to: int(p.slices.count), step: 1, unroll: false, body })
  }
  for (const s of sums)
    s.registers.forEach((to, n) => {
      out.push({ k: 'assign', to, value: component(s.name, n) })
    })
}
