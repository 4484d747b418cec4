/** The field's arithmetic of operations run alone: bytes each user-visible operation would read and write by itself. */
import type { Graph, Node } from '../graph/node.ts'
import { opDef } from '../graph/table.ts'
import { nodesOf } from '../graph/traverse.ts'
import { bytesOf, isFree, storageOf } from '../plan/body/region.ts'
import type { InnerRole } from '../runtime/program.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'

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

/** Bytes by the operation (its origin) that moves them. */
export type BytesByOrigin = ReadonlyMap<number, number>

const totalOf = (bytes: BytesByOrigin): number => [...bytes.values()].reduce((n, x) => n + x, 0)

/** Adds bytes of graphs inside control flow to those around them: every step counts; of two branches the one that moves more. */
export function addInner(
  into: Map<number, number>,
  inners: readonly { readonly role: InnerRole; readonly trips: number | undefined; readonly bytes: BytesByOrigin }[],
): void {
  const [first, second] = inners.map((i) => totalOf(i.bytes))
  const branch = inners[0]?.role === 'then'
  const counted = branch ? [inners[(second ?? 0) > (first ?? 0) ? 1 : 0]].flatMap((i) => i ?? []) : inners
  for (const { trips = 1, bytes } of counted)
    for (const [origin, n] of bytes) into.set(origin, (into.get(origin) ?? 0) + trips * n)
}

/** A view or a generated value that a program gives back: the operation that made it writes it. */
const isWritten = (o: Node): boolean => isFree(o) && isFree(storageOf(o))

interface Traffic {
  readonly operations: number
  readonly bytes: BytesByOrigin
}

/**
 * Traffic of a graph operation by operation: each origin reads every tensor of other origins it uses once (views are free and
 * are read where they stand, at most as many elements as the view has) and writes every tensor others use. Operations inside
 * control flow count once; their traffic as often as they run, where that is known.
 */
function trafficOf(graph: Graph): Traffic {
  const nodes = nodesOf(graph).filter((n) => n.op !== 'param' && !(n.op === 'constant'))
  const reads = new Map<number, Map<Node, number>>()
  const writes = new Map<number, Set<Node>>()
  const bytes = new Map<number, number>()
  const working = new Set<number>()
  const write = (n: Node): void => {
    const w = writes.get(n.origin.id) ?? new Set<Node>()
    w.add(n)
    writes.set(n.origin.id, w)
  }
  const need = (root: Node, by: number | undefined, all: number): void => {
    if (!isFree(root)) {
      needStored(root, by, all)
      return
    }
    // A view that several views show is gone through once, but for more elements.
    const seen = new Map<Node, number>()
    const stack = [{ n: root, elements: all }]
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const { n, elements } = next
      if ((seen.get(n) ?? -1) >= elements) continue
      seen.set(n, elements)
      if (!isFree(n)) {
        needStored(n, by, elements)
        continue
      }
      for (const i of [...n.inputs].reverse()) {
        const size = sizeOf(i.shape)
        stack.push({ n: i, elements: n.op === 'concat' ? size : Math.min(elements, size) })
      }
    }
  }
  const needStored = (n: Node, by: number | undefined, elements: number): void => {
    const stands = n.op === 'param' || n.op === 'constant' || n.op === 'result'
    if (by === n.origin.id && !stands) return
    if (by !== undefined) {
      const m = reads.get(by) ?? new Map<Node, number>()
      m.set(n, Math.min(sizeOf(n.shape), Math.max(m.get(n) ?? 0, elements)))
      reads.set(by, m)
    }
    if (!stands) write(n)
  }
  let operations = 0
  for (const n of nodes) {
    if (isFree(n) || n.op === 'result') continue
    if (opDef(n).boundary === 'region') {
      // Its operands are written for it; what is inside reads them.
      for (const x of n.inputs) need(x, undefined, sizeOf(x.shape))
      const inside = innerGraphs(n).map((g) => ({ ...g, ...trafficOf(g.graph) }))
      operations += inside.reduce((sum, g) => sum + g.operations, 0)
      addInner(bytes, inside)
      continue
    }
    working.add(n.origin.id)
    for (const x of n.inputs) need(x, n.origin.id, sizeOf(x.shape))
  }
  for (const o of graph.outputs) {
    if (!isWritten(o)) {
      need(o, undefined, sizeOf(o.shape))
      continue
    }
    working.add(o.origin.id)
    need(o, o.origin.id, sizeOf(o.shape))
    write(o)
  }
  const add = (origin: number, n: number): void => {
    bytes.set(origin, (bytes.get(origin) ?? 0) + n)
  }
  for (const [origin, m] of reads) for (const [n, elements] of m) add(origin, elements * dtypeBytes(n.dtype))
  for (const [origin, w] of writes) for (const n of w) add(origin, bytesOf(n))
  return { operations: operations + working.size, bytes }
}

/**
 * Operations of a graph, and the bytes that they move when each runs alone. `alone`: bytes of the kernels that compute one operation and
 * nothing else; where those are more (an operation of several kernels), they are what it moves.
 */
export function operationTraffic(graph: Graph, alone: BytesByOrigin = new Map()): OperationTraffic {
  const { operations, bytes } = trafficOf(graph)
  let total = 0
  for (const origin of new Set([...bytes.keys(), ...alone.keys()]))
    total += Math.max(bytes.get(origin) ?? 0, alone.get(origin) ?? 0)
  return { operations, bytes: total }
}
