/**
 * Stores that neighbouring lanes put together: each holds a few elements of every repeat of an axis, and writes all of one repeat, side by side, when
 * they have exchanged what they hold of as many repeats as there are lanes (a transposition in as many steps as their number has bits).
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { StoreStmt } from '../../../kernel/ir.ts'
import type { Group } from '../../../schedule/simt/access/access.ts'
import { flatIndex } from '../../../schedule/simt/part/facts.ts'
import { elementBits } from '../../../schedule/simt/storage/words.ts'
import { add, and, type Block, bin, type Ex, int, mul, select, sub, v, when } from '../ir/ir.ts'
import { Point } from '../nest/point.ts'
import { behindLoads, insideAlong, tid } from '../nest/scope.ts'
import { allowed, packedWords, packingOf, storedValue } from './memory.ts'

/** Writes all repeats and lanes of the group's axis at a point of the other axes. */
export function storeExchanged(
  point: Point,
  s: StoreStmt,
  axes: readonly string[],
  { axis, n }: Group,
  lanes: number,
  isCoarse: boolean,
  out: Block,
): void {
  const { scope } = point
  const { unit } = scope
  const p = unit.param(s.param)
  const bits = elementBits(p)
  const { reps } = scope.layout.axis(axis)
  const body: Block = []
  const named = (wish: string, value: Ex): Ex => {
    const name = unit.name(wish)
    body.push({ k: 'let', name, value })
    return v(value.type, name)
  }
  const rounds = reps / lanes
  const counter = unit.name(`${axis}_r`)
  const first: Ex = rounds === 1 ? int(0) : mul(v('i32', counter), int(lanes))
  const at = (rep: Ex, lane: Ex): Point =>
    new Point(scope, new Map([...point.lanes, [axis, { rep, lane }]]), point.here)
  const own = named('lane', bin('&', tid, int(lanes - 1)))
  const packing = packingOf(scope, s, isCoarse)
  let words = Array.from({ length: lanes }, (_, e) => {
    const values = Array.from({ length: n }, (_, i) => {
      const q = at(add(first, int(e)), int(i))
      return storedValue(q, s, q.read(s.value))
    })
    return packedWords(p, values, packing).map((w) => named('word', w))
  })
  for (let bit = 1; bit < lanes; bit *= 2) {
    const isUpper = named('upper', bin('!=', bin('&', own, int(bit)), int(0)))
    // Of two repeats a lane keeps its own, and gives the other for the same of its neighbour.
    const got = words.map((_, e) =>
      (e & bit) !== 0
        ? []
        : (words[e]?.map((low, k) => {
            const high = words[e | bit]?.[k]
            invariant(high !== undefined, 'lanes exchange as many repeats as they are')
            return named('got', { k: 'shuffle', type: 'u32', a: select(isUpper, low, high), mask: bit })
          }) ?? []),
    )
    words = words.map((own, e) =>
      own.map((w, k) => {
        const other = got[e & ~bit]?.[k]
        invariant(other !== undefined, 'a word that no lane gives')
        return named('word', (e & bit) === 0 ? select(isUpper, other, w) : select(isUpper, w, other))
      }),
    )
  }
  // The first element of the lane's repeat, which its own neighbours begin behind.
  const to = at(add(first, own), sub(int(0), mul(own, int(n))))
  const store: Block = []
  const index = to.position(flatIndex(s.index, p.shape))
  store.push({ k: 'vstore', param: p.name, index, bits, values: words.flat() })
  const rest = and(scope.owner(axes), allowed(to, s, axes, axis))
  body.push(...when(and(rest, insideAlong(scope, axis, to.lanes), behindLoads(scope)), store))
  if (rounds === 1) out.push(...body)
  else out.push({ k: 'for', name: counter, from: int(0), to: int(rounds), step: 1, unroll: true, body })
}
