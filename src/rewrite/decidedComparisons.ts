/**
 * Comparisons of integers whose bounds decide them: the sign of a remainder of places, as `//` and `%` of Python ask for it. What is left of those is the
 * quotient itself, and masks by blocks of positions are seen as such.
 */
import type { Range } from '../scalar/narrow.ts'
import { fullOf } from './facts.ts'
import { type Rule, rule } from './rule.ts'
import { rangeOf } from './shortIntegers.ts'

/** What a comparison of integers within bounds always is; undefined: it depends. */
function decided(op: 'lt' | 'le' | 'gt' | 'ge', x: Range, y: Range): boolean | undefined {
  const [a, b] = op === 'lt' || op === 'le' ? [x, y] : [y, x]
  const isStrict = op === 'lt' || op === 'gt'
  if (isStrict ? a.hi < b.lo : a.hi <= b.lo) return true
  return (isStrict ? a.lo >= b.hi : a.lo > b.hi) ? false : undefined
}

export const decidedComparisonRules: readonly Rule[] = (['lt', 'le', 'gt', 'ge'] as const).map((op) =>
  rule(
    op,
    'exact',
    `${op}-of-bounds`,
    `${op}(x, y) -> a literal, where the bounds of two i32 decide it`,
    (node, { generic }) => {
      const [x, y] = node.inputs
      // Places of other extents have other bounds.
      if (generic !== undefined || x === undefined || y === undefined || x.dtype !== 'i32') return undefined
      const [a, b] = [rangeOf(x), rangeOf(y)]
      const known = a === undefined || b === undefined ? undefined : decided(op, a, b)
      return known === undefined ? undefined : fullOf(node.shape, 'bool', known)
    },
  ),
)
