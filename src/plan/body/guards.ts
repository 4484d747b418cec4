/**
 * Guards: the bounds that keep a result inside its shape where its dimensions are split into digits that count beyond them. Points beyond are
 * computed and not stored.
 */
import * as ix from '../../affine/expr.ts'
import { always, type Bound, conjoin, type Predicate } from '../../affine/predicate.ts'

/** The guards of one body's results. */
export class Guards {
  private readonly bounds = new Map<string, Bound>()

  /** Where coordinates stand inside a shape, as far as their digits count beyond it. */
  inside(index: readonly ix.Expr[], shape: readonly number[]): Predicate {
    const bounds = index.flatMap((expr, d): Bound[] => {
      const hi = shape[d] ?? 1
      if (ix.rangeOf(expr).hi < Math.max(hi, 1)) return []
      const key = `${expr.key}<${hi}`
      const guard = this.bounds.get(key) ?? { expr, lo: 0, hi }
      this.bounds.set(key, guard)
      return [guard]
    })
    return conjoin(always, ...bounds)
  }

  /** A mask without guards, where coordinates are inside a shape whatever the digits. */
  neededAt(mask: Predicate, index: readonly ix.Expr[], shape: readonly number[]): Predicate {
    if (this.bounds.size === 0 || mask.length === 0) return mask
    const isInside = index.every((e, d) => {
      const { lo, hi } = ix.rangeOf(e)
      return lo >= 0 && hi < (shape[d] ?? 1)
    })
    if (!isInside) return mask
    const guards = new Set(this.bounds.values())
    const rest = mask.filter((b) => !guards.has(b))
    return rest.length === mask.length ? mask : conjoin(always, ...rest)
  }
}
