/** Pieces of a group: what of the clusters that planning started from is in it. */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { dataInputs } from '../body/region.ts'
import { ancestorsWithin } from './clusters.ts'
import type { Group, Groups } from './groups.ts'

/** The cluster of each node. */
export function byMember(clusters: readonly ReadonlySet<Node>[]): ReadonlyMap<Node, ReadonlySet<Node>> {
  const out = new Map<Node, ReadonlySet<Node>>()
  for (const c of clusters) for (const n of c) out.set(n, c)
  return out
}

/**
 * Some members of a group that it is home to, by the cluster they come from, each with what the group computes again for it: others read nothing
 * then that nobody stores.
 */
export function piecesOf(
  groups: Groups,
  g: Group,
  members: ReadonlySet<Node>,
  clusterOf: ReadonlyMap<Node, ReadonlySet<Node>>,
): Set<Node>[] {
  const own = [...members].filter((n) => groups.isHome(g, n))
  const pieces = new Map<ReadonlySet<Node> | undefined, Set<Node>>()
  for (const n of own) {
    const cluster = clusterOf.get(n)
    const piece = pieces.get(cluster) ?? new Set()
    pieces.set(cluster, piece.add(n))
  }
  return pieces.size > 1
    ? [...pieces.values()].map((piece) => withCopies(groups, g, piece))
    : nodePieces(groups, g, members)
}

/** Every one of some members of a group that it is home to, with what the group computes again for it. */
export const nodePieces = (groups: Groups, g: Group, members: ReadonlySet<Node> = g.members): Set<Node>[] =>
  [...members].filter((n) => groups.isHome(g, n)).map((n) => withCopies(groups, g, new Set([n])))

/** A piece of a group with what the group computes again for it. */
function withCopies(groups: Groups, g: Group, piece: Set<Node>): Set<Node> {
  const stack = [...piece]
  for (let n = stack.pop(); n !== undefined; n = stack.pop())
    for (const x of dataInputs(n))
      if (g.members.has(x) && !groups.isHome(g, x) && !piece.has(x)) {
        piece.add(x)
        stack.push(x)
      }
  return piece
}

/**
 * Pieces of a product's kernel that the product does not need: its end, which a chain may have no place for (a fold of all results). Where a kernel has
 * several products there is no such end.
 */
export function behindProduct(groups: Groups, g: Group, clusterOf: ReadonlyMap<Node, ReadonlySet<Node>>): Set<Node>[] {
  const [product, other] = [...g.members].filter((n) => familyOf(n) === 'contraction')
  if (product === undefined || other !== undefined) return []
  const needed = ancestorsWithin(product, g.members)
  return piecesOf(groups, g, new Set([...g.members].filter((n) => !needed.has(n))), clusterOf)
}
