/** Products of 8-bit and 16-bit integers, with what makes floats or codes of their sums; recurrence on dynamically quantised data. */
import type { DType } from '../../../types/dtype.ts'
import { normaliseAxis } from '../../../types/shape.ts'
import type { Handler, HandlerTable } from '../../context.ts'
import * as n from '../../nodes.ts'
import { centred, dynamicallyQuantised, requantise } from '../quantize.ts'
import { lstm } from '../recurrent.ts'

/** One element as a scalar; else a value for each column. */
const perColumn = (x: n.Node | undefined): n.Node | undefined =>
  x?.shape.every((d) => d === 1) === true ? n.asScalar(x) : x

const isScalar = (x: n.Node | undefined): boolean => x === undefined || x.shape.length === 0

/** A B in a float dtype, from integers with scales and zero points; those of A may differ along the sum. */
const matMulIntegerToFloat: Handler = (c) => {
  const to = c.need(2).dtype
  const [aScale, bScale] = [perColumn(c.need(2)) ?? c.need(2), perColumn(c.need(3)) ?? c.need(3)]
  const [aZero, bZero] = [perColumn(c.opt(4)), perColumn(c.opt(5))]
  const [a, b] = [centred(c.need(0), aZero), centred(c.need(1), bZero)]
  const f32 = (x: n.Node): n.Node => n.cast(x, 'f32')
  const product = isScalar(aScale)
    ? n.mul(f32(n.matmul(a, b)), n.mul(f32(aScale), f32(bScale)))
    : n.mul(n.matmul(n.mul(f32(a), f32(aScale)), f32(b)), f32(bScale))
  const bias = c.opt(6)
  return n.cast(bias === undefined ? product : n.add(product, f32(bias)), to)
}

const dynamicQuantizeMatMul: Handler = (c) => {
  const [codes, scale, zero] = dynamicallyQuantised(c.need(0))
  const bScale = perColumn(c.need(2)) ?? c.need(2)
  const sum = n.matmul(centred(codes, zero), centred(c.need(1), perColumn(c.opt(3))))
  const y = n.mul(n.cast(sum, 'f32'), n.mul(scale, bScale))
  const bias = c.opt(4)
  return bias === undefined ? y : n.add(y, bias)
}

/** alpha A' B' + C, scaled to floats or to codes; C counts in units of the product's scale. */
const qGemm: Handler = (c) => {
  const a = centred(c.need(0), n.asScalar(c.need(2)))
  const transB = c.flag('transB', false)
  const along = (v: n.Node): n.Node =>
    v.shape.every((d) => d === 1) ? n.asScalar(v) : n.alongAxis(v, transB ? 0 : 1, 2)
  const b = centred(c.need(3), along(c.need(5)))
  const product = n.contractLabelled(a, c.flag('transA', false) ? 'ki' : 'ik', b, transB ? 'jk' : 'kj', 'ij')
  const bias = c.opt(6)
  const sum = bias === undefined ? product : n.add(product, bias)
  const bScale = perColumn(c.need(4)) ?? c.need(4)
  const factor = n.mul(n.mul(n.asScalar(c.need(1)), bScale), c.float('alpha', 1))
  const yScale = c.opt(7)
  if (yScale === undefined) return n.mul(n.cast(sum, 'f32'), factor)
  const zero = c.opt(8)
  const by = n.div(factor, n.asScalar(yScale))
  return requantise(sum, by, zero === undefined ? n.full([], 0, c.need(0).dtype) : n.asScalar(zero))
}

/** The dtype of sums and products of integers: unsigned of unsigned ones alone. */
const wideDType = (...xs: readonly n.Node[]): DType => (xs.every((x) => x.dtype.startsWith('u')) ? 'u32' : 'i32')

const matMulInteger16: Handler = (c) => {
  const [a, b] = [c.need(0), c.need(1)]
  const to = wideDType(a, b)
  return n.matmul(n.cast(a, to), n.cast(b, to))
}

const mulInteger: Handler = (c) => {
  const zero = (i: number): n.Node | undefined => perColumn(c.opt(i))
  return n.mul(centred(c.need(0), zero(1)), centred(c.need(2), zero(3)))
}

const reduceSumInteger: Handler = (c) => {
  const x = c.need(0)
  const axes = (c.ints('axes') ?? []).map((a) => normaliseAxis(a, x.shape.length))
  return n.sum(n.cast(x, wideDType(x)), axes, c.flag('keepdims', true))
}

/** Data as its 8 bits tell it. */
function rounded(x: n.Node): n.Node {
  const [codes, scale, zero] = dynamicallyQuantised(x)
  return n.mul(n.cast(centred(codes, zero), 'f32'), scale)
}

/** LSTM with weights [directions, features, gates] of 8 bits; what they are multiplied with is quantised as it comes. */
const dynamicQuantizeLSTM: Handler = (c) => {
  const weights = (i: number, scale: number): n.Node => {
    const w = c.need(i)
    const [directions = 1] = w.shape
    const beside = (v: n.Node): n.Node => n.reshape(v, [directions, 1, v.shape.length === 1 ? 1 : (v.shape[1] ?? 1)])
    const whole = centred(w, beside(c.need(scale + 1)))
    return n.swapAxes(n.mul(n.cast(whole, 'f32'), beside(c.need(scale))), 1, 2)
  }
  const inputs = [rounded(c.need(0)), weights(1, 8), weights(2, 10), ...c.inputs.slice(3, 8)]
  return lstm(c.withInputs(inputs), rounded)
}

export const contribIntegerHandlers: HandlerTable = {
  DynamicQuantizeLSTM: dynamicQuantizeLSTM,
  DynamicQuantizeMatMul: dynamicQuantizeMatMul,
  MatMulInteger16: matMulInteger16,
  MatMulIntegerToFloat: matMulIntegerToFloat,
  MulInteger: mulInteger,
  QGemm: qGemm,
  ReduceSumInteger: reduceSumInteger,
}
