/**
 * Sums that a contraction holds already. The terms of sum_t w[s, t] (sum_d g[s, d] v[t, d]) are those of sum_d g[s, d] (sum_t w[s, t] v[t, d]) in
 * another order: where the program contracts w with v anyway, a sum over few d takes the place of one over many t. In the derivative of a
 * softmax that weighs values it is what makes the sum over weights and their adjoints one over results and theirs (Dao et al. 2022,
 * arXiv:2205.14135, appendix B.2).
 */
import { cast } from '../compose/elementwise.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { isFloat } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'

type Contraction = NodeOf<'contract'>
type Sum = NodeOf<'reduce'>

/** A product of values, as far as it is one. */
interface Factors {
  /** What varies along the summed axes, by what it is: a value, or a condition below which all is zero. */
  readonly varying: Map<string, { readonly node: Node; times: number }>
  /** What does not. */
  readonly constant: Node[]
  negative: boolean
}

const isZero = (n: Node): boolean => n.op === 'full' && n.attrs.value === 0

/** Whether a value is one along some axes. */
function isConstantAlong(n: Node, axes: readonly number[]): boolean {
  if (n.op === 'full') return true
  return n.op === 'broadcast' && axes.every((a) => !n.attrs.dims.includes(a))
}

/** Factors that are looked at: a product may hold itself, so that there are exponentially many. */
const mostFactors = 64

/** The factors of a value of the shape of `whole`; undefined: there are too many. */
function factorsOf(whole: Node, axes: readonly number[]): Factors | undefined {
  const out: Factors = { varying: new Map(), constant: [], negative: false }
  const add = (key: string, node: Node): void => {
    const have = out.varying.get(key)
    if (have === undefined) out.varying.set(key, { node, times: 1 })
    else have.times++
  }
  const stack = [whole]
  let seen = 0
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (++seen > mostFactors) return undefined
    const [x, y, z] = n.inputs
    if (isConstantAlong(n, axes)) out.constant.push(n)
    else if (n.op === 'mul' && x !== undefined && y !== undefined) stack.push(x, y)
    else if (n.op === 'neg' && x !== undefined) {
      out.negative = !out.negative
      stack.push(x)
    } else if (n.op === 'cast' && x !== undefined && isFloat(x.dtype) && isFloat(n.dtype)) stack.push(x)
    else if (n.op === 'select' && x !== undefined && y !== undefined && z !== undefined && isZero(z)) {
      add(`where ${x.id}`, x)
      stack.push(y)
    } else add(`${n.id}`, n)
  }
  return out
}

/** What a sum of products is made of, once it is found. */
interface Found {
  readonly g: Node
  /** The labels of the inner product's other operand. */
  readonly gLabels: string
  readonly held: Contraction
  /** The labels of the contraction that holds the sums, by those of the inner product. */
  readonly heldLabels: string
  readonly inner: Contraction
  readonly left: readonly Node[]
  readonly negative: boolean
}

/** The two sides of a contraction: one of its operands, and the other. */
const sidesOf = ({ inputs: [a, b], attrs }: Contraction) => {
  if (a === undefined || b === undefined) return []
  const [x, y] = [
    { node: a, labels: attrs.lhs },
    { node: b, labels: attrs.rhs },
  ]
  return [
    { of: x, other: y },
    { of: y, other: x },
  ]
}

/** Some nodes without others, each as often as it stands there; undefined: others are not among them. */
function without(all: readonly Node[], others: readonly Node[]): Node[] | undefined {
  const left = [...all]
  for (const o of others) {
    const i = left.indexOf(o)
    if (i < 0) return undefined
    left.splice(i, 1)
  }
  return left
}

/** A contraction of `users` that holds the sums of a reduction whose terms have a product for a factor. */
function find(sum: Sum, users: ReadonlyMap<Node, readonly Node[]>): Found | undefined {
  const [terms] = sum.inputs
  if (terms === undefined || !isFloat(sum.dtype) || sum.attrs.combiner !== 'sum') return undefined
  const { axes } = sum.attrs
  const factors = factorsOf(terms, axes)
  if (factors === undefined) return undefined
  for (const [key, { node: inner, times }] of factors.varying) {
    if (inner.op !== 'contract' || times !== 1) continue
    const weights = new Map([...factors.varying].filter(([k]) => k !== key))
    for (const { of: v, other: g } of sidesOf(inner)) {
      const summed = axes.map((a) => inner.attrs.out[a] ?? '')
      if (!summed.every((l) => v.labels.includes(l) && !g.labels.includes(l))) continue
      for (const held of users.get(v.node) ?? []) {
        if (held.op !== 'contract' || held === inner || sizeOf(held.shape) >= sizeOf(terms.shape)) continue
        for (const { of: same, other: w } of sidesOf(held)) {
          if (same.node !== v.node) continue
          const heldLabels = labelsOf(inner, v.labels, g.labels, held, same.labels, w.labels, summed)
          if (heldLabels === undefined || w.node.shape.length !== terms.shape.length) continue
          const own = factorsOf(w.node, axes)
          if (own === undefined) continue
          const alike =
            own.varying.size === weights.size &&
            [...own.varying].every(([k, f]) => weights.get(k)?.times === f.times && f.node === weights.get(k)?.node)
          const left = without(factors.constant, own.constant)
          if (!alike || left === undefined) continue
          const negative = factors.negative !== own.negative
          return { g: g.node, gLabels: g.labels, held, heldLabels, inner, left, negative }
        }
      }
    }
  }
  return undefined
}

/** The labels of a contraction's results by those of an inner product with the same operand v, if it sums over what is summed along and keeps what the product sums. */
function labelsOf(
  inner: Contraction,
  v: string,
  g: string,
  held: Contraction,
  same: string,
  w: string,
  summed: readonly string[],
): string | undefined {
  const names = new Map<string, string>()
  for (const [i, label] of [...same].entries()) {
    const name = v[i] ?? ''
    // Along what is summed the contraction sums; what the product sums it keeps; what both operands have, both keep.
    const isSummed = summed.includes(name)
    const isDepth = !inner.attrs.out.includes(name)
    if (isDepth && !g.includes(name)) return undefined
    if (held.attrs.out.includes(label) === isSummed || w.includes(label) === isDepth) return undefined
    names.set(label, name)
  }
  for (const [i, label] of [...w].entries()) {
    const name = inner.attrs.out[i] ?? ''
    if ((names.get(label) ?? name) !== name) return undefined
    names.set(label, name)
  }
  const out = [...held.attrs.out].map((label) => names.get(label) ?? '').join('')
  const isWhole = out.length === g.length && new Set(out).size === out.length && [...g].every((l) => out.includes(l))
  return isWhole ? out : undefined
}

/** The same sum over results of the contraction that holds it. */
function overResults(sum: Sum, { g, gLabels, held, heldLabels, inner, left, negative }: Found): Node {
  const { dtype, shape, attrs } = sum
  const kept = [...inner.attrs.out].filter((_, i) => !attrs.axes.includes(i))
  const inOrder = (x: Node, own: string, labels: readonly string[]): Node => {
    const axes = labels.map((l) => own.indexOf(l))
    return axes.every((a, i) => a === i) ? x : makeNode('permute', [x], { perm: axes })
  }
  const depth = [...gLabels].filter((l) => !kept.includes(l))
  const order = [...kept, ...depth]
  const both = makeNode(
    'mul',
    [inOrder(cast(g, dtype), gLabels, order), inOrder(cast(held, dtype), heldLabels, order)],
    {},
  )
  const total = makeNode('reduce', [both], { combiner: 'sum', axes: depth.map((_, i) => kept.length + i) })
  const places = new Map(
    [...inner.attrs.out].flatMap((l, i) => (attrs.axes.includes(i) ? [] : [[i, kept.indexOf(l)] as const])),
  )
  const narrow = (n: Node): Node => {
    const [x] = n.inputs
    if (n.op === 'broadcast' && x !== undefined)
      return makeNode('broadcast', [x], { shape, dims: n.attrs.dims.map((d) => places.get(d) ?? 0) })
    return n.op === 'full' ? makeNode('full', [], { ...n.attrs, shape }) : n
  }
  const scaled = left.reduce<Node>((x, n) => makeNode('mul', [x, cast(narrow(n), dtype)], {}), total)
  return negative ? makeNode('neg', [scaled], {}) : scaled
}

/** Whether a node leads to another. */
function leadsTo(from: Node, to: Node): boolean {
  const seen = new Set<Node>([to])
  const stack = [to]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (n === from) return true
    for (const x of n.inputs)
      if (!seen.has(x)) {
        seen.add(x)
        stack.push(x)
      }
  }
  return false
}

/** The graph with sums over results of contractions in the place of those over their terms; itself where there are none. For fast mode: sums have another order. */
export function takeKnownSums(graph: Graph): Graph {
  let current = graph
  const done = new Set<number>()
  for (;;) {
    const nodes = nodesOf(current)
    if (!nodes.some((n) => n.op === 'contract')) return current
    const users = usersOf(nodes)
    let first: { readonly sum: Sum; readonly at: Found } | undefined
    for (const n of nodes) {
      if (n.op !== 'reduce' || done.has(n.id)) continue
      done.add(n.id)
      const at = find(n, users)
      if (at === undefined || leadsTo(n, at.held)) continue
      first = { sum: n, at }
      break
    }
    if (first === undefined) return current
    const { sum, at } = first
    const made = inOrigin(sum.origin, () => overResults(sum, at))
    current = mapGraph(current, (node, inputs) => (node === sum ? made : withInputs(node, inputs)))
  }
}
