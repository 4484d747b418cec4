/**
 * Interleaved accesses: an axis that moves by 2 or 4 elements (pairs, quadruples of neighbours). A load takes the whole run in
 * wide words and keeps its own elements; stores that fill each other's gaps are written together.
 */
import { predicateKey } from '../../index/predicate.ts'
import type { LetStmt, StoreStmt } from '../../kernel/ir.ts'
import { runAlong, variesAlong } from '../../schedule/simt/contiguity.ts'
import { flatIndex, type Run, storeValues } from '../../schedule/simt/facts.ts'
import { elementBits } from '../../schedule/simt/words.ts'
import { wideFields } from './fields.ts'
import { and, type Block, type Ex, isYes, type S, when } from './ir.ts'
import { type Access, allowed, isWhole, packingOf, storedValue, storeGroup } from './memory.ts'
import type { Point } from './point.ts'
import type { Loop, Registers } from './registers.ts'
import { behindLoads, insideAlong, type Scope } from './scope.ts'
import type { Step } from './steps.ts'

/** Groups of `n` indices of `axis`, and where they lie. */
export interface Strided extends Run {
  readonly axis: string
  readonly n: number
}

/** How an access goes in runs along one of some axes. */
export function stridedOf(scope: Scope, access: Access, axes: readonly string[]): Strided | undefined {
  const { part, layout } = scope
  const p = scope.unit.param(access.param)
  const bits = elementBits(p)
  if (bits < 8 || bits > 32) return undefined
  const flat = flatIndex(access.index, p.shape)
  for (const axis of axes) {
    const a = layout.find(axis)
    if (a === undefined) continue
    if (access.maskValue !== undefined && variesAlong(part, axis)(access.maskValue)) continue
    for (let n = a.vec; n >= 1; n /= 2) {
      const run = runAlong(part, flat, access.mask, axis, n, bits)
      if (run !== undefined && isWhole(scope, axis, n)) return { axis, n, ...run }
    }
  }
  return undefined
}

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

/** The step of stores, one for each residue, that fill their runs together. */
export const interleavedStep = (
  stores: readonly StoreStmt[],
  axes: readonly string[],
  s: Strided,
  loops: readonly Loop[],
): Step => ({
  kind: 'point',
  loops,
  needs: stores.flatMap(storeValues),
  after: [],
  rank: 3,
  name: 'store',
  emit: (p, out) => {
    storeInterleaved(p, stores, axes, s, out)
    return undefined
  },
})

function storeInterleaved(
  point: Point,
  stores: readonly StoreStmt[],
  axes: readonly string[],
  s: Strided,
  out: Block,
): void {
  const [first] = stores
  if (first === undefined) return
  const { scope } = point
  const p = scope.unit.param(first.param)
  for (const { first: at, points } of point.laneGroups(s.axis, s.n)) {
    const values = points.flatMap((q) => stores.map((x) => storedValue(q, x, q.read(x.value))))
    const body: Block = []
    const packings = new Set(stores.map((x) => packingOf(scope, x)))
    const [packing] = packings
    storeGroup(at, p, s.base, values, body, packings.size === 1 ? packing : undefined)
    const inside = insideAlong(scope, s.axis, at.lanes)
    const cond = and(scope.owner(axes), allowed(at, first, axes, s.axis), inside, behindLoads(scope))
    out.push(...when(cond, body))
  }
}

/** Where and when an access takes place, but for its position. */
const guardOf = (a: Access, axes: readonly string[]): string =>
  `${a.param}|${predicateKey(a.mask)}|${a.maskValue ?? ''}|${axes.join()}`

/** Stores that wait for those that fill the gaps of their runs. */
export class Gaps {
  private readonly waiting = new Map<string, { readonly s: Strided; readonly stores: Map<number, StoreStmt> }>()

  /** Takes a store that goes in runs; when it is the last of its runs, all of them by residue. */
  take(store: StoreStmt, axes: readonly string[], s: Strided): 'waits' | readonly StoreStmt[] {
    const key = [guardOf(store, axes), s.base.key, s.axis, s.n, s.stride].join('|')
    const have = this.waiting.get(key) ?? { s, stores: new Map<number, StoreStmt>() }
    have.stores.set(s.residue, store)
    this.waiting.set(key, have)
    if (have.stores.size < s.stride) return 'waits'
    this.waiting.delete(key)
    return [...have.stores].sort(([a], [b]) => a - b).map(([, x]) => x)
  }

  /** Stores whose gaps nothing fills. */
  rest(): StoreStmt[] {
    const out = [...this.waiting.values()].flatMap((w) => [...w.stores.values()])
    this.waiting.clear()
    return out
  }
}
