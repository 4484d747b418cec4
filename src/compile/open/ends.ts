/**
 * Slices that take everything at some samples and less at others, as one of a table of positions does at the greatest length. Traces keep
 * them (`keepingViews`), so that graphs at all samples are one; rewriting must keep them too.
 */

import type { Graph } from '../../graph/node.ts'
import { nodesOf } from '../../graph/traverse.ts'
import { sameShape } from '../../types/shape.ts'

/** For each of the graphs, which are one but for numbers, the extents along which a slice may take everything at some and less at others. */
export function endsOf(graphs: readonly Graph[]): readonly ReadonlySet<number>[] {
  const lists = graphs.map(nodesOf)
  const ends = graphs.map(() => new Set<number>())
  const [first = []] = lists
  if (lists.some((list) => list.length !== first.length)) return ends
  for (const [i, { op }] of first.entries()) {
    if (op !== 'slice') continue
    const pairs = lists.map((list) => ({ from: list[i]?.inputs[0]?.shape ?? [], to: list[i]?.shape ?? [] }))
    const whole = pairs.filter(({ from, to }) => sameShape(from, to)).length
    if (whole === 0 || whole === pairs.length) continue
    const axes = (first[i]?.shape ?? []).flatMap((_, a) => (pairs.some(({ from, to }) => from[a] !== to[a]) ? [a] : []))
    for (const [s, { from, to }] of pairs.entries())
      for (const a of axes) for (const n of [from[a], to[a]]) if (n !== undefined) ends[s]?.add(n)
  }
  return ends
}
