/** The linear part of a program: what depends on tangents, and what it needs of the values beside them. */
import type { Node } from '../graph/node.ts'
import { topologicalOrder } from '../graph/traverse.ts'

/** The nodes that depend on `inputs`, inputs included, of a topological order. */
export function linearNodes(order: readonly Node[], inputs: readonly Node[]): Set<Node> {
  const linear = new Set(inputs)
  for (const n of order) if (n.inputs.some((x) => linear.has(x))) linear.add(n)
  return linear
}

/** Made again where it is used instead of being handed over: generated values, and views that would only be stored larger or again. */
const isRemade = (n: Node): boolean =>
  n.op === 'full' || n.op === 'iota' || n.op === 'constant' || n.op === 'broadcast' || n.op === 'reshape'

/** What `results`, linear in `inputs`, need beside them. */
export function residualsOf(results: readonly Node[], inputs: readonly Node[]): Node[] {
  const order = topologicalOrder(results)
  const linear = linearNodes(order, inputs)
  const residuals = new Set<Node>()
  const waiting: Node[] = []
  for (const n of order) if (linear.has(n)) waiting.push(...n.inputs.filter((x) => !linear.has(x)))
  waiting.push(...results.filter((r) => !linear.has(r)))
  waiting.reverse()
  for (let n = waiting.pop(); n !== undefined; n = waiting.pop()) {
    if (isRemade(n)) waiting.push(...n.inputs)
    else residuals.add(n)
  }
  return [...residuals]
}
