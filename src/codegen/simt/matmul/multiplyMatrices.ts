/** The code of products by subgroups together (subgroupMatrices.ts has the plan): sums stand in matrices, and come to registers behind the loop. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { matricesOf, matrixArray } from '../../../schedule/simt/access/tiles.ts'
import {
  halvesOfGroup,
  lanes,
  matrixSize,
  resultPitch,
  rowsAtOnce,
  type SubgroupMatrices,
} from '../../../schedule/simt/part/subgroupMatrices.ts'
import { lanes as four, type VectorOperand, type VectorProduct } from '../../../schedule/simt/part/vectorProduct.ts'
import { add, type Block, bin, type Ex, forLoop, int, lit, lt, mul, type S, v, when } from '../ir/ir.ts'
import { type Lanes, type Registers, registerAt, registerIndex, withLane } from '../ir/registers.ts'
import { type Scope, type SharedTile, tid } from '../nest/scope.ts'
import { divided } from '../scalar/quotient.ts'
import type { ResultMatrices } from '../unit.ts'
import { type Vectors, vectorsOf } from './operandVectors.ts'

const rest = (e: Ex, n: number): Ex =>
  n === 1 ? int(0) : Number.isInteger(Math.log2(n)) ? bin('&', e, int(n - 1)) : bin('%', e, int(n))

/** Columns that a subgroup has. */
const columnsOf = ({ columns, across }: SubgroupMatrices): number => columns / across

/** Declares matrices of zeros for the results of a product, before its loop, and the array that its tiles stand in. */
export function openMatrices(scope: Scope, p: VectorProduct, out: Block): ResultMatrices {
  const { unit, layout, part } = scope
  const m = matricesOf(p, part, layout)
  const warp = unit.name('subgroup')
  out.push({ k: 'let', name: warp, value: divided(tid, lanes) })
  const names = Array.from({ length: m.rows / rowsAtOnce(m) }, (_, i) =>
    Array.from({ length: columnsOf(m) / matrixSize }, (_, j) => unit.name(`sums_${p.dot}_${i}_${j}`)),
  )
  for (const name of names.flat()) out.push({ k: 'matrix', of: { op: 'zeros', name } })
  const { type, length } = matrixArray(p, part, layout)
  const array = unit.share(`tiles_${p.dot}`, type, length, { inGroups: true })
  return { ...m, names, warp: v('i32', warp), array }
}

/** What only subgroups with results of their own do. */
function forSubgroups({ threads }: Scope['layout'], m: ResultMatrices, body: Block): Block {
  return m.down * m.across === threads / lanes ? body : when(lt(m.warp, int(m.down * m.across)), body)
}

/** The place of a half in a tile for matrices: of an index of the depth, and one along the results. */
function placeOf({ rows, offset = int(0) }: SharedTile, k: Ex, x: Ex): Ex {
  invariant(rows !== undefined, 'a tile without rows')
  const [line, along] = rows.depthLast ? [x, k] : [k, x]
  return add(offset, add(mul(line, int(rows.pitch)), along))
}

/** Writes a group of halves into a tile, from an index of the depth and one along the results. */
export const putGroup = (to: SharedTile, k: Ex, x: Ex, values: readonly Ex[]): S => ({
  k: 'matrix',
  of: { op: 'put', array: to.array, at: placeOf(to, k, x), values },
})

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
  zeroDepth(scope, ta, m.rows, depth, m.depth, out)
  zeroDepth(scope, tb, m.columns, depth, m.depth, out)
  out.push({ k: 'barrier' }, ...(unit.meanwhile.get(p.dot) ?? []))
  unit.meanwhile.delete(p.dot)
  out.push({ k: 'comment', text: `dot %${p.dot}: ${m.names.length} x ${m.names[0]?.length} matrices a subgroup` })
  const row = mul(divided(m.warp, m.across), int(matrixSize))
  const column = mul(rest(m.warp, m.across), int(columnsOf(m)))
  const [as, bs] = [
    m.names.map((_, i) => unit.name(`a_${p.dot}_${i}`)),
    (m.names[0] ?? []).map((_, j) => unit.name(`b_${p.dot}_${j}`)),
  ]
  const load = (name: string, side: 'left' | 'right', t: SharedTile, k: Ex, x: Ex): S => {
    const byRows = (side === 'left') === (t.rows?.depthLast === true)
    return {
      k: 'matrix',
      of: { op: 'load', name, side, byRows, array: t.array, at: placeOf(t, k, x), pitch: t.rows?.pitch ?? 1 },
    }
  }
  const step = (k: Ex): Block => [
    ...as.map((name, i) => load(name, 'left', ta, k, add(row, int(i * rowsAtOnce(m))))),
    ...bs.map((name, j) => load(name, 'right', tb, k, add(column, int(j * matrixSize)))),
    ...m.names.flatMap((line, i) =>
      line.map((to, j): S => ({ k: 'matrix', of: { op: 'multiplyAdd', to, a: as[i] ?? '', b: bs[j] ?? '' } })),
    ),
  ]
  const inner = unit.name('step')
  const steps = step(mul(v('i32', inner), int(matrixSize)))
  out.push(
    ...forSubgroups(layout, m, [
      { k: 'for', name: inner, from: int(0), to: int(m.depth / matrixSize), step: 1, unroll: true, body: steps },
    ]),
  )
}

/** Zeros in a tile behind the depth; where its rows go along the depth, groups that begin before its end have them already. */
function zeroDepth(
  { unit, layout }: Scope,
  tile: SharedTile,
  span: number,
  depth: number,
  end: number,
  out: Block,
): void {
  const isAlong = tile.rows?.depthLast === true
  const from = isAlong ? Math.ceil(depth / halvesOfGroup) * halvesOfGroup : depth
  if (from >= end) return
  const inRow = (isAlong ? end - from : span) / halvesOfGroup
  const name = unit.name('behind')
  const n = v('i32', name)
  const [line, group] = [divided(n, inRow), mul(rest(n, inRow), int(halvesOfGroup))]
  const zeros = Array.from({ length: halvesOfGroup }, () => lit('f32', 0))
  const put = isAlong
    ? putGroup(tile, add(group, int(from)), line, zeros)
    : putGroup(tile, add(line, int(from)), group, zeros)
  const count = (isAlong ? span : end - from) * inRow
  out.push(forLoop('i32', { name, from: tid, to: int(count), step: layout.threads, body: [put] }))
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
  const { array } = m
  const pitch = resultPitch(m)
  const down = divided(m.warp, m.across)
  const column = mul(rest(m.warp, m.across), int(columnsOf(m)))
  const [va, vb] = [vectorsOf(scope, p.a, out), vectorsOf(scope, p.b, out)]
  const at = (o: VectorOperand, x: Lanes, lane: number): Lanes => withLane(x, o.vector, lane)
  const rows = rowsAtOnce(m)
  m.names.forEach((line, i) => {
    out.push(
      // What subgroups read of the tiles, or threads of the rows before, is to be read by now.
      { k: 'barrier' },
      ...forSubgroups(
        layout,
        m,
        line.map((name, j) => {
          const place = add(mul(down, int(matrixSize * pitch)), add(column, int(j * matrixSize)))
          return { k: 'matrix', of: { op: 'store', name, array, at: place, pitch } }
        }),
      ),
      { k: 'barrier' },
    )
    va.repeats.forEach((lines, r) => {
      const known = rowOf(va, r, rows)
      if (known !== undefined && known !== i) return
      const first = mul(va.at(r), int(four))
      const body: Block = []
      vb.repeats.forEach((columns, c) => {
        for (let y = 0; y < four; y++) {
          const name = unit.name('sums')
          const cell = add(mul(add(rest(first, rows), int(y)), int(pitch)), mul(vb.at(c), int(four)))
          body.push({ k: 'matrix', of: { op: 'take', name, array, at: cell } })
          for (let x = 0; x < four; x++) {
            const point: Lanes = new Map([...at(p.a, lines, y), ...at(p.b, columns, x)])
            const value: Ex = { k: 'comp', type: 'f32', of: name, words: four, at: x }
            body.push({ k: 'assign', to: registerAt(to, registerIndex(layout, axes, point)), value })
          }
        }
      })
      out.push(...(known === i ? body : when(bin('==', divided(first, rows), int(i)), body)))
    })
  })
}

/** Which row of matrices a thread's vector of rows is in, where it is the same for all threads. */
function rowOf({ first, most }: Vectors, i: number, rows: number): number | undefined {
  const [least = 0] = [first[i]]
  const [from, to] = [Math.floor((least * four) / rows), Math.floor(((least + most) * four) / rows)]
  return from === to ? from : undefined
}
