/**
 * Computing forward values again for the backward pass: the graph with copies of them there. Copies are nodes of their own
 * (they are not hash-consed with the originals), so every later pass sees two computations.
 */
import { backwardOrigin, inOrigin } from '../../diagnostics/origin.ts'
import { makeNode, withContext } from '../../graph/build.ts'
import type { AttrsByOp, Graph, Node, OpName } from '../../graph/node.ts'
import type { Phases } from './phases.ts'

export interface Rematerialised {
  readonly graph: Graph
  /** Copies, and the forward value each stands for. */
  readonly copies: ReadonlyMap<Node, Node>
  /** The backward pass without the copies. */
  readonly backward: ReadonlySet<Node>
}

const again = (n: Node, inputs: readonly Node[]): Node =>
  makeNode<OpName>(n.op, inputs, n.attrs as AttrsByOp[OpName]) as Node

/**
 * The graph whose backward pass computes `values` again. The backward pass is rebuilt in its order with copies made where
 * they are first needed, so that an order by node ids computes them late.
 */
export function rematerialise(graph: Graph, phases: Phases, values: ReadonlySet<Node>): Rematerialised {
  return withContext(() => {
    const copies = new Map<Node, Node>()
    const images = new Map<Node, Node>()
    const copyOf = (root: Node): Node => {
      const stack = [root]
      for (let n = stack.at(-1); n !== undefined; n = stack.at(-1)) {
        const open = n.inputs.filter((x) => values.has(x) && !images.has(x))
        if (!images.has(n) && open.length > 0) {
          stack.push(...open)
          continue
        }
        stack.pop()
        if (images.has(n)) continue
        const { inputs, origin } = n
        const copy = inOrigin(backwardOrigin(origin), () =>
          again(
            n,
            inputs.map((x) => (values.has(x) ? (images.get(x) ?? x) : x)),
          ),
        )
        images.set(n, copy)
        copies.set(copy, n)
      }
      return images.get(root) ?? root
    }
    const rebuilt = new Map<Node, Node>()
    const seen = (x: Node): Node => (values.has(x) ? copyOf(x) : (rebuilt.get(x) ?? x))
    for (const n of [...phases.nodes].sort((a, b) => a.id - b.id)) {
      const late =
        phases.backward.has(n) ||
        (!phases.early.has(n) && !values.has(n) && n.inputs.some((x) => rebuilt.has(x) || values.has(x)))
      if (late && n.inputs.length > 0)
        rebuilt.set(
          n,
          inOrigin(n.origin, () => again(n, n.inputs.map(seen))),
        )
    }
    const image = (n: Node): Node => rebuilt.get(n) ?? n
    return {
      graph: { params: graph.params, outputs: graph.outputs.map(image), effects: graph.effects.map(image) },
      copies,
      backward: new Set([...phases.backward].map(image)),
    }
  })
}
