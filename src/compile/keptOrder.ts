/**
 * Values that products read in another order (`windowOrder.ts`) stand in that order alone, where nothing else needs the one they have: sums of residual
 * blocks are read by the next block's product and by its sum, which is read so in turn. Otherwise a kernel would store each twice.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { sameShape } from '../types/shape.ts'
import { copyOf, stored } from './windowOrder.ts'

/** The graph with such values read through their copies. */
export function keepOrder(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  const users = usersOf(nodes)
  const demanded = new Set<Node>([...graph.outputs, ...graph.effects])
  /** The views that copies are made of, by what they show. */
  const views = new Map<Node, NodeOf<'permute'>>()
  const copies = new Map<Node, Node>()
  for (const n of nodes) {
    const copy = copyOf(n)
    if (copy === undefined) continue
    const { source, view } = copy
    if (familyOf(source) !== 'elementwise' || demanded.has(source) || views.has(source)) continue
    views.set(source, view)
    copies.set(n, source)
  }
  if (views.size === 0) return graph
  /** Values that become, point by point and nothing else, values that have copies. */
  const leading = new Set<Node>()
  const isAlike = (n: Node, user: Node): boolean =>
    familyOf(user) === 'elementwise' && sameShape(user.shape, n.shape) && leading.has(user)
  for (const n of nodes.toReversed()) {
    const of = users.get(n) ?? []
    if (views.has(n) || (of.length > 0 && !demanded.has(n) && of.every((u) => isAlike(n, u)))) leading.add(n)
  }
  const settled = new Set(
    [...views].flatMap(([n, view]) => ((users.get(n) ?? []).every((u) => u === view || isAlike(n, u)) ? [n] : [])),
  )
  const made = new Map<Node, { readonly copy: Node; readonly back: Node }>()
  return mapGraph(graph, (node, inputs) => {
    const source = copies.get(node)
    const own = source === undefined ? undefined : made.get(source)
    if (own !== undefined) return own.copy
    const image = withInputs(
      node,
      inputs.map((x, i) => (familyOf(node) === 'elementwise' ? (made.get(node.inputs[i] as Node)?.back ?? x) : x)),
    )
    const view = settled.has(node) ? views.get(node) : undefined
    if (view !== undefined) {
      const { perm } = view.attrs
      const copy = inOrigin(node.origin, () => stored(makeNode('permute', [image], { perm })))
      made.set(node, { copy, back: makeNode('permute', [copy], { perm: perm.map((_, d) => perm.indexOf(d)) }) })
    }
    return image
  })
}
