/**
 * Weights by one number a row. Weights exp(x - m) / S of rows of x, with S = sum exp(x - m), are exp(x - d) with d = m + log S. The forward pass streams m
 * and S and cannot know d before its end; where the backward pass makes weights again from x, d is all that it needs of their rows: it keeps
 * one number in the place of two, and no product normalises (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao 2023, arXiv:2307.08691).
 *
 * The algebra: a product of f(x - m), where f(a + b) = f(a) f(b), and of something that 1 / S is a factor of, is f(x - d) times what is left of the
 * latter. d rounds as x does, which is taken relative to its size: so x must not hold numbers as large as masks are (-1e9), by which equal
 * weights of a row that sees nothing else would lose their number.
 */
import { backwardOrigin, inOrigin } from '../diagnostics/origin.ts'
import { makeNode, withContext } from '../graph/build.ts'
import type { AttrsByOp, Graph, Node, OpName } from '../graph/node.ts'
import { familyOf, scalarOf } from '../graph/table.ts'
import type { FusionPlan } from '../plan/plan.ts'
import { phasesOf } from '../plan/remat/phases.ts'
import { evalScalar } from '../scalar/eval.ts'
import { isFloat } from '../types/dtype.ts'

/** Exponentials f(x - m) of rows, and the reciprocal of a sum that normalises them. */
interface Weights {
  readonly exponential: Node
  readonly reciprocal: Node
  /** The axes of the exponentials that a row's values lie along. */
  readonly dims: readonly number[]
  /** f(x - d). */
  readonly weight: Node
}

const fullOf = (n: Node | undefined): number | undefined =>
  n?.op === 'full' && typeof n.attrs.value === 'number' ? n.attrs.value : undefined

/** The same operation on other inputs, of the origin that is current. */
const again = (n: Node, inputs: readonly Node[]): Node =>
  inputs.every((x, i) => x === n.inputs[i]) ? n : (makeNode<OpName>(n.op, inputs, n.attrs as AttrsByOp[OpName]) as Node)

const isElementwise = (n: Node): boolean => familyOf(n) === 'elementwise'

const isNumber = (n: Node, value: number): boolean => fullOf(n) === value

/** What of a value must be positive too, so that it is positive wherever it is a number; undefined: that does not tell. */
function positiveParts(n: Node): readonly Node[] | undefined {
  const number = fullOf(n)
  if (number !== undefined) return number > 0 ? [] : undefined
  if (!isFloat(n.dtype)) return undefined
  if (n.op === 'reduce') return n.attrs.combiner === 'sum' ? n.inputs : undefined
  if (n.op === 'broadcast' || n.op === 'cast') return n.inputs
  if (n.op === 'select') return n.inputs.slice(1).filter((x) => !isNumber(x, 0))
  const scalar = scalarOf(n)
  if (scalar?.exponentialIn !== undefined) return n.inputs.length === 1 ? [] : undefined
  if (scalar?.factors !== undefined || scalar?.terms?.every((t) => t === 1) === true) return n.inputs
  return undefined
}

/** Whether every value that is reached from one holds to something; `inner` says what is reached from it next, or that it does not. */
function every(root: Node, inner: (n: Node) => readonly Node[] | undefined): boolean {
  const seen = new Set([root])
  const stack = [root]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    const next = inner(n)
    if (next === undefined) return false
    for (const x of next)
      if (!seen.has(x)) {
        seen.add(x)
        stack.push(x)
      }
  }
  return true
}

/** Whether a value is positive wherever it is a number: sums and products of exponentials, of rows. */
export const isPositive = (root: Node): boolean => every(root, positiveParts)

/** The largest number that may stand beside scores: 2^-24 of it is no error that weights in halves show. */
const mostBeside = 2 ** 12

const isNear = (v: unknown): boolean => v === Number.NEGATIVE_INFINITY || Math.abs(Number(v)) <= mostBeside

/** Of a value that is rounded in proportion to its size what it is computed from; undefined: it may be as large as masks are. */
function roundedParts(n: Node): readonly Node[] | undefined {
  if (familyOf(n) === 'contraction' || n.dtype === 'bool') return []
  if (n.op === 'full') return isNear(n.attrs.value) ? [] : undefined
  if (n.op === 'constant') return n.attrs.data.every(isNear) ? [] : undefined
  // Of sources positions are left.
  if (familyOf(n) === 'source') return n.op === 'param' ? undefined : []
  return isElementwise(n) || familyOf(n) === 'view' ? n.inputs : undefined
}

/** Whether a value is computed from products, so that it is rounded in proportion to its size, and from nothing as large as masks are. */
const isRounded = (root: Node): boolean => every(root, roundedParts)

/** A row's value at every element of its row, if that is what a node is: the value and the axes of rows. */
export function ofRows(n: Node | undefined): { readonly value: Node; readonly dims: readonly number[] } | undefined {
  const [value] = n?.inputs ?? []
  return n?.op === 'broadcast' && value !== undefined ? { value, dims: n.attrs.dims } : undefined
}

/** Exponentials f(x - m) and a reciprocal of rows' sums, as weights. */
function weightsOf(exponential: Node, reciprocal: Node): Weights | undefined {
  const scalar = scalarOf(exponential)
  const [exponent] = exponential.inputs
  const [one, sum] = reciprocal.inputs
  if (scalar?.exponentialIn === undefined || exponential.inputs.length !== 1 || exponential.dtype !== 'f32')
    return undefined
  if (one === undefined || sum === undefined || !isNumber(one, 1) || reciprocal.dtype !== 'f32') return undefined
  const [x, row] = exponent?.inputs ?? []
  if (exponent === undefined || x === undefined || `${scalarOf(exponent)?.terms}` !== '1,-1') return undefined
  const anchor = ofRows(row)
  if (anchor === undefined || `${anchor.value.shape}` !== `${sum.shape}` || anchor.value.dtype !== 'f32')
    return undefined
  if (!isPositive(sum) || !isRounded(x)) return undefined
  const base = Number(evalScalar(exponential.op as 'exp', 'f64', 'f64', [1]))
  const d = inOrigin(reciprocal.origin, () => {
    const log = makeNode('log', [sum], {})
    const rate = Math.log(base)
    const scale = makeNode('full', [], { shape: sum.shape, dtype: sum.dtype, value: 1 / rate })
    return makeNode('add', [anchor.value, rate === 1 ? log : makeNode('mul', [log, scale], {})], {})
  })
  const weight = inOrigin(backwardOrigin(exponential.origin), () => {
    const rows = makeNode('broadcast', [d], { shape: exponential.shape, dims: anchor.dims })
    return again(exponential, [again(exponent, [x, rows])])
  })
  return { exponential, reciprocal, dims: anchor.dims, weight }
}

/** Nodes that are looked at for one factor: a product may hold itself, so that there are exponentially many. */
const mostLooked = 64

/** Products without one of their factors. */
class Quotients {
  private readonly of: Node
  private readonly to: Node | undefined
  private readonly dims: readonly number[]
  private left = mostLooked

  /** The factor, what takes its place (none: one), and along which axes of the whole its own lie. */
  constructor(of: Node, to: Node | undefined, dims: readonly number[]) {
    this.of = of
    this.to = to
    this.dims = dims
  }

  /** The quotient of a value whose axes are these of the whole; undefined: the factor is none of it. */
  find(n: Node, dims: readonly number[] = n.shape.map((_, i) => i)): Node | undefined {
    if (--this.left < 0) return undefined
    if (n === this.of) {
      if (`${dims}` !== `${this.dims}`) return undefined
      return this.to ?? makeNode('full', [], { shape: n.shape, dtype: n.dtype, value: 1 })
    }
    const [x, y, z] = n.inputs
    if (x === undefined || !isFloat(n.dtype)) return undefined
    if (n.op === 'broadcast') {
      const inner = this.find(
        x,
        n.attrs.dims.map((d) => dims[d] ?? 0),
      )
      return inner === undefined ? undefined : again(n, [inner])
    }
    if (n.op === 'select') {
      const inner = y !== undefined && z !== undefined && isNumber(z, 0) ? this.find(y, dims) : undefined
      return inner === undefined || z === undefined ? undefined : again(n, [x, inner, z])
    }
    const scalar = scalarOf(n)
    if (scalar?.factors !== undefined) return this.ofProduct(n, scalar.factors, dims)
    if (scalar?.terms === undefined) return undefined
    const terms = n.inputs.map((t) => this.find(t, dims))
    return terms.every((t) => t !== undefined) ? again(n, terms) : undefined
  }

  private ofProduct(n: Node, powers: readonly (1 | -1)[], dims: readonly number[]): Node | undefined {
    for (const [i, power] of powers.entries()) {
      const x = n.inputs[i]
      const inner = power === 1 && x !== undefined ? this.find(x, dims) : undefined
      if (inner === undefined) continue
      const others = n.inputs.filter((_, j) => j !== i)
      const [only] = others
      // One times the other.
      if (isOne(inner) && only !== undefined && powers.every((p) => p === 1)) return only
      return again(
        n,
        n.inputs.map((y, j) => (j === i ? inner : y)),
      )
    }
    return undefined
  }
}

/** Whether a value is one everywhere. */
const isOne = (n: Node): boolean => isNumber(ofRows(n)?.value ?? n, 1)

/** A product of weights' exponentials and of what their reciprocal is a factor of, by normalised weights. */
function normalised(n: Node, { exponential, reciprocal, dims, weight }: Weights): Node | undefined {
  const [x, y] = n.inputs
  if (x === undefined || y === undefined || scalarOf(n)?.factors?.every((p) => p === 1) !== true) return undefined
  const whole = exponential.shape.map((_, i) => i)
  if (`${n.shape}` !== `${exponential.shape}`) return undefined
  for (const [e, r] of [
    [x, y],
    [y, x],
  ] as const) {
    const weights = new Quotients(exponential, weight, whole).find(e)
    const rest = weights === undefined ? undefined : new Quotients(reciprocal, undefined, dims).find(r)
    if (weights === undefined || rest === undefined) continue
    return isOne(rest) ? weights : again(n, [weights, rest])
  }
  return undefined
}

/** Whether several chains of a plan make the same exponentials. */
export function makesWeightsAgain({ groups }: FusionPlan): boolean {
  const seen = new Set<Node>()
  for (const g of groups) {
    if (g.kind !== 'kernel' || g.roles.kind !== 'chain') continue
    for (const n of g.members) {
      if (scalarOf(n)?.exponentialIn === undefined) continue
      if (seen.has(n)) return true
      seen.add(n)
    }
  }
  return false
}

/** The graph with normalised weights in its backward pass; itself where there are none. For fast mode: d rounds. */
export function normaliseWeights(graph: Graph): Graph {
  const phases = phasesOf(graph)
  if (phases === undefined) return graph
  const isReciprocal = (n: Node): boolean =>
    `${scalarOf(n)?.factors}` === '1,-1' && n.inputs[0] !== undefined && isNumber(n.inputs[0], 1)
  const forward = phases.nodes.filter((n) => !phases.backward.has(n))
  const exponentials = forward.filter((n) => scalarOf(n)?.exponentialIn !== undefined && n.shape.length > 1)
  const reciprocals = forward.filter((n) => isReciprocal(n) && isFloat(n.dtype))
  let current = graph
  for (const e of exponentials)
    for (const r of reciprocals) {
      if (r.shape.length >= e.shape.length) continue
      const made = withContext(() => {
        const weights = weightsOf(e, r)
        return weights === undefined ? undefined : inBackward(current, weights)
      })
      current = made ?? current
    }
  return current
}

/** A graph whose backward pass has weights normalised, if it reads neither exponentials nor what they were normalised by then. */
function inBackward(graph: Graph, weights: Weights): Graph | undefined {
  const phases = phasesOf(graph)
  if (phases === undefined) return undefined
  const { exponential, reciprocal } = weights
  // Values of the forward pass that are weights, or made of them element by element.
  const copies = new Map<Node, Node>()
  const rebuilt = new Map<Node, Node>()
  const seen = (x: Node): Node => rebuilt.get(x) ?? copies.get(x) ?? x
  let isFound = false
  for (const n of phases.nodes) {
    const late = phases.backward.has(n)
    if (!late && (!isElementwise(n) || n === exponential)) continue
    inOrigin(late ? n.origin : backwardOrigin(n.origin), () => {
      const product = normalised(n, weights)
      isFound ||= late && product !== undefined
      const made = again(product ?? n, (product ?? n).inputs.map(seen))
      if (made !== n) (late ? rebuilt : copies).set(n, made)
    })
  }
  const image = (n: Node): Node => rebuilt.get(n) ?? n
  const next = { params: graph.params, outputs: graph.outputs.map(image), effects: graph.effects.map(image) }
  const after = phasesOf(next)
  if (!isFound || after === undefined) return undefined
  const reads = (n: Node): boolean => n.inputs.some((x) => x === exponential || x === reciprocal)
  return [...after.backward].some(reads) ? undefined : next
}
