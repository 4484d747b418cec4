/**
 * What rewriting is told of graphs that stand for each other (`Generic`): slices that take everything at some samples and less at others, as one
 * of a table of positions does at the greatest length, which traces keep (`keepingViews`), and paddings by nothing; extents that vary, over which
 * literals are not folded; and literals that vary, of which none is a power of two but by chance.
 */

import type { Graph, Node } from '../../graph/node.ts'
import { nodesOf } from '../../graph/traverse.ts'
import type { Generic } from '../../rewrite/rule.ts'
import { sameShape } from '../../types/shape.ts'

const numberOf = (n: Node | undefined): number => (n?.op === 'full' ? Number(n.attrs.value) : Number.NaN)

/** For each of the graphs, which are one but for numbers, what of its extents may be chance. */
export function genericOf(graphs: readonly Graph[]): readonly Generic[] {
  const lists = graphs.map(nodesOf)
  const made = graphs.map(() => ({ ends: new Set<number>(), varying: new Set<number>(), numbers: new Set<number>() }))
  const [first = []] = lists
  if (lists.some((list) => list.length !== first.length)) return made
  const fixed = new Set<number>()
  const fixedNumbers = new Set<number>()
  for (const [i, { op, shape }] of first.entries()) {
    const shapes = lists.map((list) => list[i]?.shape ?? [])
    for (const [a, n] of shape.entries())
      if (shapes.every((s) => s[a] === n)) fixed.add(n)
      else for (const [s, other] of shapes.entries()) made[s]?.varying.add(other[a] ?? 0)
    if (op === 'full') {
      const values = lists.map((list) => numberOf(list[i]))
      const [value = 0] = values
      if (values.every((v) => v === value)) fixedNumbers.add(value)
      else for (const [s, v] of values.entries()) made[s]?.numbers.add(v)
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
  const numbers = new Set(made.flatMap((g) => [...g.numbers]))
  for (const n of fixedNumbers) if (numbers.has(n)) for (const g of made) g.numbers.add(n)
  return made
}
