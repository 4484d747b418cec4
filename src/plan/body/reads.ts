/**
 * What nodes read that are steps of their own: the buffers they are given, not what stands behind those in the graph. A node whose
 * elements stand in a buffer of its own (`storageOf` is itself) names that buffer.
 */
import type { Node, NodeOf } from '../../graph/node.ts'
import { opDef } from '../../graph/table.ts'
import { dataInputs, isFree, storageOf } from './region.ts'

export interface Reads {
  /** Buffers that are read. */
  readonly buffers: ReadonlySet<Node>
  /** Effects that come before: those on what is read, and for an effect the one before it. */
  readonly follows: ReadonlySet<Node>
}

/** Whether a node is an effect: its elements stand where those of what it sees do. */
export const isEffect = (n: Node): boolean => opDef(n).boundary === 'effect'

/** Whether places of a scatter that no update goes to keep what its target holds. */
export const copiesTarget = (node: NodeOf<'scatter'>): boolean => node.attrs.covers !== true

/** The nodes in whose buffers a boundary finds its inputs as they are (none for other nodes). */
export function standingInputs(node: Node): Node[] {
  const { boundary } = opDef(node)
  // A region's results stand where the region put them.
  if (boundary === undefined || node.op === 'result') return []
  // A scatter copies its first input, unless it writes all of it, and reads the others through views.
  return (node.op === 'scatter' ? node.inputs.slice(0, copiesTarget(node) ? 1 : 0) : node.inputs).map(storageOf)
}

/** The buffer that a node stands in, and the last effect on it. */
function standing(node: Node, buffers: Set<Node>, follows: Set<Node>): void {
  buffers.add(storageOf(node))
  let n: Node | undefined = node
  while (n?.op === 'reshape') n = n.inputs[0]
  if (n !== undefined && isEffect(n)) follows.add(n)
}

const known = new WeakMap<Node, Reads>()

/** What a boundary reads (its node; results of a region read nothing). */
export function readsOfBoundary(node: Node): Reads {
  const have = known.get(node)
  if (have !== undefined) return have
  const buffers = new Set<Node>()
  const follows = new Set<Node>()
  const asTheyAre = node.op === 'result' ? 0 : node.op === 'scatter' ? Number(copiesTarget(node)) : node.inputs.length
  node.inputs.forEach((x, i) => {
    if (isEffect(node) && i > 0) follows.add(x)
    else if (i < asTheyAre) standing(x, buffers, follows)
    else if (node.op !== 'result' && !(node.op === 'scatter' && i === 0))
      for (const y of isFree(x) ? dataInputs(x) : [x]) standing(y, buffers, follows)
  })
  const made = { buffers, follows }
  known.set(node, made)
  return made
}

/** What others must have made or done before a boundary: the buffers it reads, and effects. */
export function boundaryInputs(node: Node): Node[] {
  const { buffers, follows } = readsOfBoundary(node)
  return [...buffers, ...follows]
}
