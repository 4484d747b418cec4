/** Linear quantisation, and the operators on quantised data. */
import { extreme } from '../../scalar/ops.ts'
import { computeDType, type DType } from '../../types/dtype.ts'
import { normaliseAxis, sameShape } from '../../types/shape.ts'
import { decodeCodes, encodeCodes, limitInteger } from '../codec.ts'
import { isCoded, type Value } from '../codes.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { codedOfElement } from '../tensors.ts'
import { encodeOptions } from './cast.ts'
import { convolve } from './window.ts'

/**
 * A scale or zero point beside data: a scalar, one value an index of `axis`, or one value a block along `axis` (the last
 * block may be cut short).
 */
function granular(c: OpContext, v: n.Node, x: n.Node): n.Node {
  if (v.shape.length === 0) return v
  if (v.shape.length === 1 && v.shape[0] === 1) return n.asScalar(v)
  const axis = normaliseAxis(c.int('axis', 1), x.shape.length)
  const block = c.int('block_size', 0)
  if (block === 0) return v.shape.length === 1 ? n.alongAxis(v, axis, x.shape.length) : v
  const paired = [...v.shape.slice(0, axis + 1), 1, ...v.shape.slice(axis + 1)]
  const wide = [...v.shape.slice(0, axis + 1), block, ...v.shape.slice(axis + 1)]
  const repeated = v.shape.map((d, i) => (i === axis ? d * block : d))
  const spread = n.reshape(n.broadcastTo(n.reshape(v, paired), wide), repeated)
  return sameShape(spread.shape, x.shape) ? spread : n.sliceAxis(spread, axis, 0, x.shape[axis] ?? 0)
}

/** round(x) + zero, limited to the dtype. The sum is formed in a dtype wide enough to be exact. */
export function saturate(x: n.Node, zero: n.Node | undefined, to: DType): n.Node {
  const rounded = n.unary('round', x)
  const shifted = zero === undefined ? rounded : n.add(rounded, n.cast(zero, rounded.dtype))
  return n.cast(n.clip(shifted, Number(extreme(to, 'least')), Number(extreme(to, 'greatest'))), to)
}

/** Codes as numbers of a float dtype, anything else converted. */
const decoded = (v: Value, to: DType): n.Node => (isCoded(v) ? decodeCodes(v, to) : n.cast(v, to))

export const quantizeLinear: Handler = (c) => {
  const x = c.need(0)
  const scale = granular(c, c.need(1), x)
  const given = c.inputs[2]
  const precision = c.int('precision', 0) !== 0 ? c.dtype('precision') : scale.dtype
  // The quotient has the precision of the scale; halves are divided in f32 and rounded once.
  const work = computeDType(precision)
  const quotient = n.cast(n.cast(n.div(n.cast(x, work), n.cast(scale, work)), precision), work)
  const named = c.int('output_dtype', 0)
  const coded = given === undefined ? codedOfElement(named) : isCoded(given) ? given.coded : undefined
  if (coded !== undefined) {
    const zero = given === undefined ? undefined : granular(c, decoded(given, work), x)
    const rounded = coded.includes('FLOAT') ? quotient : n.unary('round', quotient)
    const shifted = zero === undefined ? rounded : n.add(rounded, zero)
    return encodeCodes(limitInteger(shifted, coded), coded, encodeOptions(c))
  }
  const zero = given === undefined ? undefined : granular(c, c.need(2), x)
  return saturate(quotient, zero, zero?.dtype ?? (named !== 0 ? c.dtype('output_dtype') : 'u8'))
}

export const dequantizeLinear: Handler = (c) => {
  const x = c.value(0)
  const zero = c.inputs[2]
  const data = isCoded(x) ? x.node : x
  const given = c.value(1)
  const to = c.int('output_dtype', 0) !== 0 ? c.dtype('output_dtype') : isCoded(given) ? 'f32' : given.dtype
  const work = computeDType(to)
  const scale = granular(c, decoded(given, work), data)
  const value = decoded(x, work)
  const centre = zero === undefined ? value : n.sub(value, granular(c, decoded(zero, work), data))
  return n.cast(n.mul(centre, scale), to)
}

/** Data as u8 with scale and zero point from its range, which is stretched to hold 0. */
export function dynamicallyQuantised(x: n.Node): readonly [codes: n.Node, scale: n.Node, zero: n.Node] {
  const all = x.shape.map((_, i) => i)
  const low = n.min(n.reduceMin(x, all), 0)
  const high = n.max(n.reduceMax(x, all), 0)
  const scale = n.div(n.sub(high, low), 255)
  const zero = n.cast(n.clip(n.unary('round', n.div(n.neg(low), scale)), 0, 255), 'u8')
  return [saturate(n.div(x, scale), zero, 'u8'), scale, zero]
}

/** Data minus its zero point, as i32. */
export function centred(x: n.Node, zero: n.Node | undefined): n.Node {
  const wide = n.cast(x, 'i32')
  return zero === undefined ? wide : n.sub(wide, n.cast(zero, 'i32'))
}

/** A zero point per row of the left matrix (a vector [M] stands for [M, 1]). */
const perRow = (v: n.Node | undefined): n.Node | undefined =>
  v !== undefined && v.shape.length === 1 && v.shape[0] !== 1 ? n.expandDims(v, 1) : v

const matMulInteger: Handler = (c) => n.matmul(centred(c.need(0), perRow(c.opt(2))), centred(c.need(1), c.opt(3)))

/** A per-output-channel vector beside weights [out, ...]. */
const perOutput = (v: n.Node | undefined, rank: number): n.Node | undefined =>
  v === undefined || v.shape.length === 0 ? v : n.alongAxis(v, 0, rank)

const convInteger: Handler = (c) => {
  const w = c.need(1)
  const zero = c.opt(2)
  return convolve(
    c,
    centred(c.need(0), zero === undefined ? undefined : n.asScalar(zero)),
    centred(w, perOutput(c.opt(3), w.shape.length)),
  )
}

/** Requantises exact i32 sums: round(sum * factor) + zero, saturated. The factor is formed in f32. */
export function requantise(sum: n.Node, factor: n.Node, zero: n.Node): n.Node {
  return saturate(n.mul(n.cast(sum, 'f32'), factor), zero, zero.dtype)
}

const asF32 = (x: n.Node): n.Node => n.cast(x, 'f32')

const qLinearMatMul: Handler = (c) => {
  const product = n.matmul(centred(c.need(0), perRow(c.need(2))), centred(c.need(3), c.need(5)))
  const aScale = perRow(c.need(1)) ?? c.need(1)
  const factor = n.div(n.mul(asF32(aScale), asF32(c.need(4))), asF32(c.need(6)))
  return requantise(product, factor, c.need(7))
}

export const qLinearConv: Handler = (c) => {
  const x = c.need(0)
  const w = c.need(3)
  const bias = c.opt(8)
  const sum = convolve(c, centred(x, n.asScalar(c.need(2))), centred(w, perOutput(c.need(5), w.shape.length)), bias)
  const perChannel = (v: n.Node): n.Node => (v.shape.length === 0 ? v : n.alongAxis(v, 1, x.shape.length))
  const wScale = c.need(4)
  const factor = n.div(
    n.mul(asF32(n.asScalar(c.need(1))), asF32(wScale.shape[0] === 1 ? n.asScalar(wScale) : perChannel(wScale))),
    asF32(n.asScalar(c.need(6))),
  )
  return requantise(sum, factor, n.asScalar(c.need(7)))
}

export const quantizeHandlers: HandlerTable = {
  ConvInteger: convInteger,
  DequantizeLinear: dequantizeLinear,
  DynamicQuantizeLinear: (c) => dynamicallyQuantised(c.need(0)),
  MatMulInteger: matMulInteger,
  QLinearConv: qLinearConv,
  QLinearMatMul: qLinearMatMul,
  QuantizeLinear: quantizeLinear,
}
