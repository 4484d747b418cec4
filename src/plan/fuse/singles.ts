/**
 * Single values computed again in every cluster that uses them. Stored by a kernel of their own, or by one of their users,
 * they would tie kernels together that are independent otherwise, for a few operations a program.
 */

import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import type { Machine } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { bytesOf, dataInputs } from '../body/region.ts'
import { elementwiseSeconds } from '../cost/cost.ts'
import type { Recomputed } from '../plan.ts'

type Cluster = ReadonlySet<Node>

const isElementwise = (c: Cluster): boolean => [...c].every((n) => familyOf(n) === 'elementwise')

/** Seconds that evaluating the nodes once takes. */
function secondsOf(nodes: Iterable<Node>, target: Machine): number {
  let seconds = 0
  for (const n of nodes) seconds += elementwiseSeconds(n, target)
  return seconds
}

/**
 * Adds every chain (`chains` made them) that computes one element, by elementwise operations on what stands in memory, to the
 * elementwise chains that use it, where there are several and the arithmetic in all their programs takes less than two launches.
 * No trial refuses what is made here: it takes half the statements of a kernel at most.
 */
export function spreadSingles(
  clusters: readonly Cluster[],
  demanded: ReadonlySet<Node>,
  target: Machine,
): { readonly clusters: readonly Cluster[]; readonly recomputed: readonly Recomputed[] } {
  const singles = clusters.filter(
    (c) => isElementwise(c) && [...c].every((n) => sizeOf(n.shape) === 1 && !demanded.has(n)),
  )
  if (singles.length === 0) return { clusters, recomputed: [] }
  const members = new Map(clusters.map((c) => [c, new Set(c)]))
  const users = new Map<Node, Set<Cluster>>()
  for (const c of clusters)
    for (const n of c)
      for (const x of dataInputs(n)) {
        if (c.has(x)) continue
        const set = users.get(x) ?? new Set()
        users.set(x, set.add(c))
      }
  const recomputed: Recomputed[] = []
  const last = (c: Cluster): number => [...c].reduce((most, n) => Math.max(most, n.id), 0)
  // Inputs before users: what a single value is made of has become part of it already.
  for (const c of singles.sort((p, q) => last(p) - last(q))) {
    const own = members.get(c) ?? new Set()
    const root = [...c].find((n) => (users.get(n)?.size ?? 0) > 0)
    const into = [...((root === undefined ? undefined : users.get(root)) ?? [])]
    if (root === undefined || into.length < 2 || !into.every(isElementwise)) continue
    const programs = into.reduce((total, u) => {
      const points = [...u].reduce((most, n) => Math.max(most, sizeOf(n.shape)), 1)
      return total + Math.ceil(points / target.elementBlock)
    }, 0)
    // Its launch, and that of its users, which wait for its end.
    if (programs * secondsOf(own, target) > 2 * target.launch) continue
    if (into.some((u) => own.size + (members.get(u)?.size ?? 0) > target.maxStatements / 2)) continue
    for (const u of into) for (const n of own) members.get(u)?.add(n)
    for (const n of own)
      for (const x of dataInputs(n)) {
        const set = users.get(x)
        if (set?.delete(c) === true) for (const u of into) set.add(u)
      }
    members.delete(c)
    recomputed.push({ node: root, consumers: into.length, savedBytes: bytesOf(root) * (1 + into.length) })
  }
  return { clusters: [...members.values()], recomputed }
}
