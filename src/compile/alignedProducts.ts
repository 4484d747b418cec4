/**
 * Operands and results of products that are the user's and whose rows begin anywhere: each is a value of its own as well (an identity). Planning stores
 * the copy of an operand, and the product before the copy that is the result, in rows of whole groups (src/plan/cost/paddedRows.ts) where
 * the model finds that quicker than multiplying what is read, or storing what is made, element by element. So are operands that are joined of
 * several tensors (tokens before others, halves of a rotation): of a value that is stored tiles are copied, of others they are chosen element by element.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { pairsOf } from '../plan/body/alignment.ts'
import { isFree, storageOf } from '../plan/body/region.ts'
import { alignedRow } from '../plan/cost/paddedRows.ts'
import type { Machine } from '../target/machine.ts'
import { isForUnit, stored } from './windowOrder.ts'

/** The graph with such values around its products on matrix units; itself where there are none. */
export function alignProducts(graph: Graph, { rowAlignment, dotBlock }: Machine, mode: NumericsMode): Graph {
  if (mode === 'strict' || rowAlignment === undefined) return graph
  const copies = new Map<Node, Node>()
  const copyOf = (n: Node): Node => {
    const copy = copies.get(n) ?? stored(n)
    copies.set(n, copy)
    return copy
  }
  const results = resultsOf(graph, rowAlignment)
  const fewest = Math.min(...(dotBlock.grains ?? [dotBlock.m]))
  return mapGraph(graph, (node, inputs) => {
    if (node.op !== 'contract' || !isForUnit(node)) return withInputs(node, inputs)
    return inOrigin(node.origin, () => {
      const product = withInputs(
        node,
        inputs.map((x, i) => {
          const source = sourceOf(x)
          if (source === undefined) return x
          const isCopied =
            source.node.op === 'concat'
              ? usesOf(node, i) >= fewest
              : alignedRow(source.node, rowAlignment) !== undefined
          if (!isCopied) return x
          return source.views.reduceRight<Node>((inner, view) => withInputs(view, [inner]), copyOf(source.node))
        }),
      )
      return results.has(node) ? stored(product) : product
    })
  })
}

/** Products that are results, or are seen by results alone, and gain by room after their rows: what else reads one would have it stored twice. */
function resultsOf(graph: Graph, rowAlignment: NonNullable<Machine['rowAlignment']>): ReadonlySet<Node> {
  const nodes = nodesOf(graph)
  const users = usersOf(nodes)
  /** What nothing but views read, and those likewise. */
  const seen = new Set<Node>()
  for (const n of nodes.toReversed()) if ((users.get(n) ?? []).every((u) => isFree(u) && seen.has(u))) seen.add(n)
  return new Set(graph.outputs.map(storageOf).filter((n) => alignedRow(n, rowAlignment) !== undefined && seen.has(n)))
}

/** How often a product takes each element of an operand. */
function usesOf({ attrs: { lhs, rhs, out }, shape }: NodeOf<'contract'>, operand: number): number {
  const own = operand === 0 ? lhs : rhs
  return [...out].reduce((n, letter, d) => (own.includes(letter) ? n : n * (shape[d] ?? 1)), 1)
}

/** The concatenation, or the input or constant, that an operand is a view of, and the views (outermost first); of the latter, if none counts through its rows and others as one. */
function sourceOf(operand: Node): { readonly node: Node; readonly views: readonly Node[] } | undefined {
  const views: Node[] = []
  let node = operand
  for (; isFree(node) && node.inputs.length === 1; node = node.inputs[0] ?? node) views.push(node)
  if (node.op === 'concat') return { node, views }
  if (isFree(node) || (node.op !== 'param' && node.op !== 'constant')) return undefined
  let axis: number | undefined = node.shape.length - 1
  for (const view of views.toReversed()) {
    const [inner] = view.inputs
    axis = inner === undefined ? undefined : pairsOf(view, inner, 0).find(([, d]) => d === axis)?.[0]
    if (axis === undefined) return undefined
  }
  return { node, views }
}
