/**
 * Rows that are joined of parts, taken apart. A column of sinks beside the scores of an attention is joined with them before the softmax, and cut from the weights behind
 * it: so neither product lines up with the rows between them. Element by element, what is joined can be computed in its parts; a fold along
 * the joined axis is that of the parts' folds; a slice inside a part is one of that part; and what is padded is joined with what stands there. So nothing is joined where nothing
 * but these reads it.
 */
import { makeNode } from '../graph/build.ts'
import type { AttrsByOp, Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, rootsOf, usersOf, withInputs } from '../graph/traverse.ts'
import { broadcastAlong, fullOf } from '../rewrite/facts.ts'
import { combinerOp } from '../scalar/ops.ts'
import { isConstantAlong } from './knownSums.ts'

type Users = ReadonlyMap<Node, readonly Node[]>

/** Elements beside the largest part at most: what is computed of them is computed for every row. */
const mostBeside = 64

/** Values that are looked at on the way to a product. */
const mostOnWay = 64

/** Values that are joined along one axis from parts of the same extents, and what alone reads them. */
interface Joined {
  readonly axis: number
  /** Where parts begin, and the end of the last. */
  readonly cuts: readonly number[]
  readonly values: ReadonlySet<Node>
  readonly slices: ReadonlySet<NodeOf<'slice'>>
}

const partsOf = (cuts: readonly number[]): [number, number][] => cuts.slice(1).map((end, i) => [cuts[i] ?? 0, end])

/** Where parts of some extents begin, without those of none, and the end of the last. */
function ends(extents: readonly number[]): number[] {
  const cuts = [0]
  for (const n of extents) if (n > 0) cuts.push((cuts.at(-1) ?? 0) + n)
  return cuts
}

/** Where the parts of a value begin that is joined along an axis, or padded along it alone. */
function cutsOf(n: Node, axis: number): readonly number[] | undefined {
  if (n.op === 'concat' && n.attrs.axis === axis) return ends(n.inputs.map((x) => x.shape[axis] ?? 0))
  if (n.op !== 'pad') return undefined
  const { low, high, interior } = n.attrs
  const isAlone = n.shape.every((_, d) => interior[d] === 0 && (d === axis || (low[d] === 0 && high[d] === 0)))
  return isAlone ? ends([low[axis] ?? 0, n.inputs[0]?.shape[axis] ?? 0, high[axis] ?? 0]) : undefined
}

/** What is sliced, or made for its part alone, wherever it is read. */
const isCut = (n: Node, axis: number): boolean =>
  isConstantAlong(n, [axis]) || n.op === 'broadcast' || n.op === 'param' || familyOf(n) === 'source'

/** Whether a slice takes elements of one part. */
function isWithin(n: NodeOf<'slice'>, axis: number, cuts: readonly number[]): boolean {
  const [start, limit] = [n.attrs.start[axis] ?? 0, n.attrs.limit[axis] ?? 0]
  return limit > start && partsOf(cuts).some(([from, to]) => start >= from && limit <= to)
}

/** Whether a fold of a value is that of its parts' folds. */
const isFold = (n: Node, axis: number): n is NodeOf<'reduce'> =>
  n.op === 'reduce' && `${n.attrs.axes}` === `${axis}` && n.attrs.combiner in combinerOp

/** All that is computed, element by element, of a value that is joined; undefined where something reads one as a whole. */
function joinedWith(seed: NodeOf<'concat'>, users: Users, roots: ReadonlySet<Node>): Joined | undefined {
  const { axis } = seed.attrs
  const cuts = cutsOf(seed, axis) ?? []
  const values = new Set<Node>([seed])
  const slices = new Set<NodeOf<'slice'>>()
  for (const n of values) {
    if (roots.has(n)) return undefined
    if (familyOf(n) === 'elementwise') {
      for (const x of n.inputs) if (!isCut(x, axis)) values.add(x)
    } else if (`${cutsOf(n, axis)}` !== `${cuts}`) return undefined
    for (const u of users.get(n) ?? []) {
      if (familyOf(u) === 'elementwise') values.add(u)
      else if (u.op === 'slice' && isWithin(u, axis, cuts)) slices.add(u)
      else if (!isFold(u, axis)) return undefined
    }
  }
  return { axis, cuts, values, slices }
}

/** Whether a product is reached from a value, element by element and by views; `next` says what is reached from one. */
function reachesProduct(from: Node, next: (n: Node) => readonly Node[]): boolean {
  const seen = new Set([from])
  for (const n of seen) {
    if (seen.size > mostOnWay) return false
    for (const x of next(n)) {
      if (x.op === 'contract') return true
      if (familyOf(x) === 'elementwise' || familyOf(x) === 'view') seen.add(x)
    }
  }
  return false
}

/** Whether rows stand between two products, joined with few elements. */
function isBetween(seed: NodeOf<'concat'>, { axis, slices }: Joined, users: Users): boolean {
  const extents = seed.inputs.map((x) => x.shape[axis] ?? 0)
  const largest = seed.inputs[extents.indexOf(Math.max(...extents))]
  const beside = (seed.shape[axis] ?? 0) - Math.max(...extents)
  if (largest === undefined || beside > mostBeside) return false
  const comes = largest.op === 'contract' || reachesProduct(largest, (n) => n.inputs)
  return comes && [...slices].some((s) => reachesProduct(s, (n) => users.get(n) ?? []))
}

const sliced = (x: Node, axis: number, from: number, to: number): Node =>
  makeNode('slice', [x], {
    start: x.shape.map((_, d) => (d === axis ? from : 0)),
    limit: x.shape.map((n, d) => (d === axis ? to : n)),
    step: x.shape.map(() => 1),
  })

/** The part of a value that is joined of nothing, but read beside such values. */
function cut(x: Node, axis: number, [from, to]: readonly [number, number]): Node {
  const shape = x.shape.map((n, d) => (d === axis ? to - from : n))
  if (x.op === 'full') return fullOf(shape, x.dtype, x.attrs.value)
  if (x.op === 'broadcast') {
    const own = x.attrs.dims.indexOf(axis)
    const [inner] = x.inputs
    if (inner !== undefined && (own < 0 || inner.shape[own] === x.shape[axis]))
      return broadcastAlong(own < 0 ? inner : sliced(inner, own, from, to), shape, x.attrs.dims)
  }
  return sliced(x, axis, from, to)
}

/** A graph with such values in parts. */
function inParts(graph: Graph, { axis, cuts, values, slices }: Joined): Graph {
  const ranges = partsOf(cuts)
  const made = new Map<Node, readonly Node[]>()
  const partsAt = (n: Node, inputs: readonly Node[]): readonly Node[] => {
    const [x] = inputs
    if (n.op === 'concat') return inputs.filter((y) => y.shape[axis] !== 0)
    if (n.op === 'pad' && x !== undefined) {
      const filling = ([from, to]: readonly [number, number]): Node =>
        fullOf(
          n.shape.map((d, a) => (a === axis ? to - from : d)),
          n.dtype,
          n.attrs.value,
        )
      const first = n.attrs.low[axis] ?? 0
      return ranges.map((range) => (range[0] === first && x.shape[axis] !== 0 ? x : filling(range)))
    }
    const of = n.inputs.map((y, i) => made.get(y) ?? ranges.map((range) => cut(inputs[i] ?? y, axis, range)))
    return ranges.map((_, p) => {
      const operands = of.flatMap((parts) => parts[p] ?? [])
      return makeNode<OpName>(n.op, operands, n.attrs as AttrsByOp[OpName]) as Node
    })
  }
  return mapGraph(graph, (node, inputs) => {
    if (values.has(node)) made.set(node, partsAt(node, inputs))
    const parts = made.get(node.inputs[0] ?? node)
    if (parts === undefined || values.has(node)) return withInputs(node, inputs)
    if (node.op === 'reduce') {
      const op = combinerOp[node.attrs.combiner as keyof typeof combinerOp]
      const folds = parts.map((x): Node => makeNode('reduce', [x], node.attrs))
      return folds.reduce((a, b) => makeNode<OpName>(op, [a, b], {} as AttrsByOp[OpName]) as Node)
    }
    if (node.op !== 'slice' || !slices.has(node)) return withInputs(node, inputs)
    const { start, limit, step } = node.attrs
    const at = ranges.findIndex(([from, to]) => (start[axis] ?? 0) >= from && (limit[axis] ?? 0) <= to)
    const [part, from] = [parts[at] ?? node, ranges[at]?.[0] ?? 0]
    const moved = (v: readonly number[]): number[] => v.map((s, d) => (d === axis ? s - from : s))
    return makeNode('slice', [part], { start: moved(start), limit: moved(limit), step })
  })
}

/** The graph with joined rows between products in parts; itself where there are none. For fast mode: sums have another order. */
export function splitRows(graph: Graph): Graph {
  let current = graph
  const done = new Set<number>()
  for (;;) {
    const nodes = nodesOf(current)
    const seeds = nodes.filter((n): n is NodeOf<'concat'> => n.op === 'concat' && !done.has(n.id))
    if (seeds.length === 0) return current
    const [users, roots] = [usersOf(nodes), new Set(rootsOf(current))]
    let found: Joined | undefined
    for (const seed of seeds) {
      done.add(seed.id)
      const joined = joinedWith(seed, users, roots)
      if (joined === undefined || !isBetween(seed, joined, users)) continue
      found = joined
      break
    }
    if (found === undefined) return current
    current = inParts(current, found)
  }
}
