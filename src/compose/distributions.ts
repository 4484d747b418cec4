/**
 * Random values of distributions, in a number of steps that does not depend on the data: by inversion, by the greatest of Gumbel values, and by
 * rejection in a fixed number of rounds (docs/numerics.md, "Random bits").
 */
import { UserError } from '../diagnostics/errors.ts'
import { param } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { graphBetween } from '../graph/subgraph.ts'
import { type FloatDType, isFloat } from '../types/dtype.ts'
import { broadcastShapes, normaliseAxis, type Shape, sameShape, showShape, sizeOf } from '../types/shape.ts'
import { searchSorted } from './binning.ts'
import { broadcastTo, reshape } from './broadcast.ts'
import { customNodes, deferredRule } from './control.ts'
import {
  add,
  asNode,
  cast,
  clip,
  compare,
  div,
  exp,
  log,
  logAddExp,
  logicalAnd,
  max,
  min,
  mul,
  neg,
  type Operand,
  sqrt,
  square,
  sub,
  unary,
  where,
} from './elementwise.ts'
import { take } from './indexing.ts'
import { randomBits, randomInteger, randomNormal, splitKey } from './random.ts'
import { argmax, cumsum } from './reduce.ts'
import { argsort, topK } from './sorting.ts'
import { iota } from './source.ts'
import { moveAxis, sliceAxis } from './views.ts'

type Work = 'f32' | 'f64'
const workOf = (dtype: FloatDType): Work => (dtype === 'f64' ? 'f64' : 'f32')

/** Uniform on (0, 1], or [2^-33, 1] of 32 random bits in f32: small values have all their digits. */
const fineUniform = (k: Node, shape: Shape, work: Work): Node =>
  mul(add(cast(randomBits(k, shape), work), 0.5), 2 ** -32)

/** Throws E_DTYPE for what is no float. */
function checkFloat(dtype: FloatDType): FloatDType {
  if (isFloat(dtype)) return dtype
  throw new UserError('E_DTYPE', `random values of ${String(dtype)}`, { help: 'draw floats and cast' })
}

/** Exponential with mean 1, -log(u): at most 33 log(2) = 22.9. */
export const randomExponential = (k: Node, shape: Shape, dtype: FloatDType = 'f32'): Node =>
  cast(neg(log(fineUniform(k, shape, workOf(checkFloat(dtype))))), dtype)

/** Standard Gumbel, -log(e) of an exponential e = -log(1 - u) that is exact near 0: from -2.9 to 22.9. */
export function randomGumbel(k: Node, shape: Shape, dtype: FloatDType = 'f32'): Node {
  const u = min(fineUniform(k, shape, workOf(checkFloat(dtype))), 1 - 2 ** -24)
  return cast(neg(log(neg(unary('log1p', neg(u))))), dtype)
}

/**
 * Positions along an axis with probabilities in proportion to e^logits: the greatest of logits plus Gumbel values (E. J. Gumbel 1954). `shape` ends
 * with the other axes of the logits, which it is unless given; i32. Throws E_AXIS, E_SHAPE.
 */
export function categorical(k: Node, logits: Node, axis = -1, shape?: Shape): Node {
  const last = moveAxis(logits, normaliseAxis(axis, logits.shape.length), -1)
  const others = last.shape.slice(0, -1)
  const to = shape ?? others
  const lead = to.length - others.length
  if (lead < 0 || !sameShape(to.slice(lead), others))
    throw new UserError(
      'E_SHAPE',
      `draws of shape ${showShape(to)} from logits whose other axes are ${showShape(others)}`,
      {
        help: 'the shape ends with the axes of the logits that are left',
      },
    )
  const work = last.dtype === 'f64' ? 'f64' : 'f32'
  const wide = [...to, last.shape.at(-1) ?? 0]
  return argmax(add(randomGumbel(k, wide, work), broadcastTo(cast(last, work), wide)), wide.length - 1)
}

/**
 * A permutation of 0 to n - 1: the order of random words, drawn again often enough that words which are equal in all rounds have a probability
 * below 1 / n (as in JAX).
 */
export function permutationOf(k: Node, n: number): Node {
  const rounds = Math.max(1, Math.ceil((3 * Math.log(Math.max(1, n))) / Math.log(2 ** 32)))
  const keys = rounds === 1 ? [k] : splitKey(k, rounds)
  return (
    keys.reduce<Node | undefined>((order, key) => {
      const next = argsort(randomBits(key, [n]))
      return order === undefined ? next : take(order, next)
    }, undefined) ?? iota([n], 0)
  )
}

/** x with an axis in random order: one order for all the other axes. Throws E_AXIS. */
export const permutation = (k: Node, x: Node, axis = 0): Node =>
  take(x, permutationOf(k, x.shape[normaliseAxis(axis, x.shape.length)] ?? 0), axis)

/** Options of `choice`. */
export interface ChoiceNodeOptions {
  readonly replace?: boolean | undefined
  /** In proportion to the probability of each; all alike unless given. */
  readonly p?: Node | undefined
}

/**
 * Positions from 0 to n - 1 over a shape: with replacement by inversion of the running sum of probabilities; without, the first of a random
 * permutation, or of a sort of logarithms of probabilities plus Gumbel values (T. Vieira 2014). Throws E_SHAPE.
 */
export function choicePositions(k: Node, n: number, shape: Shape, options: ChoiceNodeOptions = {}): Node {
  const { replace = true, p } = options
  const count = sizeOf(shape)
  if (count > 0 && (n === 0 || (!replace && count > n)))
    throw new UserError('E_SHAPE', `a choice of ${count} from ${n}`, {
      help: replace ? 'there is nothing to choose from' : 'without replacement choose at most as many as there are',
    })
  if (p !== undefined && (p.shape.length !== 1 || p.shape[0] !== n))
    throw new UserError('E_SHAPE', `probabilities of shape ${showShape(p.shape)} for ${n} to choose from`, {
      help: 'give a probability for each',
    })
  if (count === 0) return reshape(sliceAxis(iota([Math.max(1, n)], 0), 0, 0, 0), shape)
  const work = p?.dtype === 'f64' ? 'f64' : 'f32'
  if (!replace) {
    const order =
      p === undefined
        ? sliceAxis(permutationOf(k, n), 0, 0, count)
        : topK(add(randomGumbel(k, [n], work), log(cast(p, work))), count)[1]
    return reshape(order, shape)
  }
  if (p === undefined) return randomInteger(k, shape, 0, n)
  const sums = cumsum(cast(p, work), 0)
  const drawn = mul(fineUniform(k, shape, work), sliceAxis(sums, 0, n - 1, n))
  return clip(searchSorted(sums, drawn), 0, n - 1)
}

/** Elements of an axis, in place of which the shape stands, at random positions. Throws E_AXIS, E_SHAPE. */
export function choice(
  k: Node,
  x: Node,
  shape: Shape,
  options: ChoiceNodeOptions & { readonly axis?: number } = {},
): Node {
  const axis = normaliseAxis(options.axis ?? 0, x.shape.length)
  return take(x, choicePositions(k, x.shape[axis] ?? 0, shape, options), axis)
}

/** Rounds of rejection: each accepts with a probability of at least 0.95 (Marsaglia and Tsang, for shapes from 1 on). */
const rounds = 8

/** Gamma values as a factor from the shape + 1, and the logarithm of what it is multiplied by for shapes below 1. */
interface GammaParts {
  readonly value: Node
  readonly logBoost: Node
}

/**
 * G. Marsaglia and W. W. Tsang (2000): d (1 + c x)^3 of a normal x, accepted by a uniform value; shapes below 1 are those of shape + 1 times
 * u^(1 / shape). Where no round accepts, with a probability below 0.05^8 = 4e-11, the value is d, the mode.
 */
function gammaParts(k: Node, alpha: Node, shape: Shape, work: Work): GammaParts {
  const a = broadcastTo(alpha, shape)
  const isSmall = compare('lt', a, 1)
  const d = sub(where(isSmall, add(a, 1), a), 1 / 3)
  const c = div(1 / 3, sqrt(d))
  const [own = k, ...keys] = splitKey(k, 1 + 2 * rounds)
  let cube: Node | undefined
  for (let i = rounds - 1; i >= 0; i--) {
    const x = randomNormal(keys[2 * i] ?? k, shape, work)
    const u = fineUniform(keys[2 * i + 1] ?? k, shape, work)
    const root = add(1, mul(c, x))
    const v = mul(mul(root, root), root)
    const bound = add(mul(square(x), 0.5), mul(d, add(sub(1, v), log(max(v, 1e-30)))))
    const accepted = logicalAnd(compare('gt', v, 0), compare('lt', log(u), bound))
    cube = where(accepted, v, cube ?? 1)
  }
  const boost = div(log(fineUniform(own, shape, work)), where(isSmall, a, 1))
  return { value: mul(d, cube ?? 1), logBoost: where(isSmall, boost, 0) }
}

/**
 * What a draw gives of parameters that it has no derivative in: whether a value is accepted depends on them, so that the derivative of the
 * accepted value is not that of the distribution. Asking for one is an error.
 */
function withoutDerivative(
  name: string,
  k: Node,
  parameters: readonly Node[],
  draw: (k: Node, parameters: readonly Node[]) => Node,
): Node {
  const inner = [k, ...parameters].map((x, i) => param(i, x.shape, x.dtype))
  const [key = k, ...rest] = inner
  const rule = deferredRule(name, 'jvp', () => {
    throw new UserError('E_UNSUPPORTED', `the derivative of ${name} in its parameters`, {
      help: 'pass parameters through stopGradient: the values are those of constants',
    })
  })
  const [drawn = k] = customNodes(graphBetween(inner, [draw(key, rest)]), rule, [k, ...parameters])
  return drawn
}

/** Parameters of a distribution in the dtype that it is drawn in, and the shape of what is drawn. Throws E_SHAPE. */
function prepared(
  parameters: readonly Operand[],
  shape: Shape | undefined,
  work: Work,
): { readonly nodes: Node[]; readonly to: Shape } {
  const nodes = parameters.map((p) => cast(asNode(p), work))
  const common = nodes.reduce<Shape>((s, p) => broadcastShapes(s, p.shape), [])
  const to = shape ?? common
  for (const p of nodes) broadcastTo(p, to)
  return { nodes, to }
}

/** Gamma values of a shape parameter above 0 and scale 1. No derivative in the parameter. Throws E_SHAPE. */
export function randomGamma(k: Node, alpha: Operand, shape?: Shape, dtype: FloatDType = 'f32'): Node {
  const work = workOf(checkFloat(dtype))
  const { nodes, to } = prepared([alpha], shape, work)
  const drawn = withoutDerivative('random.gamma', k, nodes, (key, [a = key]) => {
    const { value, logBoost } = gammaParts(key, a, to, work)
    return mul(value, exp(logBoost))
  })
  return cast(drawn, dtype)
}

/** Beta values of two parameters above 0: the share that one gamma value has of two, by their logarithms. No derivative in the parameters. Throws E_SHAPE. */
export function randomBeta(k: Node, a: Operand, b: Operand, shape?: Shape, dtype: FloatDType = 'f32'): Node {
  const work = workOf(checkFloat(dtype))
  const { nodes, to } = prepared([a, b], shape, work)
  const drawn = withoutDerivative('random.beta', k, nodes, (key, [p = key, q = key]) => {
    const [first = key, second = key] = splitKey(key)
    const logOf = ({ value, logBoost }: GammaParts): Node => add(log(value), logBoost)
    const [x, y] = [logOf(gammaParts(first, p, to, work)), logOf(gammaParts(second, q, to, work))]
    return exp(sub(x, logAddExp(x, y)))
  })
  return cast(drawn, dtype)
}

/**
 * Normal values within bounds, by inversion: sqrt(2) erfinv(u) of a u between erf(lower / sqrt(2)) and erf(upper / sqrt(2)). Differentiable in the
 * bounds. Throws E_SHAPE.
 */
export function truncatedNormal(
  k: Node,
  lower: Operand,
  upper: Operand,
  shape?: Shape,
  dtype: FloatDType = 'f32',
): Node {
  const work = workOf(checkFloat(dtype))
  const { nodes, to } = prepared([lower, upper], shape, work)
  const [low = k, high = k] = nodes
  const share = (bound: Node): Node => unary('erf', mul(bound, Math.SQRT1_2))
  const u = add(share(low), mul(sub(share(high), share(low)), fineUniform(k, to, work)))
  // Within the open interval, whose ends erfinv makes infinite.
  const least = 2 ** (work === 'f64' ? -53 : -24)
  const value = mul(unary('erfinv', clip(u, -1 + least, 1 - least)), Math.SQRT2)
  return cast(clip(value, low, high), dtype)
}
