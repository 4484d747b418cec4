/** The matrix products of a level: which dots they are, where their results stand, the blocks they run in. */
import type { Stmt, ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { type Product, productOf, resultLayoutOf } from './ir/product.ts'
import type { ProductSchedule } from './ir/schedule.ts'
import { pairsBlockBytes, shortBytes, shortColumns } from './ir/shortOperands.ts'
import type { Root } from './ir/steps.ts'
import { type Axes, type Tile, tileBytes } from './ir/tile.ts'
import type { Places } from './tiles/places.ts'

/** Where a product accumulates: `init` fills the tile before it runs, unless it is `fresh` or goes on from what stands there. */
export interface ProductTarget {
  readonly tile: Tile
  readonly fresh: boolean
  readonly init: Root | undefined
}

/** The matrix products among the dots of a level. */
export function findProducts(places: Places, stmts: readonly Stmt[], axes: Axes): Map<ValueId, Product> {
  const inLevel = new Map(stmts.flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : [])))
  const isPlaced = (id: ValueId): boolean => {
    const s = inLevel.get(id)
    if (s === undefined) return places.has(id) || places.def(id).op === undefined
    return ['reduce', 'dot', 'scan', 'stage'].includes(s.op.kind)
  }
  const out = new Map<ValueId, Product>()
  const chosen = new Set<ValueId>()
  for (const s of stmts) {
    if (s.kind !== 'let') continue
    const p = productOf(
      s,
      axes,
      (id) => places.def(id),
      (name) => places.paramOf(name),
      isPlaced,
      (id) => places.has(id),
      places.facts.machine.loops?.nearest ?? Number.POSITIVE_INFINITY,
    )
    if (p === undefined) continue
    // A tile has one layout: an operand two products would lay out serves the first.
    const own = [p.directA === undefined ? p.a : undefined, p.directB === undefined ? p.b : undefined].filter(
      (x) => x !== undefined,
    )
    if (own.some((id) => chosen.has(id))) continue
    for (const id of own) chosen.add(id)
    out.set(s.id, p)
  }
  return out
}

/** Where a product accumulates: in the tile of a value that a loop carries, where it has one, else in one of its own. */
export function targetOf(places: Places, p: Product, carried: Tile | undefined): ProductTarget {
  if (carried !== undefined && p.acc !== undefined && places.get(p.acc) === carried)
    return { tile: carried, fresh: false, init: undefined }
  const tile = carried ?? places.scratch.place(resultLayoutOf(p, places.axes))
  const init: Root | undefined =
    p.acc === undefined ? undefined : { kind: 'keep', id: p.acc, tile, axes: places.axes.varying(p.axes), home: false }
  return { tile, fresh: p.acc === undefined, init }
}

/** Whether the rows of operand `a` are what its source is contiguous along. */
export function rowsAreContiguous(places: Places, p: Product): boolean {
  const { op } = places.def(p.a)
  const m = p.m.at(-1)
  if (op?.kind !== 'load' || m === undefined) return false
  const last = op.index.at(-1)
  return last?.terms.some((t) => t.atom.kind === 'axis' && t.atom.name === m && t.coef === 1) ?? false
}

/**
 * Rows of a block of accumulators at most, beside two vectors of columns. The engine (V8) moves all loads of a loop body in front of the
 * arithmetic, so one step of k, its six loads and the eight accumulators must fit the fifteen vector registers it has: neither more rows
 * nor more steps do.
 */
const blockRows = 4
/** The same beside one vector, where there are no more columns. */
const narrowRows = 6
/** The same of short integers, by how their second operand stands. */
const shortRows = { depth: 2, pairs: 4 } as const

/** The blocks of rows that a product needs, the largest first. */
export function blocksOf(p: Product, axes: Axes): number[] {
  const { m, short } = p
  const sizes = isNarrow(p, axes)
    ? [narrowRows, 3, 2, 1]
    : [blockRows, 3, 2, 1].filter((n) => short === undefined || n <= shortRows[short])
  const counts = countsOf(m, axes)
  if (counts === undefined) return sizes
  const needed = new Set<number>()
  for (const n of counts) {
    let left = n
    for (const size of sizes) {
      if (left < size) continue
      needed.add(size)
      left %= size
    }
  }
  return sizes.filter((x) => needed.has(x))
}

/** Whether one vector holds all columns of a product. */
export function isNarrow({ n, short, compute }: Product, axes: Axes): boolean {
  const [columns, second] = countsOf(n, axes) ?? []
  return short === undefined && second === undefined && columns !== undefined && columns * tileBytes(compute) <= 16
}

/** Rows of short integers that stay in the nearest cache while columns pass by; any, if the operands are others. */
export function rowsAtOnce({ k, short }: Product, axes: Axes, { memories }: Machine): number {
  if (short === undefined) return 1
  const block = shortRows[short]
  const nearest = (memories[0]?.bytes ?? 0) / 64
  const row = shortBytes * k.reduce((n, a) => n * axes.view(a).max, 1)
  return Math.max(block, Math.floor(nearest / row / block) * block)
}

/** Where a product of short integers packs pairs of rows of its second operand. */
export function pairsOf({ short, n, k }: Product, { axes, scratch }: Places): ProductSchedule['pairs'] {
  if (short !== 'pairs') return undefined
  const size = (role: readonly string[]): number => role.reduce((c, a) => c * axes.view(a).max, 1)
  const depth = Math.min(pairsAtOnce, 2 * Math.ceil(size(k) / 2))
  const blocks = Math.ceil(size(n) / shortColumns.pairs)
  const tile = scratch.place({ dtype: 'i16', strides: new Map(), bytes: blocks * pairsBlockBytes(depth) })
  return { tile, depth }
}

/** Depth that is packed at a time: a block of columns of it stays in the nearest cache. */
const pairsAtOnce = 256

/** The numbers of indices that a role may have in a program; undefined: any. */
export function countsOf(role: readonly string[], axes: Axes): readonly number[] | undefined {
  const [outer, ...inner] = role.map((a) => axes.view(a))
  if (outer === undefined) return [1]
  const unit = inner.reduce((n, v) => n * v.max, 1)
  return outer.counts?.map((n) => n * unit)
}
