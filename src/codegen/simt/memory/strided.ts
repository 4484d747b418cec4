/**
 * Interleaved accesses: an axis that moves by 2 or 4 elements (pairs, quadruples of neighbours). A load takes the whole run in
 * wide words and keeps its own elements; stores that fill each other's gaps are written together.
 */
import type { LetStmt, StoreStmt } from '../../../kernel/ir.ts'
import { type Access, guardOf, type Strided } from '../../../schedule/simt/access/access.ts'
import { and, type Block, type Ex, isYes, type S, when } from '../ir/ir.ts'
import type { Registers } from '../ir/registers.ts'
import type { Point } from '../nest/point.ts'
import { behindLoads, insideAlong } from '../nest/scope.ts'
import { allowed, packingOf, storedValue, storeGroup } from './memory.ts'
import { wideFields } from './packedElements.ts'

/** A run that was loaded at a point: its elements, the code that follows the load, and the test around it. */
interface Loaded {
  readonly fields: (i: number) => Ex
  readonly body: Block
  readonly test: S | undefined
}

/** Runs by place, among the code of one point. */
const loadedAt = new WeakMap<object, Map<string, Loaded>>()

/** All lanes of a vector into registers; what else lies in each run is there for others of the same point. */
export function loadStrided(
  point: Point,
  l: LetStmt,
  access: Access,
  axes: readonly string[],
  s: Strided,
  to: Registers,
  other: Ex,
  out: Block,
): void {
  const { scope } = point
  const p = scope.unit.param(access.param)
  const known = loadedAt.get(point.here) ?? new Map<string, Loaded>()
  loadedAt.set(point.here, known)
  const own = scope.part.axesOf(l.id)
  point.laneGroups(s.axis, s.n).forEach(({ first: at, points }, group) => {
    const key = [guardOf(access, axes), s.base.key, s.axis, s.n, s.stride, group].join('|')
    let run = known.get(key)
    if (run === undefined) {
      const cond = and(allowed(at, access, axes, s.axis), insideAlong(scope, s.axis, at.lanes))
      const always = isYes(cond)
      const body: Block = always ? out : []
      const fields = wideFields(at, p, s.base, s.n * s.stride, body)
      run = { fields, body, test: always ? undefined : { k: 'if', cond, body, otherwise: [] } }
      if (run.test !== undefined) out.push(run.test)
      known.set(key, run)
    }
    for (const [i, q] of points.entries()) {
      const target = q.registerOf(to, own)
      if (run.test !== undefined) out.splice(out.indexOf(run.test), 0, { k: 'assign', to: target, value: other })
      run.body.push({ k: 'assign', to: target, value: run.fields(i * s.stride + s.residue) })
    }
  })
}

/** Writes stores, one for each residue, that fill their runs together. */
export function storeInterleaved(
  point: Point,
  stores: readonly StoreStmt[],
  axes: readonly string[],
  s: Strided,
  coarse: ReadonlySet<StoreStmt>,
  out: Block,
): void {
  const [first] = stores
  if (first === undefined) return
  const { scope } = point
  const p = scope.unit.param(first.param)
  for (const { first: at, points } of point.laneGroups(s.axis, s.n)) {
    const values = points.flatMap((q) => stores.map((x) => storedValue(q, x, q.read(x.value))))
    const body: Block = []
    const packings = new Set(stores.map((x) => packingOf(scope, x, coarse.has(x))))
    const [packing] = packings
    storeGroup(at, p, s.base, values, body, packings.size === 1 ? packing : undefined)
    const inside = insideAlong(scope, s.axis, at.lanes)
    const cond = and(scope.owner(axes), allowed(at, first, axes, s.axis), inside, behindLoads(scope))
    out.push(...when(cond, body))
  }
}
