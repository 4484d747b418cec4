/**
 * Operators that draw random numbers. ONNX leaves the values open; here they are a pure function of the node's seed (or, without
 * one, of its name), so that a model gives the same result each time it runs.
 */
import { key, randomNormal, randomUniform } from '../../compose/random.ts'
import { type DType, type FloatDType, isFloat } from '../../types/dtype.ts'
import type { Shape } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** FNV-1a of the first output's name, which is unique in a graph; seeds with a fraction count by their bits. */
function keyOf(c: OpContext): n.Node {
  const seed = c.optNumber('seed')
  if (seed !== undefined)
    return key(Number.isSafeInteger(seed) ? seed : (new Uint32Array(Float32Array.of(seed).buffer)[0] ?? 0))
  let hash = 2166136261
  for (const ch of `${c.node.name}/${c.node.output[0] ?? ''}`)
    hash = Math.imul(hash ^ (ch.codePointAt(0) ?? 0), 16777619)
  return key(hash >>> 0)
}

const floatDType = (c: OpContext, d: DType): FloatDType => (isFloat(d) ? d : c.fail(`it draws values of ${d}`))

const dtypeOf = (c: OpContext, fallback: DType): FloatDType =>
  floatDType(c, c.has('dtype') ? c.dtype('dtype') : fallback)

type Draw = (c: OpContext, shape: Shape, dtype: FloatDType) => n.Node

const uniform: Draw = (c, shape, dtype) => {
  const low = c.float('low', 0)
  return n.add(n.mul(randomUniform(keyOf(c), shape, dtype), c.float('high', 1) - low), low)
}

const normal: Draw = (c, shape, dtype) =>
  n.add(n.mul(randomNormal(keyOf(c), shape, dtype), c.float('scale', 1)), c.float('mean', 0))

const ofShape =
  (draw: Draw): Handler =>
  (c) =>
    draw(c, c.ints('shape') ?? [], dtypeOf(c, 'f32'))

const likeInput =
  (draw: Draw): Handler =>
  (c) => {
    const x = c.need(0)
    return draw(c, x.shape, dtypeOf(c, x.dtype))
  }

/** true (as `dtype`) with the probabilities of the input. */
const bernoulli: Handler = (c) => {
  const p = c.need(0)
  const drawn = randomUniform(keyOf(c), p.shape, floatDType(c, p.dtype))
  return n.cast(n.compare('lt', drawn, p), c.has('dtype') ? c.dtype('dtype') : p.dtype)
}

/**
 * Zeroes elements with probability `ratio` and scales the others up, in training mode only. Ratio and mode may be computed:
 * they stay data.
 */
const dropout: Handler = (c) => {
  const x = c.need(0)
  const all = n.full(x.shape, true, 'bool')
  const mode = c.opt(2)
  // Before operator set 12 the node is the identity outside training, and training was never exported.
  if (mode === undefined || (c.services.isFixed(mode) && c.intOf(2, 'training_mode') === 0)) return [x, all]
  const work: FloatDType = x.dtype === 'f64' ? 'f64' : 'f32'
  const given = c.opt(1)
  const ratio = given === undefined ? n.full([], 0.5, work) : n.cast(n.asScalar(given), work)
  const training = n.asScalar(mode)
  const kept = n.logicalOr(n.logicalNot(training), n.compare('ge', randomUniform(keyOf(c), x.shape, work), ratio))
  const factor = n.where(training, n.div(1, n.sub(1, ratio)), n.full([], 1, work))
  const scaled = n.cast(n.mul(n.cast(x, work), factor), x.dtype)
  return [n.where(kept, scaled, n.filled(x, x.shape, 0)), kept]
}

export const randomHandlers: HandlerTable = {
  Bernoulli: bernoulli,
  Dropout: dropout,
  RandomNormal: ofShape(normal),
  RandomNormalLike: likeInput(normal),
  RandomUniform: ofShape(uniform),
  RandomUniformLike: likeInput(uniform),
}
