/** The code of products by subgroups together (subgroupMatrices.ts has the plan): sums stand in matrices, and come to registers behind the loop. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { matricesOf } from '../../../schedule/simt/access/tiles.ts'
import {
  lanes,
  matrixSize,
  resultCells,
  resultPitch,
  type SubgroupMatrices,
} from '../../../schedule/simt/part/subgroupMatrices.ts'
import { lanes as four, type VectorOperand, type VectorProduct } from '../../../schedule/simt/part/vectorProduct.ts'
import { add, and, type Block, bin, type Ex, forLoop, int, lit, lt, mul, shared, v, when } from '../ir/ir.ts'
import { type Lanes, type Registers, registerAt, registerIndex, withLane } from '../ir/registers.ts'
import { type Scope, type SharedTile, tid } from '../nest/scope.ts'
import { divided } from '../scalar/quotient.ts'
import type { ResultMatrices } from '../unit.ts'
import { placeOfHalf, vectorsOf } from './operandVectors.ts'

const rest = (e: Ex, n: number): Ex =>
  n === 1 ? int(0) : Number.isInteger(Math.log2(n)) ? bin('&', e, int(n - 1)) : bin('%', e, int(n))

/** Rows and columns that a subgroup has. */
const rowsOf = ({ rows, down }: SubgroupMatrices): number => rows / down
const columnsOf = ({ columns, across }: SubgroupMatrices): number => columns / across

/** Declares matrices of zeros for the results of a product, before its loop. */
export function openMatrices(scope: Scope, p: VectorProduct, out: Block): ResultMatrices {
  const { unit, layout, part } = scope
  const m = matricesOf(p, part, layout)
  const warp = unit.name('subgroup')
  out.push({ k: 'let', name: warp, value: divided(tid, lanes) })
  const names = Array.from({ length: rowsOf(m) / matrixSize }, (_, i) =>
    Array.from({ length: columnsOf(m) / matrixSize }, (_, j) => unit.name(`sums_${p.dot}_${i}_${j}`)),
  )
  for (const name of names.flat()) out.push({ k: 'matrix', of: { op: 'zeros', name } })
  return { ...m, names, warp: v('i32', warp) }
}

/** What only subgroups with results of their own do. */
function forSubgroups({ threads }: Scope['layout'], m: ResultMatrices, body: Block): Block {
  return m.down * m.across === threads / lanes ? body : when(lt(m.warp, int(m.down * m.across)), body)
}

/** Adds the product of two staged tiles of halves to the matrices. */
export function multiplyMatrices(scope: Scope, p: VectorProduct, m: ResultMatrices, out: Block): void {
  const { unit, layout, part } = scope
  const tile = (id: ValueId): SharedTile => {
    const t = scope.held.get(id)
    invariant(t?.kind === 'shared', 'the operands of a product are not staged')
    return t
  }
  const depth = p.depth.reduce((n, x) => n * part.axis(x).size, 1)
  const [ta, tb] = [tile(p.a.stage), tile(p.b.stage)]
  for (const [t, span] of [
    [ta, m.rows],
    [tb, m.columns],
  ] as const)
    if (depth < m.depth) zeroDepth(scope, t, span, depth, m.depth, layout.threads, out)
  out.push({ k: 'barrier' })
  out.push({ k: 'comment', text: `dot %${p.dot}: ${m.names.length} x ${m.names[0]?.length} matrices a subgroup` })
  const row = mul(divided(m.warp, m.across), int(rowsOf(m)))
  const column = mul(rest(m.warp, m.across), int(columnsOf(m)))
  const [as, bs] = [
    m.names.map((_, i) => unit.name(`a_${p.dot}_${i}`)),
    (m.names[0] ?? []).map((_, j) => unit.name(`b_${p.dot}_${j}`)),
  ]
  const load = (name: string, side: 'left' | 'right', t: SharedTile, k: Ex, x: Ex): Block[number] => {
    const { array, depthLast } = t
    const byRows = (side === 'left') === (depthLast === true)
    return {
      k: 'matrix',
      of: { op: 'load', name, side, byRows, array, at: placeOfHalf(t, k, x), pitch: array.pitch ?? 1 },
    }
  }
  const step = (k: Ex): Block => [
    ...as.map((name, i) => load(name, 'left', ta, k, add(row, int(i * matrixSize)))),
    ...bs.map((name, j) => load(name, 'right', tb, k, add(column, int(j * matrixSize)))),
    ...m.names.flatMap((line, i) =>
      line.map((to, j): Block[number] => ({
        k: 'matrix',
        of: { op: 'multiplyAdd', to, a: as[i] ?? '', b: bs[j] ?? '' },
      })),
    ),
  ]
  const inner = unit.name('step')
  const counted = mul(v('i32', inner), int(matrixSize))
  out.push(
    ...forSubgroups(layout, m, [
      {
        k: 'for',
        name: inner,
        from: int(0),
        to: int(m.depth / matrixSize),
        step: 1,
        unroll: true,
        body: step(counted),
      },
    ]),
  )
}

/** Zeros in a tile behind the depth. */
function zeroDepth(
  { unit }: Scope,
  { array, depthLast }: SharedTile,
  span: number,
  from: number,
  to: number,
  threads: number,
  out: Block,
): void {
  const [pitch, more] = [array.pitch ?? 1, to - from]
  const name = unit.name('behind')
  const n = v('i32', name)
  const at = depthLast
    ? add(mul(bin('/', n, int(more)), int(pitch)), add(bin('%', n, int(more)), int(from)))
    : add(n, int(from * pitch))
  const body: Block = [{ k: 'matrix', of: { op: 'put', array, at, value: lit('f32', 0) } }]
  const count = depthLast ? span * more : more * pitch
  out.push(forLoop('i32', { name, from: tid, to: int(count), step: threads, body }))
}

/** Brings the results over `axes` to registers, behind the loop: of every subgroup one row of matrices after another. */
export function closeMatrices(
  scope: Scope,
  p: VectorProduct,
  axes: readonly string[],
  to: Registers,
  out: Block,
): void {
  const { layout, unit } = scope
  const m = unit.matrices.get(p.dot)
  invariant(m !== undefined, `the matrices of %${p.dot} are not open`)
  const cells = unit.scratch('f32', resultCells(m), '_matrix')
  const pitch = resultPitch(m)
  const down = divided(m.warp, m.across)
  const column = mul(rest(m.warp, m.across), int(columnsOf(m)))
  const [va, vb] = [vectorsOf(scope, p.a, out), vectorsOf(scope, p.b, out)]
  const at = (o: VectorOperand, x: Lanes, lane: number): Lanes => withLane(x, o.vector, lane)
  m.names.forEach((line, i) => {
    if (i > 0) out.push({ k: 'barrier' })
    out.push(
      ...forSubgroups(
        layout,
        m,
        line.map((name, j) => ({
          k: 'matrix',
          of: {
            op: 'store',
            name,
            array: cells,
            at: add(mul(down, int(matrixSize * pitch)), add(column, int(j * matrixSize))),
            pitch,
          },
        })),
      ),
      { k: 'barrier' },
    )
    va.repeats.forEach((rows, r) => {
      const first = mul(va.at(r), int(four))
      const inLine = rest(divided(first, matrixSize), rowsOf(m) / matrixSize)
      const place = add(mul(divided(first, rowsOf(m)), int(matrixSize)), rest(first, matrixSize))
      const body: Block = []
      vb.repeats.forEach((columns, c) => {
        for (let y = 0; y < four; y++)
          for (let x = 0; x < four; x++) {
            const point: Lanes = new Map([...at(p.a, rows, y), ...at(p.b, columns, x)])
            const cell = add(mul(add(place, int(y)), int(pitch)), add(mul(vb.at(c), int(four)), int(x)))
            body.push({
              k: 'assign',
              to: registerAt(to, registerIndex(layout, axes, point)),
              value: shared(cells, cell),
            })
          }
      })
      out.push(...when(and(bin('==', inLine, int(i))), body))
    })
  })
}
