/** The field's arithmetic of operations run alone: bytes each user-visible operation would read and write by itself. */
import type { Graph, Node } from '../graph/node.ts'
import { opDef } from '../graph/table.ts'
import { nodesOf } from '../graph/traverse.ts'
import { isFree } from '../plan/region.ts'
import type { InnerRole } from '../runtime/program.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { amountOf } from './regionReport.ts'

const bytesOf = (n: Node): number => sizeOf(n.shape) * dtypeBytes(n.dtype)

export interface OperationTraffic {
  readonly operations: number
  readonly bytes: number
}

/** The graphs inside a region, and how often they run. */
function innerGraphs(
  n: Node,
): readonly { readonly role: InnerRole; readonly graph: Graph; readonly trips: number | undefined }[] {
  switch (n.op) {
    case 'cond':
      return [
        { role: 'then', graph: n.attrs.then, trips: undefined },
        { role: 'otherwise', graph: n.attrs.otherwise, trips: undefined },
      ]
    case 'while':
      return [
        { role: 'test', graph: n.attrs.test, trips: undefined },
        { role: 'body', graph: n.attrs.body, trips: undefined },
      ]
    case 'loop':
      return [{ role: 'body', graph: n.attrs.body, trips: n.attrs.length }]
    case 'custom':
      return [{ role: 'body', graph: n.attrs.body, trips: 1 }]
    default:
      return []
  }
}

/**
 * Traffic of a graph operation by operation: each origin reads every tensor of other origins it uses once (views are free and
 * are read where they stand, at most as many elements as the view has) and writes every tensor others use. Operations inside
 * control flow count once; their traffic as often as they run, where that is known.
 */
export function operationTraffic(graph: Graph): OperationTraffic {
  const nodes = nodesOf(graph).filter((n) => n.op !== 'param' && !(n.op === 'constant'))
  const reads = new Map<number, Map<Node, number>>()
  const writes = new Map<number, Set<Node>>()
  const working = new Set<number>()
  const need = (n: Node, by: number | undefined, elements: number): void => {
    if (isFree(n)) {
      const [x] = n.inputs
      if (x === undefined) return
      for (const i of n.inputs) need(i, by, n.op === 'concat' ? sizeOf(i.shape) : Math.min(elements, sizeOf(i.shape)))
      return
    }
    const stands = n.op === 'param' || n.op === 'constant' || n.op === 'result'
    if (by === n.origin.id && !stands) return
    if (by !== undefined) {
      const m = reads.get(by) ?? new Map<Node, number>()
      m.set(n, Math.min(sizeOf(n.shape), Math.max(m.get(n) ?? 0, elements)))
      reads.set(by, m)
    }
    if (stands) return
    const w = writes.get(n.origin.id) ?? new Set<Node>()
    w.add(n)
    writes.set(n.origin.id, w)
  }
  let [operations, bytes] = [0, 0]
  for (const n of nodes) {
    if (isFree(n) || n.op === 'result') continue
    if (opDef(n).boundary === 'region') {
      // Its operands are written for it; what is inside reads them.
      for (const x of n.inputs) need(x, undefined, sizeOf(x.shape))
      const inside = innerGraphs(n).map((g) => ({ ...g, ...operationTraffic(g.graph) }))
      operations += inside.reduce((sum, g) => sum + g.operations, 0)
      bytes += amountOf(inside.map(({ role, trips, bytes: amount }) => ({ role, trips, amount })))
      continue
    }
    working.add(n.origin.id)
    for (const x of n.inputs) need(x, n.origin.id, sizeOf(x.shape))
  }
  for (const o of graph.outputs) need(o, undefined, sizeOf(o.shape))
  for (const m of reads.values()) for (const [n, elements] of m) bytes += elements * dtypeBytes(n.dtype)
  for (const w of writes.values()) for (const n of w) bytes += bytesOf(n)
  return { operations: operations + working.size, bytes }
}
