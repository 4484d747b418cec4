/** The linear part of a program: what depends on tangents, and what it needs of the values beside them. */
import type { Node } from '../graph/node.ts'
import { opDef } from '../graph/table.ts'
import { topologicalOrder } from '../graph/traverse.ts'

/** The nodes that depend on `inputs`, inputs included, of a topological order. */
export function linearNodes(order: readonly Node[], inputs: readonly Node[]): Set<Node> {
  const linear = new Set(inputs)
  for (const n of order) if (n.inputs.some((x) => linear.has(x))) linear.add(n)
  return linear
}

/** Made again where it is used instead of being handed over: generated values, and views that would only be stored larger or again. */
export const isRemade = (n: Node): boolean =>
  n.op === 'full' || n.op === 'iota' || n.op === 'constant' || n.op === 'broadcast' || n.op === 'reshape'

/** The values of checkpointed regions that are read inside their region alone: they are computed again, not handed over. */
function insideRegions(order: readonly Node[]): Set<Node> {
  const inside = new Set(order.filter((n) => n.origin.checkpoint !== undefined && opDef(n).boundary !== 'effect'))
  for (const n of order) for (const x of n.inputs) if (x.origin.checkpoint !== n.origin.checkpoint) inside.delete(x)
  return inside
}

/** What `results`, linear in `inputs`, need beside them. */
export function residualsOf(results: readonly Node[], inputs: readonly Node[]): Node[] {
  const order = topologicalOrder(results)
  const linear = linearNodes(order, inputs)
  const inside = insideRegions(order)
  const residuals = new Set<Node>()
  const waiting: Node[] = []
  for (const n of order) if (linear.has(n)) waiting.push(...n.inputs.filter((x) => !linear.has(x)))
  waiting.push(...results.filter((r) => !linear.has(r)))
  waiting.reverse()
  for (let n = waiting.pop(); n !== undefined; n = waiting.pop()) {
    if (isRemade(n) || (n.op !== 'param' && inside.has(n))) waiting.push(...n.inputs)
    else residuals.add(n)
  }
  return [...residuals]
}
