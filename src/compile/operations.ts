/** The field's arithmetic of operations run alone: bytes each user-visible operation would read and write by itself. */
import type { Graph, Node } from '../graph/node.ts'
import { nodesOf } from '../graph/traverse.ts'
import { isFree } from '../plan/region.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'

const bytesOf = (n: Node): number => sizeOf(n.shape) * dtypeBytes(n.dtype)

export interface OperationTraffic {
  readonly operations: number
  readonly bytes: number
}

/**
 * Traffic of a graph operation by operation: each origin reads every tensor of other origins it uses once (views are free and
 * are read where they stand, at most as many elements as the view has) and writes every tensor others use.
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
    const stands = n.op === 'param' || n.op === 'constant'
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
  for (const n of nodes) {
    if (isFree(n)) continue
    working.add(n.origin.id)
    for (const x of n.inputs) need(x, n.origin.id, sizeOf(x.shape))
  }
  for (const o of graph.outputs) need(o, undefined, sizeOf(o.shape))
  let bytes = 0
  for (const m of reads.values()) for (const [n, elements] of m) bytes += elements * dtypeBytes(n.dtype)
  for (const w of writes.values()) for (const n of w) bytes += bytesOf(n)
  return { operations: working.size, bytes }
}
