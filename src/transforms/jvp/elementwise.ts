/**
 * JVP rules of elementwise operations. Derivatives come from the result where they can (exp, tanh, sqrt, sigmoid), so that
 * the backward pass needs one value. At kinks: abs 0; max and min share a tie equally, but against a literal the literal wins
 * (relu'(0) = 0, clip is flat on its bounds); pow(x, 0) has derivative 0 in x, pow(0, y) derivative 0 in y.
 */
import { add, cast, compare, div, mul, neg, pow, scalarLike, sub, unary, where } from '../../compose/elementwise.ts'
import type { Node } from '../../graph/node.ts'
import { type Approximated, type Approximation, approximated, approximations } from '../../scalar/approximations.ts'
import type { Partial, Terms } from '../../scalar/formula.ts'
import type { BinaryName, UnaryName } from '../../scalar/ops.ts'
import { operand, unsupported } from '../rule.ts'
import { addTangents, type JvpRule, type JvpRules, materialised, type Tangent } from './rule.ts'

type Coefficient = (x: Node, out: Node) => Node

/** t times a function of operand and result. */
const times =
  (coefficient: Coefficient) =>
  (node: Node, [t]: readonly Tangent[]): Tangent =>
    t === undefined ? undefined : mul(t, coefficient(operand(node, 0), node))

/** t over a function of operand and result. */
const over =
  (denominator: Coefficient) =>
  (node: Node, [t]: readonly Tangent[]): Tangent =>
    t === undefined ? undefined : div(t, denominator(operand(node, 0), node))

const square = (x: Node): Node => mul(x, x)

/** Tangents of both operands, scaled each by its partial derivative, which is asked for only if needed. */
const partials =
  (byFirst: (a: Node, b: Node, out: Node) => (t: Node) => Node, bySecond: typeof byFirst) =>
  (node: Node, [s, t]: readonly Tangent[]): Tangent => {
    const [a, b] = [operand(node, 0), operand(node, 1)]
    return addTangents(
      s === undefined ? undefined : byFirst(a, b, node)(s),
      t === undefined ? undefined : bySecond(a, b, node)(t),
    )
  }

/** Derivative of pow in the base: y x^(y-1), 0 where y is 0. */
function powByBase(x: Node, y: Node): Node {
  if (y.op === 'full') {
    const p = Number(y.attrs.value)
    if (p === 0) return scalarLike(x, 0)
    if (p === 1) return scalarLike(x, 1)
    return mul(p === 2 ? x : pow(x, p - 1), p)
  }
  return where(compare('eq', y, 0), 0, mul(y, pow(x, sub(y, 1))))
}

/** Derivative of pow in the exponent: log(x) x^y, 0 where x is 0. */
const powByExponent = (x: Node, out: Node): Node => mul(unary('log', where(compare('eq', x, 0), 1, x)), out)

const isLiteral = (x: Node): boolean => x.op === 'full' || x.op === 'constant'

/** max ('gt') or min ('lt'). */
const extremum =
  (beats: 'gt' | 'lt') =>
  (node: Node, [s, t]: readonly Tangent[]): Tangent => {
    const [a, b] = [operand(node, 0), operand(node, 1)]
    // The result tells as well as the operand whether the literal won, and the backward pass often has it already.
    if (t === undefined && s !== undefined && isLiteral(b)) return where(compare(beats, node, b), s, 0)
    if (s === undefined && t !== undefined && isLiteral(a)) return where(compare(beats, node, a), t, 0)
    const weight = (x: Node, y: Node): Node =>
      where(compare(beats, x, y), scalarLike(x, 1), where(compare('eq', x, y), scalarLike(x, 0.5), 0))
    return addTangents(
      s === undefined ? undefined : mul(s, weight(a, b)),
      t === undefined ? undefined : mul(t, weight(b, a)),
    )
  }

const terms: Terms<Node> = { mul, div, neg, unary }

/** Rules of the functions whose derivatives stand beside their formulas. */
function byFormula(op: Approximated): JvpRule<Approximated> {
  const { derivatives }: Approximation = approximations[op]
  if ('unsupported' in derivatives) return unsupported(derivatives.unsupported, derivatives.help)
  return (node, tangents) => {
    const [x, y = x] = node.inputs
    if (x === undefined || y === undefined) return undefined
    const parts = derivatives.map((d: Partial, i): Tangent => {
      const t = tangents[i]
      return t === undefined ? undefined : mul(t, d(terms, node, x, y))
    })
    return parts.reduce(addTangents)
  }
}

export const elementwiseJvp: JvpRules<UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'> = {
  ...(Object.fromEntries(approximated.map((op) => [op, byFormula(op)])) as unknown as JvpRules<Approximated>),
  neg: (_, [t]) => (t === undefined ? undefined : neg(t)),
  abs: times((x) => unary('sign', x)),
  sign: 'zero',
  floor: 'zero',
  ceil: 'zero',
  round: 'zero',
  trunc: 'zero',
  sqrt: times((_, out) => div(0.5, out)),
  rsqrt: times((_, out) => mul(mul(square(out), out), -0.5)),
  exp: times((_, out) => out),
  expm1: times((_, out) => add(out, 1)),
  log: over((x) => x),
  log1p: over((x) => add(x, 1)),
  sin: times((x) => unary('cos', x)),
  cos: times((x) => neg(unary('sin', x))),
  tan: times((_, out) => add(square(out), 1)),
  asin: times((x) => unary('rsqrt', sub(1, square(x)))),
  acos: times((x) => neg(unary('rsqrt', sub(1, square(x))))),
  atan: over((x) => add(square(x), 1)),
  sinh: times((x) => unary('cosh', x)),
  cosh: times((x) => unary('sinh', x)),
  tanh: times((_, out) => sub(1, square(out))),
  asinh: times((x) => unary('rsqrt', add(square(x), 1))),
  acosh: times((x) => unary('rsqrt', mul(sub(x, 1), add(x, 1)))),
  atanh: over((x) => sub(1, square(x))),
  erf: times((x) => mul(unary('exp', neg(square(x))), 2 / Math.sqrt(Math.PI))),
  sigmoid: times((_, out) => mul(out, sub(1, out))),
  not: 'zero',
  isnan: 'zero',
  isinf: 'zero',
  add: (_, [s, t]) => addTangents(s, t),
  sub: (_, [s, t]) => {
    if (t === undefined) return s
    return s === undefined ? neg(t) : sub(s, t)
  },
  mul: (node, [s, t]) => {
    const [a, b] = [operand(node, 0), operand(node, 1)]
    if (a === b && s !== undefined) return mul(s, add(a, a))
    return addTangents(s === undefined ? undefined : mul(s, b), t === undefined ? undefined : mul(t, a))
  },
  div: partials(
    (_, b) => (t) => div(t, b),
    (_, b, out) => (t) => neg(mul(t, div(out, b))),
  ),
  rem: partials(
    () => (t) => t,
    (a, b, out) => (t) => neg(mul(t, unary('round', div(sub(a, out), b)))),
  ),
  pow: partials(
    (a, b) => (t) => mul(t, powByBase(a, b)),
    (a, _, out) => (t) => mul(t, powByExponent(a, out)),
  ),
  max: extremum('gt'),
  min: extremum('lt'),
  atan2: partials(
    (y, x) => (t) => mul(t, div(x, add(square(x), square(y)))),
    (y, x) => (t) => neg(mul(t, div(y, add(square(x), square(y))))),
  ),
  and: 'zero',
  or: 'zero',
  xor: 'zero',
  shl: 'zero',
  shr: 'zero',
  eq: 'zero',
  ne: 'zero',
  lt: 'zero',
  le: 'zero',
  gt: 'zero',
  ge: 'zero',
  select: (node, [, s, t]) =>
    s === undefined && t === undefined
      ? undefined
      : where(operand(node, 0), materialised(s, node), materialised(t, node)),
  cast: (node, [t]) => (t === undefined ? undefined : cast(t, node.dtype)),
  bitcast: 'zero',
}
