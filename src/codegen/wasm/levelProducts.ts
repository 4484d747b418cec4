/** The matrix products of a level: which dots they are, where their operands and results stand, and their code. */
import { constant, type Expr } from '../../index/expr.ts'
import type { Stmt, ValueId } from '../../kernel/ir.ts'
import { computeDType } from '../../types/dtype.ts'
import { emitProduct } from './gemm.ts'
import { addressOf } from './laneIndex.ts'
import { atStart } from './loops.ts'
import type { Root } from './nests.ts'
import { type Product, productOf, resultLayoutOf, tileStride } from './product.ts'
import type { Index } from './scope.ts'
import type { Axes, Scratch, Tile } from './tile.ts'
import type { Values } from './values.ts'

/** Where a product accumulates: `init` fills the tile before it runs, unless it is `fresh` or goes on from what stands there. */
export interface ProductTarget {
  readonly tile: Tile
  readonly fresh: boolean
  readonly init: Root | undefined
}

/** The matrix products among the dots of a level. */
export function findProducts(values: Values, stmts: readonly Stmt[], axes: Axes): Map<ValueId, Product> {
  const inLevel = new Map(stmts.flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : [])))
  const isPlaced = (id: ValueId): boolean => {
    const s = inLevel.get(id)
    if (s === undefined) return values.homes.has(id) || values.def(id).op === undefined
    return ['reduce', 'dot', 'scan', 'stage'].includes(s.op.kind)
  }
  const out = new Map<ValueId, Product>()
  const chosen = new Set<ValueId>()
  for (const s of stmts) {
    if (s.kind !== 'let') continue
    const p = productOf(
      s,
      axes,
      (id) => values.def(id),
      (name) => values.paramOf(name),
      isPlaced,
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
export function targetOf(values: Values, p: Product, carried: Tile | undefined, scratch: Scratch): ProductTarget {
  const inPlace = p.acc !== undefined && values.homes.get(p.acc)
  if (carried !== undefined && inPlace && inPlace.kind === 'tile' && inPlace.tile === carried)
    return { tile: carried, fresh: false, init: undefined }
  const tile = carried ?? scratch.place(resultLayoutOf(p, values.axes))
  const init: Root | undefined =
    p.acc === undefined ? undefined : { kind: 'keep', id: p.acc, tile, axes: values.axes.varying(p.axes), home: false }
  return { tile, fresh: p.acc === undefined, init }
}

/** Whether the rows of operand `a` are what its source is contiguous along. */
export function rowsAreContiguous(values: Values, p: Product): boolean {
  const { op } = values.def(p.a)
  const m = p.m.at(-1)
  if (op?.kind !== 'load' || m === undefined) return false
  const last = op.index.at(-1)
  return last?.terms.some((t) => t.atom.kind === 'axis' && t.atom.name === m && t.coef === 1) ?? false
}

/** Runs a product on its operands and gives its result a home. */
export function emitPlaced(values: Values, p: Product, target: ProductTarget): void {
  const { f, scope, env } = values
  const pointer = (base: Parameters<typeof addressOf>[1], e: Expr, offset: number) => {
    const at = addressOf(values, base, e, 0, offset)
    if (at.offset === 0) return at.local
    const l = f.local('i32')
    scope.here(() => {
      f.get(at.local)
      f.i32Const(at.offset)
      f.op('i32.add')
      f.set(l)
    })
    return l
  }
  const operand = (id: ValueId, direct: Product['directA'], outer: readonly string[]) => {
    if (direct !== undefined)
      return {
        at: pointer(values.baseOf(direct.param), atStart(values, direct.flat, [...p.m, ...p.n, ...p.k]), 0),
        outer: direct.outer,
        inner: direct.inner,
      }
    const { tile } = values.homeTile(id)
    return {
      at: pointer(values.scratch, constant(0), tile.offset),
      outer: tileStride(tile, outer),
      inner: tileStride(tile, p.k),
    }
  }
  const a = operand(p.a, p.directA, p.m)
  const b = operand(p.b, p.directB, p.n)
  const rows = roleCount(values, p.m)
  const depth = roleCount(values, p.k)
  const place = {
    a: a.at,
    b: b.at,
    c: pointer(values.scratch, constant(0), target.tile.offset),
    rows: rows.count,
    columns: roleCount(values, p.n).count,
    depth: depth.count,
  }
  scope.here(() =>
    emitProduct(
      f,
      {
        compute: p.compute,
        fused: env.relaxed && env.mode === 'fast' && p.compute !== 'i32',
        aRow: a.outer,
        aDepth: a.inner,
        bRow: b.inner,
        cRow: tileStride(target.tile, p.m),
        fresh: target.fresh,
        rowCounts: rows.counts,
      },
      place,
    ),
  )
  const round = env.mode === 'strict' && computeDType(p.dtype) !== p.dtype
  values.setHome(p.id, { kind: 'tile', tile: target.tile, depth: scope.depth, round })
}

/** Number of indices of a role in this program, and the numbers possible. */
function roleCount(values: Values, role: readonly string[]): { count: Index; counts: readonly number[] | undefined } {
  const { axes, scope } = values
  const [outer, ...inner] = role.map((a) => axes.view(a))
  if (outer === undefined) return { count: 1, counts: [1] }
  const unit = inner.reduce((n, v) => n * v.max, 1)
  const counts = outer.counts?.map((n) => n * unit)
  const [only] = counts ?? []
  if (counts?.length === 1 && only !== undefined) return { count: only, counts }
  const count = scope.axisPosition(`${outer.name}.count`)
  if (typeof count === 'number') return { count: count * unit, counts }
  const depth = scope.axisDepth(`${outer.name}.count`)
  return {
    count: scope.once(depth, `role:${outer.name}:${unit}`, 'i32', () => scope.pushScaled(count, unit)),
    counts,
  }
}
