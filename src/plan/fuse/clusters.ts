/** What planning starts from: which nodes must stand in memory, and the groups that need no trial. */
import type { Graph, Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { fits16, narrowRange } from '../../scalar/narrow.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { standingInputs } from '../body/reads.ts'
import { dataInputs, type Region, storageOf } from '../body/region.ts'

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

/** A group without some of its outputs, and without what only those needed; what is `kept` of that stands in memory. */
export function without(
  g: { readonly members: ReadonlySet<Node>; readonly outputs: readonly Node[] },
  results: readonly Node[],
  kept: readonly Node[] = [],
): Region {
  const outputs = [...new Set([...g.outputs.filter((n) => !results.includes(n)), ...kept])]
  return { members: new Set(outputs.flatMap((n) => [...ancestorsWithin(n, g.members)])), outputs }
}

/**
 * Elementwise nodes joined with the one elementwise node that uses them: always legal and never a loss, so it needs no trial
 * (trials are what planning costs).
 */
function chains(units: readonly Node[], demanded: ReadonlySet<Node>, target: Machine): Set<Node>[] {
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

/**
 * A contraction of two tensors that are widened for it alone, with both casts: either one alone would leave operands of different
 * dtypes, which no library takes, nor a unit for 16 bits. Never a loss, since kernels widen what they load.
 */
function withOperandCasts(clusters: readonly Set<Node>[], demanded: ReadonlySet<Node>): Set<Node>[] {
  const users = new Map<Node, number>()
  const alone = new Map<Node, Set<Node>>()
  for (const c of clusters) {
    const [n] = c
    if (c.size === 1 && n !== undefined) alone.set(n, c)
    for (const m of c) for (const x of dataInputs(m)) users.set(x, (users.get(x) ?? 0) + 1)
  }
  const taken = new Set<Set<Node>>()
  for (const [n, c] of alone) {
    if (familyOf(n) !== 'contraction') continue
    const operands = [...new Set(dataInputs(n))]
    const [from] = operands[0]?.inputs ?? []
    const widened = operands.every(
      (x) =>
        x.op === 'cast' &&
        alone.has(x) &&
        !demanded.has(x) &&
        users.get(x) === 1 &&
        x.inputs[0]?.dtype === from?.dtype &&
        dtypeBytes(x.inputs[0]?.dtype ?? x.dtype) < dtypeBytes(x.dtype),
    )
    if (!widened || operands.length !== new Set(n.inputs).size) continue
    for (const x of operands) {
      c.add(x)
      const own = alone.get(x)
      if (own !== undefined) taken.add(own)
    }
  }
  return clusters.filter((c) => !taken.has(c))
}

/** Whether a contraction multiplies rows by columns, of integers that are widened for it from 16 bits or fewer. */
function isOfShortIntegers(n: Node): boolean {
  if (n.op !== 'contract' || n.dtype !== 'i32') return false
  const { lhs, rhs, out } = n.attrs
  const has = (own: string, other: string): boolean => [...own].some((l) => out.includes(l) && !other.includes(l))
  const operands = dataInputs(n)
  return has(lhs, rhs) && has(rhs, lhs) && operands.length > 0 && operands.every(isWidened)
}

/** Whether a value is integers of another dtype that 16 bits with a sign hold. */
const isWidened = (x: Node): boolean => x.op === 'cast' && fits16(x.inputs[0] && narrowRange(x.inputs[0].dtype))

/**
 * Contractions of short integers with the casts that widen their operands, each with its own: what stands in memory are the short ones, and a product
 * whose operands are both seen to be short takes less than one that sees one of them. Either cast alone would gain nothing, so no trial would find it.
 */
function withWideningCasts(clusters: readonly Set<Node>[], demanded: ReadonlySet<Node>): Set<Node>[] {
  const takers = new Map<Node, Set<Node>[]>()
  for (const c of clusters)
    for (const n of [...c]) {
      if (!isOfShortIntegers(n)) continue
      for (const x of dataInputs(n)) {
        c.add(x)
        takers.set(x, [...(takers.get(x) ?? []), c])
      }
    }
  if (takers.size === 0) return [...clusters]
  const others = new Set<Node>()
  for (const c of clusters)
    for (const n of c) for (const x of dataInputs(n)) if (takers.get(x)?.includes(c) === false) others.add(x)
  for (const c of clusters)
    for (const [x, into] of takers) if (!into.includes(c) && !others.has(x) && !demanded.has(x)) c.delete(x)
  return clusters.filter((c) => c.size > 0)
}

/** The groups that need no trial. */
export function startingClusters(units: readonly Node[], demanded: ReadonlySet<Node>, target: Machine): Set<Node>[] {
  const joined = chains(units, demanded, target)
  const wide = target.integerMatrixRate === undefined ? joined : withWideningCasts(joined, demanded)
  const takesBoth = target.library !== undefined || target.plainMatrixRate !== undefined
  return takesBoth ? withOperandCasts(wide, demanded) : wide
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
