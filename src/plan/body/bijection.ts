/** Whether an index map visits every element of a tensor exactly once. */
import { type Expr, flatten, rangeOf } from '../../affine/expr.ts'
import { sizeOf } from '../../types/shape.ts'

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

/** True when the coordinates stay inside a shape and visit no element twice. (Sufficient, as above.) */
export function visitsOnce(index: readonly Expr[], shape: readonly number[]): boolean {
  const inside = index.every((e, d) => {
    const { lo, hi } = rangeOf(e)
    return lo >= 0 && hi < (shape[d] ?? 1)
  })
  return inside && !overlaps(index, shape)
}

/** True unless no element is visited twice, wherever the coordinates go. (Data-dependent and div/mod maps always may.) */
export function overlaps(index: readonly Expr[], shape: readonly number[]): boolean {
  const digits = flatten(index, shape)
    .terms.map((t) => ({ coef: t.coef, extent: t.atom.kind === 'axis' ? t.atom.extent : -1 }))
    .sort((a, b) => a.coef - b.coef)
  let most = 0
  for (const d of digits) {
    if (d.extent < 0 || d.coef <= most) return true
    most += d.coef * (d.extent - 1)
  }
  return false
}
