/**
 * Chains of two contractions as one kernel. What stands between two products is often no kernel with either alone: weights that are normalised need the first
 * product's rows whole, and is folded before the second. So after merging along edges all that lies between two products is tried
 * with both.
 */
import type { Node } from '../../graph/node.ts'
import { pointsOf } from '../body/body.ts'
import type { Group } from './groups.ts'
import { behindProduct, byMember } from './pieces.ts'
import type { Planner } from './planner.ts'

/** Kernels between two products at most. */
const mostBetween = 8

/** Whether a product's depth, and one of its sides, are what a program may hold whole. */
function fits(g: Group, width: number, ofSides: boolean): boolean {
  const { matrix, extents } = g.made?.roles ?? {}
  if (matrix === undefined || extents === undefined) return false
  const size = (axes: readonly string[]): number => pointsOf(extents, axes)
  return ofSides ? Math.min(size(matrix.m), size(matrix.n)) <= width : size(matrix.k) <= width
}

/** Products that lead to one through kernels without products, each with what lies between. */
function chainsTo(planner: Planner, last: Group): { readonly first: Group; readonly between: readonly Group[] }[] {
  const { all, links } = planner.groups
  const above = new Set<number>()
  const firsts = new Set<number>()
  const stack = [last.id]
  for (let id = stack.pop(); id !== undefined; id = stack.pop())
    for (const p of links.predecessors(id)) {
      const g = all.get(p)
      if (g?.made === undefined || g.boundary !== undefined || above.has(p) || firsts.has(p)) continue
      if (g.made.roles.kind === 'matrix') firsts.add(p)
      else if (g.made.roles.kind !== 'chain' && above.size < mostBetween) {
        above.add(p)
        stack.push(p)
      }
    }
  const leadsTo = (from: number): readonly Group[] => {
    const reached = new Set<number>()
    const next = [from]
    for (let id = next.pop(); id !== undefined; id = next.pop())
      for (const s of links.successors(id))
        if (above.has(s) && !reached.has(s)) {
          reached.add(s)
          next.push(s)
        }
    return [...reached].flatMap((id) => all.get(id) ?? [])
  }
  return [...firsts].flatMap((id) => {
    const first = all.get(id)
    return first === undefined ? [] : [{ first, between: leadsTo(id) }]
  })
}

/**
 * Joins two products and what lies between them, where that is a kernel which is modelled faster, with the end of the second or without; then what may
 * join it.
 */
export function fuseChains(planner: Planner, clusters: readonly ReadonlySet<Node>[]): void {
  const { groups, target } = planner
  const clusterOf = byMember(clusters)
  const width = Math.max(target.chains?.width ?? 0, target.vectorChains?.columns ?? 0)
  if (width === 0 || planner.mode === 'strict') return
  const joined: number[] = []
  const products = [...groups.all.values()].filter((g) => fits(g, width, true))
  for (const last of products) {
    if (!groups.all.has(last.id)) continue
    for (const { first, between } of chainsTo(planner, last)) {
      if (!fits(first, width, false)) continue
      const all = [first, ...between, last]
      const whole = planner.tryMergeChain(all, first, last)
      const behind = whole === undefined ? behindProduct(groups, last, clusterOf) : []
      const merged = whole !== undefined ? [whole] : behind.length > 0 ? planner.tryMergeChainBefore(all, behind) : []
      if (merged.length === 0) continue
      joined.push(...merged.map((g) => g.id))
      break
    }
  }
  if (joined.length > 0) planner.mergeEdges(joined.filter((id) => groups.all.has(id)))
}
