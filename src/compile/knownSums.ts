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
import { sameShape, sizeOf } from '../types/shape.ts'
import { isPositive } from './normalisedWeights.ts'

type Contraction = NodeOf<'contract'>
type Sum = NodeOf<'reduce'>

/** A factor, and how often it stands in a product; of one that is broadcast the value, and which axes are its own. */
interface Factor {
  readonly node: Node
  readonly dims?: readonly number[]
  times: number
}

/** A product of values, as far as it is one. */
interface Factors {
  /** What varies along the summed axes, by what it is: a value, or a condition below which all is zero. */
  readonly varying: Map<string, Factor>
  /** What does not. */
  readonly constant: Node[]
  negative: boolean
}

const isZero = (n: Node): boolean => n.op === 'full' && n.attrs.value === 0

/** Whether a value is one along some axes. */
export function isConstantAlong(n: Node, axes: readonly number[]): boolean {
  if (n.op === 'full') return true
  return n.op === 'broadcast' && axes.every((a) => !n.attrs.dims.includes(a))
}

/** Whether a node is another in all but its sign, and the precision of floats. */
const isSigned = (n: Node): n is Node & { readonly inputs: readonly [Node] } =>
  n.op === 'neg' || (n.op === 'cast' && isFloat(n.dtype) && n.inputs[0] !== undefined && isFloat(n.inputs[0].dtype))

/** A value without its sign and its conversions. */
export function unsigned(whole: Node): { readonly node: Node; readonly negative: boolean } {
  let [node, negative] = [whole, false]
  while (isSigned(node)) {
    negative = negative !== (node.op === 'neg')
    node = node.inputs[0]
  }
  return { node, negative }
}

/** Factors that are looked at: a product may hold itself, so that there are exponentially many. */
const mostFactors = 64

/** The factors of a value of the shape of `whole`; undefined: there are too many. */
function factorsOf(whole: Node, axes: readonly number[]): Factors | undefined {
  const out: Factors = { varying: new Map(), constant: [], negative: false }
  const add = (key: string, node: Node, dims?: readonly number[]): void => {
    const have = out.varying.get(key)
    if (have !== undefined) have.times++
    else out.varying.set(key, { node, times: 1, ...(dims === undefined ? {} : { dims }) })
  }
  const stack = [whole]
  let seen = 0
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (++seen > mostFactors) return undefined
    const [x, y, z] = n.inputs
    if (isConstantAlong(n, axes)) out.constant.push(n)
    else if (n.op === 'mul' && x !== undefined && y !== undefined) stack.push(x, y)
    else if (isSigned(n)) {
      if (n.op === 'neg') out.negative = !out.negative
      stack.push(n.inputs[0])
    } else if (n.op === 'broadcast' && x !== undefined) {
      const { node, negative } = unsigned(x)
      if (negative) out.negative = !out.negative
      add(`${node.id} along ${n.attrs.dims}`, node, n.attrs.dims)
    } else if (n.op === 'select' && x !== undefined && y !== undefined && z !== undefined && isZero(z)) {
      add(`where ${x.id}`, x)
      stack.push(y)
    } else add(`${n.id}`, n)
  }
  return out
}

/** What a sum of products is made of, once it is found. */
interface Found {
  /** The inner product's other operand. */
  readonly g: Operand | undefined
  /** Labels of the axes of the terms. */
  readonly terms: readonly string[]
  readonly held: Contraction
  /** The labels of the contraction that holds the sums, by those of the inner product. */
  readonly heldLabels: readonly string[]
  readonly left: readonly Node[]
  readonly negative: boolean
}

/** An operand of a contraction, and the labels of its axes. */
interface Operand {
  readonly node: Node
  readonly labels: string
}

/** An inner product, from one of its operands: the labels of its results, that operand, and the other; absent: it is one everywhere. */
interface Inner {
  readonly out: string
  readonly of: Operand
  readonly other: Operand | undefined
}

/** The two sides of a contraction: one of its operands, and the other. */
const sidesOf = ({ inputs: [a, b], attrs }: Contraction): { readonly of: Operand; readonly other: Operand }[] => {
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

/** What a value is as an inner product: a contraction, or a sum of its operand, whose other factor is one. */
function innersOf(n: Node): readonly Inner[] {
  if (n.op === 'contract') return sidesOf(n).map((s) => ({ ...s, out: n.attrs.out }))
  const [x] = n.inputs
  if (n.op !== 'reduce' || n.attrs.combiner !== 'sum' || x === undefined || !isFloat(n.dtype)) return []
  const { axes } = n.attrs
  const labels = x.shape.map((_, i) => String.fromCharCode(97 + i))
  const out = labels.filter((_, i) => !axes.includes(i)).join('')
  const { node, negative } = unsigned(x)
  return [{ out, of: { node: negative ? x : node, labels: labels.join('') }, other: undefined }]
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

/** Terms of a sum that are weights times an inner product with `v`. */
interface Weighed {
  readonly terms: Node
  readonly axes: readonly number[]
  readonly factors: Factors
  /** The inner product, from one of its sides. */
  readonly inner: Node
  readonly v: Operand
  readonly g: Operand | undefined
  /** The factors but for the inner product. */
  readonly weights: Factors['varying']
  readonly labels: readonly string[]
  readonly summed: readonly string[]
}

/** The ways in which the terms of a sum are weights times an inner product. */
function* weighed(sum: Sum): Generator<Weighed> {
  const [terms] = sum.inputs
  if (terms === undefined || !isFloat(sum.dtype) || sum.attrs.combiner !== 'sum') return
  const { axes } = sum.attrs
  const factors = factorsOf(terms, axes)
  if (factors === undefined) return
  for (const [key, { node: inner, times, dims }] of factors.varying) {
    if (times !== 1) continue
    const weights = new Map([...factors.varying].filter(([k]) => k !== key))
    for (const { out, of: v, other: g } of innersOf(inner)) {
      const labels = termLabels(out, terms.shape.length, dims)
      const summed = axes.map((a) => labels[a] ?? '')
      if (summed.every((l) => v.labels.includes(l) && g?.labels.includes(l) !== true))
        yield { terms, axes, factors, inner, v, g, weights, labels, summed }
    }
  }
}

/** What a value lacks of the weights of terms: factors that are one along the summed axes, and a sign. Undefined: it is no such weights. */
function lacking(w: Node, { axes, factors, weights }: Weighed): Pick<Found, 'left' | 'negative'> | undefined {
  const own = factorsOf(w, axes)
  const alike =
    own?.varying.size === weights.size &&
    [...own.varying].every(([k, f]) => weights.get(k)?.times === f.times && f.node === weights.get(k)?.node)
  if (own === undefined || !alike) return undefined
  // What the value has beyond the terms is taken out again where that is sure to be a number: 1 / S of positive S.
  const beyond = own.constant.filter((n) => !factors.constant.includes(n))
  const divisors = beyond.flatMap((n) => divisorOf(n) ?? [])
  const left = without(
    factors.constant,
    own.constant.filter((n) => !beyond.includes(n)),
  )
  if (left === undefined || divisors.length < beyond.length) return undefined
  return { left: [...left, ...divisors], negative: factors.negative !== own.negative }
}

/** Of the reciprocals of positive values, broadcast, these values, broadcast alike. */
function divisorOf(n: Node): Node | undefined {
  const [x] = n.inputs
  const [one, of] = x?.op === 'div' ? x.inputs : []
  if (n.op !== 'broadcast' || one?.op !== 'full' || one.attrs.value !== 1 || of === undefined || !isPositive(of))
    return undefined
  return makeNode('broadcast', [of], n.attrs)
}

/** A contraction of `users` that holds the sums of a reduction whose terms have a product for a factor. */
function find(sum: Sum, users: ReadonlyMap<Node, readonly Node[]>): Found | undefined {
  for (const at of weighed(sum)) {
    const { terms, inner, v, g, labels, summed } = at
    for (const held of users.get(v.node) ?? []) {
      if (held.op !== 'contract' || held === inner || sizeOf(held.shape) >= sizeOf(terms.shape)) continue
      for (const { of: same, other: w } of sidesOf(held)) {
        if (same.node !== v.node) continue
        const heldLabels = labelsOf(labels, v.labels, g?.labels ?? '', held, same.labels, w.labels, summed)
        if (heldLabels === undefined || w.node.shape.length !== terms.shape.length) continue
        const rest = lacking(w.node, at)
        if (rest !== undefined) return { g, terms: labels, held, heldLabels, ...rest }
      }
    }
  }
  return undefined
}

/** The same with a contraction that the program lacks, of weights that another contraction of it takes: one of `operands`. */
function make(sum: Sum, operands: ReadonlySet<Node>): Found | undefined {
  for (const at of weighed(sum)) {
    const { terms, inner, v, g, labels, summed } = at
    if (inner.op !== 'contract' || labels.some((l) => l.length !== 1)) continue
    const depth = [...v.labels].filter((l) => !labels.includes(l))
    const heldLabels = [...labels.filter((l) => !summed.includes(l)), ...depth]
    for (const w of operands) {
      if (w.dtype !== v.node.dtype || !sameShape(w.shape, terms.shape)) continue
      const rest = lacking(w, at)
      if (rest === undefined) continue
      const attrs = { ...inner.attrs, lhs: labels.join(''), rhs: v.labels, out: heldLabels.join('') }
      const held = inOrigin(sum.origin, () => makeNode('contract', [w, v.node], attrs))
      if (sizeOf(held.shape) < sizeOf(terms.shape)) return { g, terms: labels, held, heldLabels, ...rest }
    }
  }
  return undefined
}

/** The labels of axes along which terms have an inner product for a factor; those that it lacks get labels of their own. */
const termLabels = (out: string, rank: number, dims: readonly number[] | undefined): string[] =>
  Array.from({ length: rank }, (_, a) => out[dims === undefined ? a : dims.indexOf(a)] ?? `axis ${a}`)

/**
 * The labels of a contraction's results by those of the terms and of an inner product with the same operand v, if it sums over what is summed along and keeps
 * what the product sums: the terms' other axes, and the product's depth.
 */
function labelsOf(
  terms: readonly string[],
  v: string,
  g: string,
  held: Contraction,
  same: string,
  w: string,
  summed: readonly string[],
): string[] | undefined {
  const names = new Map<string, string>()
  const isDepth = (name: string): boolean => !terms.includes(name)
  if ([...g].some((name) => isDepth(name) && !v.includes(name))) return undefined
  for (const [i, label] of [...same].entries()) {
    const name = v[i] ?? ''
    // Along what is summed the contraction sums; what the product sums it keeps; what both operands have, both keep.
    if (held.attrs.out.includes(label) === summed.includes(name) || w.includes(label) === isDepth(name))
      return undefined
    names.set(label, name)
  }
  for (const [i, label] of [...w].entries()) {
    const name = terms[i] ?? ''
    if ((names.get(label) ?? name) !== name) return undefined
    names.set(label, name)
  }
  const out = [...held.attrs.out].map((label) => names.get(label) ?? '')
  const depth = [...v].filter(isDepth)
  const kept = terms.filter((name) => !summed.includes(name))
  const isWhole = out.length === kept.length + depth.length && [...kept, ...depth].every((name) => out.includes(name))
  return isWhole ? out : undefined
}

/** Some axes of a value in the order of labels. */
function inOrder(x: Node, own: readonly string[], order: readonly string[]): Node {
  const perm = order.filter((l) => own.includes(l)).map((l) => own.indexOf(l))
  return perm.every((a, i) => a === i) ? x : makeNode('permute', [x], { perm })
}

/** An operand along all axes of a value in the order of labels. */
function spread({ node, labels }: Operand, order: readonly string[], { shape, dtype }: Node): Node {
  const own = [...labels]
  const dims = order.flatMap((l, i) => (own.includes(l) ? [i] : []))
  const factor = inOrder(cast(node, dtype), own, order)
  return dims.length === order.length ? factor : makeNode('broadcast', [factor], { shape, dims })
}

/** The same sum over results of the contraction that holds it. */
function overResults(sum: Sum, { g, terms, held, heldLabels, left, negative }: Found): Node {
  const { dtype, shape, attrs } = sum
  const kept = terms.filter((_, i) => !attrs.axes.includes(i))
  const depth = heldLabels.filter((l) => !kept.includes(l))
  const order = [...kept, ...depth]
  const results = inOrder(cast(held, dtype), heldLabels, order)
  const both = g === undefined ? results : makeNode('mul', [spread(g, order, results), results], {})
  const total = makeNode('reduce', [both], { combiner: 'sum', axes: depth.map((_, i) => kept.length + i) })
  const places = new Map(terms.flatMap((l, i) => (attrs.axes.includes(i) ? [] : [[i, kept.indexOf(l)] as const])))
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

/**
 * The graph with sums over results of contractions in the place of those over their terms; itself where there are none. For fast mode: sums have another order.
 * `adds`: with contractions that it lacks, whose results nothing else asks for: worth it where the terms are not stored.
 */
export function takeKnownSums(graph: Graph, adds = false): Graph {
  let current = graph
  const done = new Set<number>()
  for (;;) {
    const nodes = nodesOf(current)
    const contractions = nodes.filter((n) => n.op === 'contract')
    if (contractions.length === 0) return current
    const users = adds ? new Map<Node, readonly Node[]>() : usersOf(nodes)
    const operands = new Set(contractions.flatMap((n) => n.inputs))
    let first: { readonly sum: Sum; readonly at: Found } | undefined
    for (const n of nodes) {
      if (n.op !== 'reduce' || done.has(n.id)) continue
      done.add(n.id)
      const at = adds ? make(n, operands) : find(n, users)
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
