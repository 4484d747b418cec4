/** Code of a matrix product on operands where the schedule put them. */
import { constant, type Expr } from '../../../affine/expr.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { DirectOperand } from '../../../schedule/loop/ir/operands.ts'
import { tileStride } from '../../../schedule/loop/ir/product.ts'
import type { ProductSchedule } from '../../../schedule/loop/ir/schedule.ts'
import { countsOf } from '../../../schedule/loop/products.ts'
import { computeDType } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import { addressOf } from '../value/laneIndex.ts'
import { type Index, scaled } from '../value/scope.ts'
import type { Values } from '../value/values.ts'
import { emitProduct } from './gemm.ts'
import { atStart } from './loops.ts'
import { emitShortProduct } from './shortProduct.ts'

/** Runs a product on its operands and gives its result a home. */
export function emitPlaced(
  values: Values,
  { product: p, tile: result, fresh, blocks, rowsAtOnce, pairs }: ProductSchedule,
): void {
  const { f, scope, env } = values
  const pointer = (base: Parameters<typeof addressOf>[1], e: Expr, offset: number) => {
    const at = addressOf(values, base, e, 0, offset)
    if (at.offset === 0) return at.local
    const l = f.register(T.i32)
    scope.here(() => f.assign(l, X.add(at.local, at.offset)))
    return l
  }
  const operand = (id: ValueId, direct: DirectOperand | undefined, outer: readonly string[]) => {
    if (direct !== undefined)
      return {
        at: pointer(values.baseOf(direct.param), atStart(values, direct.flat, [...p.m, ...p.n, ...p.k]), 0),
        outer: direct.outer,
        inner: direct.inner,
        form: direct.form ?? 'plain',
      }
    const { tile } = values.homeTile(id)
    return {
      at: pointer(values.scratch, constant(0), tile.offset),
      outer: tileStride(tile, outer),
      inner: tileStride(tile, p.k),
      form: 'plain' as const,
    }
  }
  const a = operand(p.a, p.directA, p.m)
  const b = operand(p.b, p.directB, p.n)
  const [rows, depth] = [roleCount(values, p.m), roleCount(values, p.k)]
  const place = {
    a: a.at,
    b: b.at,
    c: pointer(values.scratch, constant(0), result.offset),
    rows,
    columns: roleCount(values, p.n),
    depth,
  }
  const { short } = p
  if (short !== undefined)
    scope.here(() =>
      emitShortProduct(
        f,
        {
          short,
          a,
          b,
          cRow: tileStride(result, p.m),
          fresh,
          rowsAtOnce,
          blocks,
          touches: p.directB === undefined ? undefined : values.scratch,
          pairs: pairs && { at: pointer(values.scratch, constant(0), pairs.tile.offset), depth: pairs.depth },
        },
        place,
      ),
    )
  else
    scope.here(() =>
      emitProduct(
        f,
        {
          compute: p.compute,
          fused: env.hasMultiplyAdd && env.mode === 'fast' && p.compute !== 'i32',
          aRow: a.outer,
          aDepth: a.inner,
          bRow: b.inner,
          cRow: tileStride(result, p.m),
          fresh,
          blocks,
        },
        place,
      ),
    )
  const round = env.mode === 'strict' && computeDType(p.dtype) !== p.dtype
  values.setHome(p.id, { kind: 'tile', tile: result, depth: scope.depth, round })
}

/** Number of indices of a role in this program. */
function roleCount({ axes, scope }: Values, role: readonly string[]): Index {
  const [only, second] = countsOf(role, axes) ?? []
  if (only !== undefined && second === undefined) return only
  const [outer, ...inner] = role.map((a) => axes.view(a))
  if (outer === undefined) return 1
  const unit = inner.reduce((n, v) => n * v.max, 1)
  const count = scope.axisPosition(`${outer.name}.count`)
  if (typeof count === 'number') return count * unit
  const depth = scope.axisDepth(`${outer.name}.count`)
  return scope.once(depth, `role:${outer.name}:${unit}`, () => scaled(count, unit))
}
