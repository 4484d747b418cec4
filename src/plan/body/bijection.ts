/** Whether an index map visits every element of a tensor exactly once. */
import { axesOf, type Expr, flatten, rangeOf } from '../../affine/expr.ts'
import { type Predicate, predicateKey } from '../../affine/predicate.ts'
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

/**
 * True when the coordinates cover a shape exactly once where `mask` holds: every one of them counts from 0 on along axes of its own, and the
 * mask is what keeps those inside that count beyond it. (Sufficient, as above.)
 */
export function coversOnceInside(
  index: readonly Expr[],
  shape: readonly number[],
  mask: Predicate,
  inside: Predicate,
): boolean {
  if (mask.length === 0) return coversOnce(index, shape)
  if (predicateKey(mask) !== predicateKey(inside)) return false
  const seen = new Set<string>()
  return index.every((e, d) => {
    const apart = [...axesOf(e)].every((a) => !seen.has(a))
    for (const a of axesOf(e)) seen.add(a)
    const span = rangeOf(e).hi + 1
    return apart && span >= (shape[d] ?? 1) && coversOnce([e], [span])
  })
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
