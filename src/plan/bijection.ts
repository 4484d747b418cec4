/** Whether an index map visits every element of a tensor exactly once. */
import { type Expr, flatten } from '../index/expr.ts'
import { sizeOf } from '../types/shape.ts'

/**
 * True when the coordinates, as the axes they name run, cover a shape exactly once: flattened, the axes are the digits of
 * a mixed radix number. (Sufficient; data-dependent and div/mod maps are never accepted.)
 */
export function coversOnce(index: readonly Expr[], shape: readonly number[]): boolean {
  const size = sizeOf(shape)
  if (size === 0) return true
  const flat = flatten(index, shape)
  if (flat.offset !== 0) return false
  const digits = flat.terms
    .map((t) => ({ coef: t.coef, extent: t.atom.kind === 'axis' ? t.atom.extent : -1 }))
    .sort((a, b) => a.coef - b.coef)
  let radix = 1
  for (const d of digits) {
    if (d.extent < 0 || d.coef !== radix) return false
    radix *= d.extent
  }
  return radix === size
}
