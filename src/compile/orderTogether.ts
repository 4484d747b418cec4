/**
 * Values that stand in another order as a whole. Where products read some values in another order (`windowOrder.ts`), those values, what they are computed
 * from point by point and what is computed from them point by point are one network of values of one shape: sums of residual blocks, normalisations,
 * activations and the gradients of all three. If each product that makes one of them may store it in that order, and whoever else reads one reads it in any
 * (a sum over what is not a channel, another product of 16 bits), all of them stand in that order alone, and nothing is stored across memory.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode, withContext } from '../graph/build.ts'
import type { AttrsByOp, Graph, Node, OpName } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { readAs } from '../plan/body/region.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sameShape, sizeOf } from '../types/shape.ts'
import { type Copy, copyOf, isForUnit } from './windowOrder.ts'

/** Of a value's size, what an operand may have that is read across. */
const small = 1 / 8

/** The graph with such networks of values in one order; itself where there are none. */
export function orderTogether(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  const copies = new Map(
    nodes.flatMap((n): [Node, Copy][] => {
      const copy = copyOf(n)
      return copy === undefined ? [] : [[n, copy]]
    }),
  )
  if (copies.size === 0) return graph
  const orders = new Orders(nodes, new Set([...graph.outputs, ...graph.effects]), [...copies.values()])
  if (orders.perms.size === 0) return graph
  /** What stands in the other order, by the views that show it in its own. */
  const within = new Map<Node, Node>()
  const turned = (x: Node, perm: readonly number[]): Node => within.get(x) ?? makeNode('permute', [x], { perm })
  return withContext(() =>
    mapGraph(graph, (node, inputs) => {
      const copy = copies.get(node)
      const [view] = inputs
      if (copy !== undefined && orders.perms.has(copy.source)) {
        const shown = view?.inputs[0]
        return (shown === undefined ? undefined : within.get(shown)) ?? withInputs(node, inputs)
      }
      const perm = orders.perms.get(node)
      if (perm === undefined) return withInputs(node, inputs)
      return inOrigin(node.origin, () => {
        const made =
          node.op === 'contract'
            ? makeNode('contract', inputs, { ...node.attrs, out: perm.map((d) => node.attrs.out[d]).join('') })
            : makeNode<OpName>(
                node.op,
                inputs.map((x) => turned(x, perm)),
                node.attrs as AttrsByOp[OpName],
              )
        const back = makeNode('permute', [made as Node], { perm: perm.map((_, d) => perm.indexOf(d)) })
        within.set(back, made as Node)
        return back
      })
    }),
  )
}

/** Which values of a graph stand in another order. */
class Orders {
  readonly perms = new Map<Node, readonly number[]>()
  private readonly users: ReadonlyMap<Node, readonly Node[]>
  private readonly demanded: ReadonlySet<Node>

  constructor(nodes: readonly Node[], demanded: ReadonlySet<Node>, copies: readonly Copy[]) {
    this.users = usersOf(nodes)
    this.demanded = demanded
    const seen = new Set<Node>()
    for (const { source, view } of copies) {
      if (seen.has(source) || !isMember(source)) continue
      const members = this.networkOf(source)
      for (const m of members) seen.add(m)
      const { perm } = view.attrs
      if ([...members].every((m) => this.mayStand(m, members, perm))) for (const m of members) this.perms.set(m, perm)
    }
  }

  /** All values of one shape that are computed from each other point by point, and products among them. */
  private networkOf(first: Node): ReadonlySet<Node> {
    const out = new Set([first])
    const stack = [first]
    const enter = (n: Node): void => {
      if (out.has(n) || !isMember(n) || !sameShape(n.shape, first.shape)) return
      out.add(n)
      stack.push(n)
    }
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (n.op !== 'contract') for (const x of n.inputs) enter(x)
      for (const u of this.users.get(n) ?? []) if (familyOf(u) === 'elementwise') enter(u)
    }
    return out
  }

  private mayStand(n: Node, members: ReadonlySet<Node>, perm: readonly number[]): boolean {
    if (this.demanded.has(n)) return false
    if (n.op !== 'contract' && !n.inputs.every((x) => members.has(x) || isSmall(x, n))) return false
    return (this.users.get(n) ?? []).every((u) => members.has(u) || this.readsInAny(u, n, perm))
  }

  /** Whether a node reads another as fast in one order as in the other. */
  private readsInAny(user: Node, of: Node, perm: readonly number[]): boolean {
    if (user.op === 'permute' && sameShape(user.attrs.perm, perm)) return true
    if (user.op === 'reduce') {
      const kept = perm.filter((d) => !user.attrs.axes.includes(d))
      return kept.every((d, i) => i === 0 || d > (kept[i - 1] ?? 0)) && sizeOf(user.shape) <= small * sizeOf(of.shape)
    }
    return this.isReadByProducts(user)
  }

  /** Whether a node is a product of 16 bits, or a view that only such products read. */
  private isReadByProducts(user: Node): boolean {
    const stack = [user]
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (n.op === 'contract' && isForUnit(n) && dtypeBytes(n.dtype) === 2) continue
      const users = familyOf(n) === 'view' ? (this.users.get(n) ?? []) : []
      if (users.length === 0 || this.demanded.has(n)) return false
      stack.push(...users)
    }
    return true
  }
}

const isMember = (n: Node): boolean => familyOf(n) === 'elementwise' || n.op === 'contract'

/** Whether an operand is made of few elements, or of none in memory. */
const isSmall = (x: Node, of: Node): boolean =>
  readAs(x).reduce((n, y) => n + sizeOf(y.shape), 0) <= small * sizeOf(of.shape)
