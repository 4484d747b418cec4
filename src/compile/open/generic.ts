/**
 * What rewriting is told of graphs that stand for each other (`Generic`): slices that take everything at some samples and less at others, as one
 * of a table of positions does at the greatest length, which traces keep (`keepingViews`), and paddings by nothing; extents that vary, over which
 * literals are not folded; and literals that vary, of which none is a power of two but by chance.
 */

import type { Node } from '../../graph/node.ts'
import type { Generic } from '../../rewrite/rule.ts'
import type { Range } from '../../scalar/narrow.ts'
import { sameShape } from '../../types/shape.ts'
import type { Aligned } from './align.ts'

const numberOf = (n: Node | undefined): number => (n?.op === 'full' ? Number(n.attrs.value) : Number.NaN)

const everything: Range = { lo: Number.NEGATIVE_INFINITY, hi: Number.POSITIVE_INFINITY }

const hullOf = (values: readonly number[]): Range => ({ lo: Math.min(...values), hi: Math.max(...values) })

function widen(ranges: Map<number, Range>, n: number, by: Range): void {
  const have = ranges.get(n) ?? by
  ranges.set(n, { lo: Math.min(have.lo, by.lo), hi: Math.max(have.hi, by.hi) })
}

/**
 * For each of the graphs, which are one but for numbers, what of its extents may be chance. `isBounded`: they have all corners of the range among
 * them, so that a number is nowhere more or less than at some.
 */
export function genericOf({ nodes: lists }: Aligned, isBounded: boolean): readonly Generic[] {
  // One number at one sample is another at others, and rewriting may make it of fixed ones anywhere: told alike at all of them.
  const numbers = new Map<number, Range>()
  const made = lists.map(() => ({ ends: new Set<number>(), varying: new Set<number>(), numbers }))
  const [first = []] = lists
  const fixed = new Set<number>()
  for (const [i, { op, shape }] of first.entries()) {
    const shapes = lists.map((list) => list[i]?.shape ?? [])
    for (const [a, n] of shape.entries())
      if (shapes.every((s) => s[a] === n)) fixed.add(n)
      else for (const [s, other] of shapes.entries()) made[s]?.varying.add(other[a] ?? 0)
    if (op === 'full') {
      const values = lists.map((list) => numberOf(list[i]))
      const [value = 0] = values
      const range = isBounded ? hullOf(values) : everything
      if (values.some((v) => v !== value)) for (const v of values) widen(numbers, v, range)
    }
    if (op !== 'slice' && op !== 'pad') continue
    const pairs = lists.map((list) => ({ from: list[i]?.inputs[0]?.shape ?? [], to: list[i]?.shape ?? [] }))
    const whole = pairs.filter(({ from, to }) => sameShape(from, to)).length
    if (whole === 0 || whole === pairs.length) continue
    const axes = shape.flatMap((_, a) => (pairs.some(({ from, to }) => from[a] !== to[a]) ? [a] : []))
    for (const [s, { from, to }] of pairs.entries())
      for (const a of axes) for (const n of [from[a], to[a]]) if (n !== undefined) made[s]?.ends.add(n)
  }
  // An extent that is fixed here and one that varies at another sample are told apart nowhere.
  const somewhere = new Set(made.flatMap((g) => [...g.varying]))
  for (const n of fixed) if (somewhere.has(n)) for (const g of made) g.varying.add(n)
  return made
}
