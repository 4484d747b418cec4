/**
 * Regions: the part of a graph that one kernel computes, and which nodes cost nothing to repeat. A node outside a region is
 * loaded from memory, except views and sources, which every region evaluates for itself through index maps.
 */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'

export interface Region {
  /** Nodes computed here (views and sources need not be listed). */
  readonly members: ReadonlySet<Node>
  /** Members (or views of them) that are stored. */
  readonly outputs: readonly Node[]
  /** The order in which outputs are bound to axes, where sizes are not to decide it. */
  readonly order?: readonly Node[]
}

/** Views and generated values are evaluated where they are used: they never stand in memory for their own sake. */
export function isFree(node: Node): boolean {
  const family = familyOf(node)
  if (family === 'view') return true
  if (node.op === 'constant') return sizeOf(node.shape) === 1
  return family === 'source' && node.op !== 'param'
}

/** Whether a node folds elements of what it reads: a reduction, a scan, a contraction. */
export function foldsElements(node: Node): boolean {
  const family = familyOf(node)
  return family === 'reduction' || family === 'contraction' || family === 'scan'
}

/** Results in the order in which a kernel binds them to axes: the largest first, then the latest. */
export const inStoringOrder = (outputs: readonly Node[]): readonly Node[] =>
  outputs.length < 2 ? outputs : [...outputs].sort((p, q) => sizeOf(q.shape) - sizeOf(p.shape) || q.id - p.id)

/** Bytes of a node's elements, none of them packed. */
export const bytesOf = (node: Node): number => sizeOf(node.shape) * dtypeBytes(node.dtype)

/** The node whose buffer holds a node's elements in the same order: reshapes and effects are the same memory. */
export function storageOf(node: Node): Node {
  let n = node
  for (;;) {
    const [x] = n.inputs
    if ((n.op !== 'reshape' && n.op !== 'inspect') || x === undefined) return n
    n = x
  }
}

/** A node as reports name it: the user's operation, and the primitive it became. */
export const describeNode = ({ op, origin }: Node): string =>
  origin.name === 'unknown' || origin.name === op ? op : `${origin.name}/${op}`

const inputsOf = new WeakMap<Node, readonly Node[]>()

/** Non-free nodes a node reads through views. */
export function dataInputs(node: Node): readonly Node[] {
  const have = inputsOf.get(node)
  if (have !== undefined) return have
  const out: Node[] = []
  const stack = [...node.inputs]
  const seen = new Set<Node>()
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (seen.has(n)) continue
    seen.add(n)
    if (isFree(n)) stack.push(...n.inputs)
    else out.push(n)
  }
  inputsOf.set(node, out)
  return out
}

/** The non-free nodes that an operand is read as. */
export const readAs = (x: Node): readonly Node[] => (isFree(x) ? dataInputs(x) : [x])

const depths = new WeakMap<Node, number>()

/** Reductions, scans and contractions on the way from a node down to its sources, the node among them. */
export function reductionDepth(node: Node): number {
  const have = depths.get(node)
  if (have !== undefined) return have
  const stack = [node]
  for (let n = stack.at(-1); n !== undefined; n = stack.at(-1)) {
    const open = n.inputs.filter((x) => !depths.has(x))
    if (open.length > 0 && !depths.has(n)) {
      stack.push(...open)
      continue
    }
    stack.pop()
    const own = foldsElements(n) ? 1 : 0
    depths.set(n, own + n.inputs.reduce((most, x) => Math.max(most, depths.get(x) ?? 0), 0))
  }
  return depths.get(node) ?? 0
}

/** What a region evaluates for a value, the value among it: through views, down to what it reads. */
function evaluatedFor({ members }: Region, value: Node): Set<Node> {
  const out = new Set<Node>()
  const stack = [value]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (out.has(n) || !(members.has(n) || isFree(n))) continue
    out.add(n)
    stack.push(...n.inputs)
  }
  return out
}

/** Whether a product on the way down from a result sums over one of some others, which is made of a product itself. */
export function sumsOverResult(region: Region, result: Node, others: Iterable<Node>): boolean {
  const isProduct = (n: Node): boolean => n.op === 'contract'
  const products = [...evaluatedFor(region, result)].filter(isProduct)
  return [...others].some(
    (other) =>
      [...evaluatedFor(region, other)].some(isProduct) &&
      products.some((p) => p !== other && evaluatedFor(region, p).has(other)),
  )
}

const orders = new WeakMap<Node, readonly number[]>()
const noneOrOne: readonly (readonly number[])[] = [[], [0]]

/** Operands by number, those with fewer reductions first, so that later reductions find the axes of the full rows. */
export function shallowFirst(node: Node): readonly number[] {
  const have = noneOrOne[node.inputs.length] ?? orders.get(node)
  if (have !== undefined) return have
  const depths = node.inputs.map(reductionDepth)
  const order = node.inputs.map((_, i) => i).sort((a, b) => (depths[a] ?? 0) - (depths[b] ?? 0))
  orders.set(node, order)
  return order
}
