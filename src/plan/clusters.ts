/** What planning starts from: which nodes must stand in memory, and the groups that need no trial. */
import type { Graph, Node } from '../graph/node.ts'
import { familyOf, opDef } from '../graph/table.ts'
import { dataInputs, storageOf } from './region.ts'
import type { TargetInfo } from './target.ts'

/** A node and the members it needs. */
export function ancestorsWithin(root: Node, members: ReadonlySet<Node>): Set<Node> {
  const out = new Set<Node>([root])
  const stack = [root]
  for (let n = stack.pop(); n !== undefined; n = stack.pop())
    for (const x of dataInputs(n))
      if (members.has(x) && !out.has(x)) {
        out.add(x)
        stack.push(x)
      }
  return out
}

/**
 * Elementwise nodes joined with the one elementwise node that uses them: always legal and never a loss, so it needs no trial
 * (trials are what planning costs).
 */
export function chains(units: readonly Node[], demanded: ReadonlySet<Node>, target: TargetInfo): Set<Node>[] {
  const isUnit = new Set(units)
  const users = new Map<Node, Set<Node>>()
  for (const n of units)
    for (const x of dataInputs(n)) {
      const set = users.get(x) ?? new Set()
      set.add(n)
      users.set(x, set)
    }
  const cluster = new Map<Node, { readonly members: Set<Node>; readonly inputs: Set<Node> }>()
  for (const n of [...units].reverse()) {
    const own = { members: new Set([n]), inputs: new Set(dataInputs(n)) }
    const [user, second] = users.get(n) ?? []
    const into = user === undefined || second !== undefined ? undefined : cluster.get(user)
    const joins =
      into !== undefined &&
      user?.inputs.includes(n) === true &&
      familyOf(n) === 'elementwise' &&
      familyOf(user) === 'elementwise' &&
      !demanded.has(n) &&
      isUnit.has(user) &&
      into.inputs.size + own.inputs.size <= target.maxBuffers / 2 &&
      into.members.size < target.maxStatements / 4
    if (!joins || into === undefined) {
      cluster.set(n, own)
      continue
    }
    into.members.add(n)
    into.inputs.delete(n)
    for (const x of own.inputs) into.inputs.add(x)
    cluster.set(n, into)
  }
  return [...new Set(cluster.values())].map((c) => c.members)
}

/** The clusters, those of regions with the results that are used of them, so that a region's group is home to its results. */
export function withResults(clusters: readonly ReadonlySet<Node>[], nodes: readonly Node[]): ReadonlySet<Node>[] {
  const results = new Map<Node, Node[]>()
  for (const n of nodes) {
    const [region] = n.inputs
    if (n.op === 'result' && region !== undefined) results.set(region, [...(results.get(region) ?? []), n])
  }
  if (results.size === 0) return [...clusters]
  return clusters.map((c) => {
    const [n] = c
    const own = n === undefined ? undefined : results.get(n)
    return own === undefined ? c : new Set([...c, ...own])
  })
}

/** Nodes whose elements must stand in memory: results, and what boundaries read. */
export function demandedNodes(graph: Graph, nodes: readonly Node[]): Set<Node> {
  const out = new Set<Node>()
  for (const n of graph.outputs) out.add(storageOf(n))
  for (const n of nodes) for (const x of standingInputs(n)) out.add(x)
  return out
}

/** The nodes in whose buffers a boundary finds its inputs (none for other nodes). */
export function standingInputs(node: Node): Node[] {
  const { boundary } = opDef(node)
  // A region's results stand where the region put them.
  if (boundary === undefined || node.op === 'result') return []
  // A scatter copies its first input and reads the others through views.
  return (boundary === 'scatter' ? node.inputs.slice(0, 1) : node.inputs).map(storageOf)
}
