/**
 * Sums over rows and columns of what stands between products, rows first. The gradient of a number a head (a slope, a temperature) is a sum over all scores of the head.
 * A chain of products goes through the scores row by row and stores none: it can sum along the axis that its products sum along, and no other. So a sum over several axes
 * is one along that axis, and one of what is left. Where a factor is the same for all of a batch, the sum over the batch may stand in front of it: it comes behind then.
 */
import { cast } from '../compose/elementwise.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { sameShape, sizeOf } from '../types/shape.ts'
import { unsigned } from './knownSums.ts'

type Users = ReadonlyMap<Node, readonly Node[]>
type Sum = NodeOf<'reduce'>

/** Values that are looked at around one sum. */
const mostAround = 256

const isSum = (n: Node | undefined): n is Sum =>
  n?.op === 'reduce' && n.attrs.combiner === 'sum' && (n.dtype === 'f32' || n.dtype === 'f64')

/** Whether a product is larger than its operands: what chains go through block by block. */
const isLarge = (n: Node): boolean => n.inputs.every((x) => sizeOf(x.shape) < sizeOf(n.shape))

/** Whether a sum is spread again over what it is of: a statistic that all of it waits for. */
function isSpread(sum: Node, { shape }: Node, users: Users): boolean {
  const seen = new Set([sum])
  for (const n of seen)
    for (const u of users.get(n) ?? []) {
      if (u.op === 'broadcast' && sameShape(u.shape, shape)) return true
      if (seen.size < mostAround && (familyOf(u) === 'elementwise' || familyOf(u) === 'view')) seen.add(u)
    }
  return false
}

/** The axis of a value, one of some, that products sum along which take something computed of the same products, element by element; undefined: it is not made of products, or none do. */
function summedAxis(of: Node, among: readonly number[], users: Users): number | undefined {
  const isAlike = (n: Node): boolean => familyOf(n) === 'elementwise' && sameShape(n.shape, of.shape)
  const above = new Set([of])
  for (const n of above)
    if (n.op !== 'contract')
      for (const x of n.inputs) {
        const isProduct = x.op === 'contract' && sameShape(x.shape, of.shape)
        if ((isProduct || isAlike(x)) && above.size < mostAround) above.add(x)
      }
  if (![...above].some((n) => n.op === 'contract' && isLarge(n))) return undefined
  const below = new Set(above)
  for (const n of below)
    for (const u of users.get(n) ?? []) {
      if (u.op === 'contract' && sizeOf(u.shape) < sizeOf(of.shape)) {
        const { lhs, rhs, out } = u.attrs
        const labels = u.inputs[0] === n ? lhs : rhs
        const axes = [...labels].flatMap((l, i) => (out.includes(l) ? [] : [i]))
        const [axis, more] = axes
        if (axis !== undefined && more === undefined && among.includes(axis)) return axis
      } else if (isAlike(u) && below.size < mostAround) below.add(u)
    }
  return undefined
}

/** A sum of numbers times a sum in front of them: that one, the numbers, and the sign. */
interface Behind {
  readonly inner: Sum
  readonly factors: readonly Node[]
  readonly negative: boolean
}

/** Factors that are followed at most. */
const mostFactors = 64

/** What a sum is of: numbers times another sum. Undefined: it is of something else. */
function behindOf(sum: Sum): Behind | undefined {
  const factors: Node[] = []
  let negative = false
  let next = sum.inputs[0]
  for (let i = 0; i < mostFactors && next !== undefined; i++) {
    const at = unsigned(next)
    const { node } = at
    negative = negative !== at.negative
    if (isSum(node)) return { inner: node, factors, negative }
    const [x, y] = node.inputs
    if (node.op !== 'mul' || x === undefined || y === undefined) return undefined
    const [p, q] = [unsigned(x).node, unsigned(y).node]
    const isFirst = isSum(p) || (!isSum(q) && p.op === 'mul')
    next = isFirst ? x : y
    factors.push(isFirst ? y : x)
  }
  return undefined
}

/** A sum in two steps: the value that is summed, the axes, and the first of them. */
interface InSteps {
  readonly of: Node
  readonly axes: readonly number[]
  readonly axis: number
  readonly behind: Behind | undefined
}

function inSteps(sum: Sum, users: Users): InSteps | undefined {
  const behind = behindOf(sum)
  const [of] = (behind?.inner ?? sum).inputs
  if (of === undefined) return undefined
  const first = behind?.inner.attrs.axes ?? []
  const kept = of.shape.flatMap((_, d) => (first.includes(d) ? [] : [d]))
  const axes = [...first, ...sum.attrs.axes.map((a) => kept[a] ?? 0)].sort((a, b) => a - b)
  if (axes.length < 2 || isSpread(sum, of, users)) return undefined
  const axis = summedAxis(of, axes, users)
  return axis === undefined ? undefined : { of, axes, axis, behind }
}

/** What the first step sums: of a sum behind another what that one sums, times the factors between them. */
function terms({ of, behind }: InSteps, at: (n: Node) => Node): Node {
  const x = at(of)
  if (behind === undefined) return x
  const { shape, dtype } = x
  const dims = shape.flatMap((_, d) => (behind.inner.attrs.axes.includes(d) ? [] : [d]))
  const product = behind.factors.reduce<Node>(
    (y, f) => makeNode('mul', [y, makeNode('broadcast', [cast(at(f), dtype)], { shape, dims })], {}),
    x,
  )
  return behind.negative ? makeNode('neg', [product], {}) : product
}

/** The graph with such sums of its backward pass in two steps; itself where there are none. For fast mode: sums have another order. */
export function sumRowsFirst(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  if (!nodes.some((n) => n.op === 'contract')) return graph
  const users = usersOf(nodes)
  // A loss is a sum over several axes, too, and has no chain beside it.
  const sums = nodes.flatMap((n) => (isSum(n) && n.origin.phase === 'backward' ? [n] : []))
  const found = new Map(sums.map((n): [Node, InSteps | undefined] => [n, inSteps(n, users)]))
  if (![...found.values()].some((s) => s !== undefined)) return graph
  const made = new Map<Node, Node>()
  return mapGraph(graph, (node, inputs) => {
    const steps = found.get(node)
    let result = withInputs(node, inputs)
    if (steps !== undefined) {
      const { axes, axis } = steps
      const rows = makeNode('reduce', [terms(steps, (n) => made.get(n) ?? n)], { combiner: 'sum', axes: [axis] })
      const left = axes.flatMap((a) => (a === axis ? [] : [a > axis ? a - 1 : a]))
      result = makeNode('reduce', [rows], { combiner: 'sum', axes: left })
    }
    made.set(node, result)
    return result
  })
}
