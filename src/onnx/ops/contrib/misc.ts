/** Operators of onnxruntime of no family: rearrangements, ranges, distances, hashes, n-grams, complex products, inverses. */
import { UserError } from '../../../diagnostics/errors.ts'
import { isFloat } from '../../../types/dtype.ts'
import { normaliseAxis, sizeOf } from '../../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { gridSample } from '../sample.ts'
import { pad, trilu } from '../shape.ts'
import { transform } from '../signal.ts'
import { convTransposeOf } from '../window.ts'

/** start + i delta up to, not including, limit. */
const range: Handler = (c) => {
  const { dtype } = c.need(0)
  const [start = 0] = c.numbersOf(0, 'start')
  const [limit = 0] = c.numbersOf(1, 'limit')
  const [delta = 1] = c.opt(2) === undefined ? [1] : c.numbersOf(2, 'delta')
  const count = Math.max(0, Math.ceil((limit - start) / delta))
  if (!Number.isFinite(count)) throw new UserError('E_ARGUMENT', `a range from ${start} to ${limit} by ${delta}`)
  const i = n.iota([count], 0, dtype)
  return n.add(n.mul(i, isFloat(dtype) ? delta : Math.trunc(delta)), start)
}

const expandDims: Handler = (c) => n.expandDims(c.need(0), c.intOf(1, 'axis'))

/** Slices of `size` elements of an axis, `step` apart: their elements are the last axis. */
const unfoldTensor: Handler = (c) => {
  const x = c.need(0)
  const axis = normaliseAxis(c.int('dim', -1), x.shape.length)
  const slices = n.slidingWindow(x, axis, c.int('size', 1), c.int('step', 1))
  const order = slices.shape.map((_, i) => i).filter((i) => i !== axis + 1)
  return n.permute(slices, [...order, axis + 1])
}

/** Rows of a table; the gradient's padding and scaling do not matter here. */
const torchEmbedding: Handler = (c) => n.take(c.need(0), c.need(1), 0)

const isAllFinite: Handler = (c) => {
  const [infinite, nan] = [c.flag('isinf_only', false), c.flag('isnan_only', false)]
  const wrong = (x: n.Node): n.Node => {
    const bad = nan
      ? n.unary('isnan', x)
      : infinite
        ? n.unary('isinf', x)
        : n.logicalOr(n.unary('isnan', x), n.unary('isinf', x))
    return n.reduceMax(n.reshape(bad, [sizeOf(x.shape)]), [0])
  }
  return n.logicalNot(
    c
      .all()
      .map(wrong)
      .reduce((a, b) => n.logicalOr(a, b)),
  )
}

type Metric = (a: n.Node, b: n.Node) => n.Node

const total = (x: n.Node): n.Node => n.sum(x, [2])
const apart = (a: n.Node, b: n.Node): n.Node => n.unary('abs', n.sub(a, b))
/** a / b, 0 where both are. */
const ratio = (a: n.Node, b: n.Node): n.Node => {
  const none = n.compare('eq', b, 0)
  return n.where(none, n.scalarAs(a, 0), n.div(a, n.where(none, n.scalarAs(b, 1), b)))
}

/** Distances of SciPy's `cdist` over the last axis of operands that broadcast. */
const metrics: Readonly<Record<string, Metric>> = {
  braycurtis: (a, b) => n.div(total(apart(a, b)), total(n.unary('abs', n.add(a, b)))),
  canberra: (a, b) => total(ratio(apart(a, b), n.add(n.unary('abs', a), n.unary('abs', b)))),
  chebyshev: (a, b) => n.reduceMax(apart(a, b), [2]),
  cityblock: (a, b) => total(apart(a, b)),
  cosine: (a, b) => {
    const norms = n.sqrt(n.mul(total(n.square(a)), total(n.square(b))))
    return n.sub(1, n.div(total(n.mul(a, b)), norms))
  },
  euclidean: (a, b) => n.sqrt(total(n.square(n.sub(a, b)))),
  hamming: (a, b) => n.mean(n.cast(n.compare('ne', a, b), a.dtype), [2]),
  sqeuclidean: (a, b) => total(n.square(n.sub(a, b))),
}

/** The distance of every row of A from every row of B, from differences: close rows lose no digits. */
const cdist: Handler = (c) => {
  const [a, b] = [c.need(0), c.need(1)]
  const name = c.string('metric', 'sqeuclidean')
  const metric = Object.hasOwn(metrics, name) ? metrics[name] : undefined
  if (metric === undefined) return c.fail(`the metric "${name}"`)
  const shape = [a.shape[0] ?? 0, b.shape[0] ?? 0, a.shape[1] ?? 0]
  return metric(n.broadcastTo(n.expandDims(a, 1), shape), n.broadcastTo(n.expandDims(b, 0), shape))
}

/** Scores become -Infinity where a token would end an n-gram that is there already. */
const ngramRepeatBlock: Handler = (c) => {
  const ids = c.need(0)
  const scores = c.need(1)
  const size = c.int('ngram_size', 1)
  const [batch = 1, length = 0] = ids.shape
  const windows = length - size + 1
  if (windows <= 0) return scores
  const vocabulary = scores.shape[1] ?? 0
  const column = (from: number): n.Node => n.sliceAxis(ids, 1, from, from + windows)
  const equal = Array.from({ length: size - 1 }, (_, i) => {
    const last = length - size + 1 + i
    return n.compare('eq', column(i), n.sliceAxis(ids, 1, last, last + 1))
  })
  const all = equal.reduce<n.Node>((a, b) => n.logicalAnd(a, b), n.full([batch, windows], true, 'bool'))
  const shape = [batch, windows, vocabulary]
  const ends = n.compare('eq', n.expandDims(column(size - 1), 2), n.iota(shape, 2, ids.dtype === 'i64' ? 'i64' : 'i32'))
  const banned = n.reduceMax(n.logicalAnd(n.expandDims(all, 2), ends), [1])
  return n.where(banned, n.scalarAs(scores, Number.NEGATIVE_INFINITY), scores)
}

const u32 = (v: number): n.Node => n.full([], v, 'u32')
const rotate = (x: n.Node, by: number): n.Node =>
  n.binary('or', n.binary('shl', x, u32(by)), n.binary('shr', x, u32(32 - by)))
const xor = (a: n.Node, b: n.Node): n.Node => n.binary('xor', a, b)

/** The words of 32 bits that an element stands in, lowest first. */
function wordsOf(c: OpContext, x: n.Node): n.Node[] {
  if (x.dtype === 'u32') return [x]
  if (x.dtype === 'i32' || x.dtype === 'f32') return [n.bitcast(x, 'u32')]
  if (x.dtype !== 'i64' && x.dtype !== 'u64' && x.dtype !== 'f64') return c.fail(`hashes of ${x.dtype}`)
  const wide = n.bitcast(x, 'u64')
  return [n.cast(wide, 'u32'), n.cast(n.binary('shr', wide, n.full([], 32n, 'u64')), 'u32')]
}

/** MurmurHash3_x86_32 (Appleby, public domain) of each element's bytes. */
const murmurHash3: Handler = (c) => {
  const x = c.need(0)
  const words = wordsOf(c, x)
  let h: n.Node = n.full(x.shape, c.int('seed', 0) >>> 0, 'u32')
  for (const word of words) {
    const k = n.mul(rotate(n.mul(word, u32(0xcc9e2d51)), 15), u32(0x1b873593))
    h = n.add(n.mul(rotate(xor(h, k), 13), u32(5)), u32(0xe6546b64))
  }
  h = xor(h, u32(4 * words.length))
  const mixed = (v: n.Node, by: number): n.Node => xor(v, n.binary('shr', v, u32(by)))
  h = n.mul(mixed(h, 16), u32(0x85ebca6b))
  h = n.mul(mixed(h, 13), u32(0xc2b2ae35))
  h = mixed(h, 16)
  return c.flag('positive', true) ? h : n.bitcast(h, 'i32')
}

/** Products of complex numbers, whose parts are the last axis; of A with the conjugate of B where told. */
const complexProduct =
  (conjugate: boolean): Handler =>
  (c) => {
    const [a, b] = [c.need(0), c.need(1)]
    const part = (x: n.Node, i: number): n.Node => n.indexAxis(x, x.shape.length - 1, i)
    const [re, im, reB, own] = [part(a, 0), part(a, 1), part(b, 0), part(b, 1)]
    const imB = conjugate ? n.neg(own) : own
    const real = n.sub(n.mul(re, reB), n.mul(im, imB))
    return n.stack([real, n.add(n.mul(re, imB), n.mul(im, reB))], real.shape.length)
  }

/** The one-sided transform of the last axis of real data, its parts a new last axis; of one axis only. */
const rfft: Handler = (c) => {
  const x = c.need(0)
  if (c.int('signal_ndim', 1) !== 1) c.fail(`transforms of ${c.int('signal_ndim', 1)} axes`)
  if (c.flag('normalized', false) || !c.flag('onesided', true)) c.fail('normalised and two-sided transforms')
  const length = x.shape.at(-1) ?? 1
  const parts = n.expandDims(x, -1)
  return transform(c, parts, x.shape.length - 1, { length, inverse: false, onesided: true })
}

const irfft: Handler = (c) => {
  const x = c.need(0)
  if (c.int('signal_ndim', 1) !== 1) c.fail(`transforms of ${c.int('signal_ndim', 1)} axes`)
  if (c.flag('normalized', false) || !c.flag('onesided', true)) c.fail('normalised and two-sided transforms')
  const axis = x.shape.length - 2
  const length = 2 * ((x.shape[axis] ?? 1) - 1)
  return n.squeeze(transform(c, x, axis, { length, inverse: true, onesided: true }), -1)
}

/** Extent up to which matrices are inverted step by step. */
const largestInverse = 64

/** Gauss and Jordan's elimination with partial pivoting, all matrices of the batch together, a column a step. */
const inverse: Handler = (c) => {
  const given = c.need(0)
  const size = given.shape.at(-1) ?? 0
  c.requireShape(given.shape.length >= 2 && given.shape.at(-2) === size, given.shape, 'the matrix')
  if (size > largestInverse) c.fail(`matrices of ${size} rows (at most ${largestInverse})`)
  const count = sizeOf(given.shape.slice(0, -2))
  const work = given.dtype === 'f64' ? 'f64' : 'f32'
  const x = n.cast(n.reshape(given, [count, size, size]), work)
  const wide = [count, size, 2 * size]
  const unit = n.cast(n.compare('eq', n.iota([count, size, size], 1), n.iota([count, size, size], 2)), work)
  let m = n.concat([x, unit], 2)
  const row = n.iota(wide, 1)
  for (let i = 0; i < size; i++) {
    const column = n.sliceAxis(m, 2, i, i + 1)
    const below = n.compare('ge', n.iota(column.shape, 1), i)
    const magnitude = n.where(below, n.unary('abs', column), n.scalarAs(column, -1))
    const pivot = n.cast(n.reshape(n.argReduce(magnitude, 'argmax', 1), [count, 1, 1]), 'i32')
    const index = n.broadcastTo(pivot, [count, 1, 2 * size])
    const chosen = n.gather(m, [index], [count, 1, 2 * size], [{ axis: 0 }, { input: 0 }, { axis: 2 }])
    const here = n.sliceAxis(m, 1, i, i + 1)
    const swapped = n.where(n.compare('eq', row, i), chosen, n.where(n.compare('eq', row, pivot), here, m))
    const scaledRow = n.div(chosen, n.sliceAxis(chosen, 2, i, i + 1))
    const cleared = n.sub(swapped, n.mul(n.sliceAxis(swapped, 2, i, i + 1), scaledRow))
    m = n.where(n.compare('eq', row, i), scaledRow, cleared)
  }
  return n.cast(n.reshape(n.sliceAxis(m, 2, size, 2 * size), given.shape), given.dtype)
}

/** The gate of n-gram memory: keys against queries by their root mean squares, times a value that hyper-connections share. */
const engramGate: Handler = (c) => {
  const [key, query, value] = [c.need(0), c.need(1), c.need(2)]
  const f32 = (x: n.Node): n.Node => n.cast(x, 'f32')
  const last = [key.shape.length - 1]
  const epsilon = c.float('epsilon', 1e-5)
  const normed = (x: n.Node, scale: n.Node): n.Node =>
    n.mul(n.mul(x, n.unary('rsqrt', n.add(n.mean(n.square(x), last, true), epsilon))), f32(scale))
  const width = key.shape.at(-1) ?? 1
  const products = n.mul(normed(f32(key), c.need(3)), normed(f32(query), c.need(4)))
  const dot = n.div(n.sum(products, last, true), Math.sqrt(width))
  const gate = n.unary('sigmoid', n.mul(n.unary('sign', dot), n.sqrt(n.max(n.unary('abs', dot), 1e-6))))
  const gated = n.mul(gate, f32(n.expandDims(value, 2)))
  const scale = c.opt(5)
  return [n.cast(gated, key.dtype), scale === undefined ? undefined : n.cast(normed(gated, scale), key.dtype)]
}

export const contribMiscHandlers: HandlerTable = {
  CDist: cdist,
  ComplexMul: complexProduct(false),
  ComplexMulConj: complexProduct(true),
  ConvTransposeWithDynamicPads: (c) =>
    convTransposeOf(c, c.opt(3), c.opt(2) === undefined ? undefined : c.intsOf(2, 'pads')),
  EngramGate: engramGate,
  ExpandDims: expandDims,
  GatherND: (c) => n.gatherND(c.need(0), c.need(1)),
  GridSample: gridSample,
  Inverse: inverse,
  Irfft: irfft,
  IsAllFinite: isAllFinite,
  MurmurHash3: murmurHash3,
  NGramRepeatBlock: ngramRepeatBlock,
  Pad: pad,
  Range: range,
  Rfft: rfft,
  SampleOp: (c) => c.need(0),
  TorchEmbedding: torchEmbedding,
  Trilu: trilu,
  UnfoldTensor: unfoldTensor,
}
