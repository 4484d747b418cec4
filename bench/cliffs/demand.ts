/**
 * How many elements of each value of a graph its results need: a slice asks for what it keeps, a gather for the elements that uniform
 * random indices are expected to meet. Where users ask for different parts, the larger number counts, so it is a lower bound.
 */
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { product } from './facts.ts'

/** Distinct places that `draws` uniform draws from `places` are expected to meet. */
export const expectedDistinct = (places: number, draws: number): number =>
  places <= 1 ? Math.min(places, draws) : places * -Math.expm1(draws * Math.log1p(-1 / places))

/** Positions of an axis that windows touch. */
export function touched({ axis, size, stride, dilation }: NodeOf<'window'>['attrs'], shape: readonly number[]): number {
  const places = new Set<number>()
  for (let o = 0; o < (shape[axis] ?? 0); o++) for (let k = 0; k < size; k++) places.add(o * stride + k * dilation)
  return places.size
}

function ofGather(n: NodeOf<'gather'>, x: Node, need: number): number {
  const along = n.attrs.sources.flatMap((s) => ('axis' in s ? [s.axis] : []))
  const groups = product(n.attrs.sources.map((s, i) => ('axis' in s ? (x.shape[i] ?? 1) : 1)))
  const places = product(n.attrs.sources.map((s, i) => ('axis' in s ? 1 : (x.shape[i] ?? 1))))
  const draws = product(n.shape.filter((_, i) => !along.includes(i)))
  return (groups * expectedDistinct(places, draws) * need) / Math.max(1, sizeOf(n.shape))
}

/** Of `need` results of a contraction, the elements of one operand. */
function ofContraction(n: NodeOf<'contract'>, side: 0 | 1, need: number): number {
  const operand = n.inputs[side]
  if (operand === undefined || need >= sizeOf(n.shape)) return operand === undefined ? 0 : sizeOf(operand.shape)
  const own = side === 0 ? n.attrs.lhs : n.attrs.rhs
  const others = product([...n.attrs.out].map((l, i) => (own.includes(l) ? 1 : (n.shape[i] ?? 1))))
  const depth = product([...own].map((l, i) => (n.attrs.out.includes(l) ? 1 : (operand.shape[i] ?? 1))))
  return Math.ceil(need / Math.max(1, others)) * depth
}

/** Elements of input number `i` that `need` elements of a node take at least. */
function ofInput(n: Node, i: number, need: number): number {
  const x = n.inputs[i]
  if (x === undefined || need <= 0) return 0
  const [size, given] = [sizeOf(n.shape), sizeOf(x.shape)]
  switch (n.op) {
    case 'broadcast':
      return Math.ceil((need * given) / Math.max(1, size))
    case 'pad':
    case 'concat':
      return Math.max(0, need - (size - given))
    case 'window': {
      const { axis } = n.attrs
      if (need < size) return Math.ceil(need / n.attrs.size)
      return (given / Math.max(1, x.shape[axis] ?? 1)) * touched(n.attrs, n.shape)
    }
    case 'gather':
      return i === 0 ? ofGather(n, x, need) : need
    case 'scatter': {
      const all = need >= size
      if (i === 0) return Math.max(0, need - sizeOf(n.inputs[1]?.shape ?? []))
      if (!all) return 0
      const set = n.attrs.combiner === 'set' && i === 1
      return set ? Math.min(given, expectedDistinct(size, given)) : given
    }
    case 'reduce':
      return need * product(n.attrs.axes.map((a) => x.shape[a] ?? 1))
    case 'contract':
      return ofContraction(n, i === 0 ? 0 : 1, need)
    case 'randomBits':
    case 'randomMask':
      return given
    default:
      return need
  }
}

/** Elements needed of every node; `nodes` in topological order. */
export function demandOf(graph: Graph, nodes: readonly Node[]): Map<Node, number> {
  const demand = new Map<Node, number>()
  const ask = (n: Node, need: number): void => {
    demand.set(n, Math.max(demand.get(n) ?? 0, Math.min(need, sizeOf(n.shape))))
  }
  for (const n of graph.outputs) ask(n, sizeOf(n.shape))
  for (const n of nodes.toReversed()) for (const [i, x] of n.inputs.entries()) ask(x, ofInput(n, i, demand.get(n) ?? 0))
  return demand
}
