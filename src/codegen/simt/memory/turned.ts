/** Loads and stores of halves that lie side by side along a fragment's rows: blocks of 8 x 8 are turned among the lanes of a warp. */
import type { LetStmt, StoreStmt } from '../../../kernel/ir.ts'
import type { Access } from '../../../schedule/simt/access/access.ts'
import type { Turned } from '../../../schedule/simt/access/loadPlan.ts'
import { flatIndex } from '../../../schedule/simt/part/facts.ts'
import { and, type Block, bin, type Ex, int, isYes, lit, lt, mul, sub, uint, v, when } from '../ir/ir.ts'
import type { Registers } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import { behindLoads, coordinate, tid } from '../nest/scope.ts'
import { packedWords, packingOf, storedValue } from './memory.ts'
import { takeFieldsOf } from './packedElements.ts'

/** The first of the two elements that a lane moves for others: of the row of its column, and the column of its row. */
export function moved({ scope, lanes, here }: Point, { rows, columns }: Turned): Point {
  const row = bin('&', bin('>>', tid, uint(2)), int(7))
  const column = mul(bin('&', tid, int(3)), int(2))
  const at = (axis: string, lane: Ex): [string, { rep: Ex; lane: Ex }] => [
    axis,
    { rep: lanes.get(axis)?.rep ?? int(0), lane },
  ]
  return new Point(scope, new Map([...lanes, at(rows, sub(column, row)), at(columns, sub(row, column))]), here)
}

/** The two elements of a row that a lane holds. */
const neighbours = (point: Point, { columns }: Turned): readonly Point[] =>
  point.laneGroups(columns, 2).flatMap((g) => g.points)

/** Whether what a lane moves is there. Its rows are others' than those that it holds, so each is asked where it stands (`allowed` asks a whole vector once). */
export function isThere(at: Point, access: Access, axes: readonly string[]): Ex {
  const { scope, lanes } = at
  const inside = axes.map((a) =>
    scope.needsCheck(a) ? lt(coordinate(scope, a, lanes), scope.range(a).end) : undefined,
  )
  return and(...inside, at.predicate(access.mask))
}

/** Both neighbours of a row into registers; zero where they are not there. */
export function loadTurned(
  point: Point,
  l: LetStmt,
  access: Access,
  axes: readonly string[],
  turned: Turned,
  to: Registers,
  out: Block,
): void {
  const { scope } = point
  const { unit } = scope
  const p = unit.param(access.param)
  const at = moved(point, turned)
  const [word, across] = [unit.name(`${p.name}_word`), unit.name(`${p.name}_turned`)]
  const load: Block[number] = {
    k: 'vload',
    name: word,
    param: p.name,
    index: at.position(flatIndex(access.index, p.shape)),
    bits: 16,
    words: 1,
    type: 'u32',
  }
  const cond = isThere(at, access, axes)
  let own: Ex = { k: 'comp', type: 'u32', of: word, words: 1, at: 0 }
  if (isYes(cond)) out.push(load)
  else {
    const name = unit.name(`${p.name}_w`)
    const guarded = v('u32', name)
    out.push({ k: 'var', name, type: 'u32', value: lit('u32', 0) })
    out.push({ k: 'if', cond, body: [load, { k: 'assign', to: guarded, value: own }], otherwise: [] })
    own = guarded
  }
  out.push({ k: 'let', name: across, value: { k: 'turn', type: 'u32', a: own } })
  const targets = neighbours(point, turned).map((q) => q.registerOf(to, scope.part.axesOf(l.id)))
  takeFieldsOf(scope, p, () => v('u32', across), targets, out)
}

/** Writes both neighbours of a row, each lane for others. */
export function storeTurned(
  point: Point,
  s: StoreStmt,
  axes: readonly string[],
  turned: Turned,
  isCoarse: boolean,
  out: Block,
): void {
  const { scope } = point
  const { unit } = scope
  const p = unit.param(s.param)
  const values = neighbours(point, turned).map((q) => storedValue(q, s, q.read(s.value)))
  const [word = uint(0)] = packedWords(p, values, packingOf(scope, s, isCoarse))
  const across = unit.name(`${p.name}_turned`)
  out.push({ k: 'let', name: across, value: { k: 'turn', type: 'u32', a: word } })
  const at = moved(point, turned)
  const index = at.position(flatIndex(s.index, p.shape))
  const cond = and(scope.owner(axes), isThere(at, s, axes), behindLoads(scope))
  out.push(...when(cond, [{ k: 'vstore', param: p.name, index, bits: 16, values: [v('u32', across)] }]))
}
