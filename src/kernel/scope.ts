/** What the verifier knows at a statement: parameters, axes and the values in scope. */
import type { Expr, Scale } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import type { DType } from '../types/dtype.ts'
import type { AxisRole } from './axes.ts'
import type { KernelParam, ValueId } from './ir.ts'

/** A value in scope. */
export interface TileInfo {
  readonly dtype: DType
  readonly axes: readonly string[]
  readonly staged: boolean
  /** What an index tile is the value of. */
  readonly expr?: Expr
}

/** The state of verifying a part, at a statement. */
export interface VerifyScope {
  readonly params: ReadonlyMap<string, KernelParam>
  /** Launch scalars of the kernel by name. */
  readonly scalars: ReadonlyMap<string, Scale>
  /** What holds of every point: indices along open axes are below their ends. */
  readonly implied: Predicate
  /** Declared axes, whether in scope here or not. */
  readonly declared: ReadonlyMap<string, number>
  /** Axes in scope and what they are. */
  readonly roles: ReadonlyMap<string, AxisRole>
  /** Values in scope. */
  readonly values: Map<ValueId, TileInfo>
  /** Every id defined in the part so far. */
  readonly defined: Set<ValueId>
  readonly grid: readonly { readonly axis: string; readonly block: number }[]
  /** Loop axes cut among the programs of a grid axis: no two programs take the same index. */
  readonly shares: ReadonlyMap<string, string>
  /** Throws the error, naming the statement at hand. */
  readonly fail: (message: string, help?: string) => never
}

/** A value in scope. Throws E_KERNEL_INVALID. */
export function lookup(scope: VerifyScope, id: ValueId): TileInfo {
  const t = scope.values.get(id)
  if (t !== undefined) return t
  return scope.fail(
    scope.defined.has(id) ? `%${id} is used outside the loop that defines it` : `%${id} is not defined before its use`,
  )
}
