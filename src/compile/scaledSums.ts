/**
 * Sums that the program holds but for a factor: sum c v is c sum v where c is one along what is summed. The gradient of a variance sums the deviations
 * from the mean again, times what comes from behind; their sum corrects the variance on the forward pass, so that no pass over the data is
 * left of it, which would have to wait for the factor.
 */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { broadcastAlong, fullOf } from '../rewrite/facts.ts'
import { isConstantAlong } from './knownSums.ts'

type Sum = NodeOf<'reduce'>

/** The terms of a sum as a value times factors that are one along the summed axes: broadcasts without these, and numbers. */
interface Scaled {
  readonly of: Node
  readonly factors: readonly Factor[]
  readonly times: number
}

type Factor = NodeOf<'full'> | NodeOf<'broadcast'>

/** Sums in formats whose range a factor that is taken out does not leave. */
const isSum = (n: Node): n is Sum =>
  n.op === 'reduce' && n.attrs.combiner === 'sum' && (n.dtype === 'f32' || n.dtype === 'f64')

/** Doublings of terms that are looked at: more leave the range of numbers. */
const mostTimes = 2 ** 24

/** What the terms of a sum are but for factors; undefined where they have none. */
function scaledOf({ inputs: [terms], attrs: { axes } }: Sum): Scaled | undefined {
  const isFactor = (n: Node | undefined): n is Factor => n !== undefined && isConstantAlong(n, axes)
  const factors: Factor[] = []
  let [of, times] = [terms, 1]
  while (of !== undefined && Math.abs(times) < mostTimes) {
    const [x, y] = of.inputs
    if (of.op === 'neg') [of, times] = [x, -times]
    else if (of.op === 'add' && x === y) [of, times] = [x, 2 * times]
    else if (of.op === 'mul' && (isFactor(x) || isFactor(y))) {
      const [factor, rest] = isFactor(x) ? [x, y] : [y, x]
      if (isFactor(factor)) factors.push(factor)
      of = rest
    } else break
  }
  return of === undefined || of === terms ? undefined : { of, factors, times }
}

/** The graph with a factor times a sum that it holds in the place of sums of that factor times the same terms. For fast mode: products are rounded elsewhere. */
export function takeScaledSums(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  const users = usersOf(nodes)
  const found = new Map<Node, Scaled>()
  for (const n of nodes) {
    const scaled = isSum(n) ? scaledOf(n) : undefined
    const isHeld = (u: Node): boolean => u !== n && isSum(u) && isSum(n) && `${u.attrs.axes}` === `${n.attrs.axes}`
    if (scaled !== undefined && users.get(scaled.of)?.some(isHeld) === true) found.set(n, scaled)
  }
  if (found.size === 0) return graph
  const mapped = new Map<Node, Node>()
  const at = (n: Node): Node => mapped.get(n) ?? n
  /** Sums by what they are of and along which axes. */
  const sums = new Map<string, Node>()
  const sumOf = (x: Node, { attrs }: Sum): Node => {
    const key = `${x.id} along ${attrs.axes}`
    const have = sums.get(key) ?? makeNode('reduce', [x], attrs)
    sums.set(key, have)
    return have
  }
  const scaled = (sum: Sum, { of, factors, times }: Scaled): Node => {
    const { shape, dtype } = sum
    const kept = sum.inputs[0]?.shape.flatMap((_, a) => (sum.attrs.axes.includes(a) ? [] : [a])) ?? []
    /** A factor along the axes that the sum leaves. */
    const narrow = (f: Factor): Node => {
      if (f.op === 'full') return fullOf(shape, dtype, f.attrs.value)
      const dims = f.attrs.dims.map((d) => kept.indexOf(d))
      return broadcastAlong(at(f.inputs[0] ?? f), shape, dims)
    }
    const by = [...factors.map(narrow), ...(times === 1 ? [] : [fullOf(shape, dtype, times)])]
    return by.reduce((x, f) => makeNode('mul', [x, f], {}), sumOf(at(of), sum))
  }
  return mapGraph(graph, (node, inputs) => {
    const is = found.get(node)
    const [x] = inputs
    const made =
      !isSum(node) || x === undefined ? withInputs(node, inputs) : is === undefined ? sumOf(x, node) : scaled(node, is)
    mapped.set(node, made)
    return made
  })
}
