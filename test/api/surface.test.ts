/** Every operation of the public surface once, against values worked out by hand. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

const t = s.tensor
const x = [-1.5, -0.5, 0.25, 2]
const unit = [-0.75, -0.25, 0.25, 0.75]
const positive = [0.5, 1, 1.5, 4]

type Unary = (a: s.TensorLike) => s.Tensor
/** Each function of one operand against JavaScript's own, where it has one. */
const unaries: readonly [string, Unary, (v: number) => number, readonly number[]][] = [
  ['neg', s.neg, (v) => -v, x],
  ['abs', s.abs, Math.abs, x],
  ['sign', s.sign, Math.sign, x],
  ['sqrt', s.sqrt, Math.sqrt, positive],
  ['rsqrt', s.rsqrt, (v) => 1 / Math.sqrt(v), positive],
  ['exp', s.exp, Math.exp, x],
  ['expm1', s.expm1, Math.expm1, x],
  ['exp2', s.exp2, (v) => 2 ** v, x],
  ['log', s.log, Math.log, positive],
  ['log1p', s.log1p, Math.log1p, unit],
  ['log2', s.log2, Math.log2, positive],
  ['log10', s.log10, Math.log10, positive],
  ['sin', s.sin, Math.sin, x],
  ['cos', s.cos, Math.cos, x],
  ['tan', s.tan, Math.tan, unit],
  ['asin', s.asin, Math.asin, unit],
  ['acos', s.acos, Math.acos, unit],
  ['atan', s.atan, Math.atan, x],
  ['sinh', s.sinh, Math.sinh, x],
  ['cosh', s.cosh, Math.cosh, x],
  ['tanh', s.tanh, Math.tanh, x],
  ['asinh', s.asinh, Math.asinh, x],
  ['acosh', s.acosh, Math.acosh, [1, 1.5, 4]],
  ['atanh', s.atanh, Math.atanh, unit],
  ['sigmoid', s.sigmoid, (v) => 1 / (1 + Math.exp(-v)), x],
  ['floor', s.floor, Math.floor, x],
  ['ceil', s.ceil, Math.ceil, x],
  ['trunc', s.trunc, Math.trunc, x],
  ['round', s.round, (v) => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v)), x],
  ['square', s.square, (v) => v * v, x],
  ['reciprocal', s.reciprocal, (v) => 1 / v, x],
  ['relu', s.relu, (v) => Math.max(v, 0), x],
  ['silu', s.silu, (v) => v / (1 + Math.exp(-v)), x],
  ['softsign', s.softsign, (v) => v / (1 + Math.abs(v)), x],
]

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe('functions of one operand', () => {
    it.each(unaries)('%s', (_, f, reference, domain) => {
      const have = f(t([...domain])).tolist()
      expect(have).toEqual(domain.map((v) => expect.closeTo(reference(v), 5)))
      expect(f(domain[1] ?? 0).item()).toEqual(expect.closeTo(reference(domain[1] ?? 0), 5))
    })
    it('erf', () => expect(s.erf(t([0, 1])).tolist()).toEqual([0, expect.closeTo(0.8427008, 6)]))
    it('isnan, isinf, isfinite, logicalNot, bitwiseNot', () => {
      const odd = t([Number.NaN, Number.POSITIVE_INFINITY, 0])
      expect(s.isnan(odd).tolist()).toEqual([true, false, false])
      expect(s.isinf(odd).tolist()).toEqual([false, true, false])
      expect(s.isfinite(odd).tolist()).toEqual([false, false, true])
      expect(s.logicalNot(odd).tolist()).toEqual([false, false, true])
      expect(s.bitwiseNot(t([0, 5], { dtype: 'i32' })).tolist()).toEqual([-1, -6])
    })
  })

  type Binary = (a: s.TensorLike, b: s.TensorLike) => s.Tensor
  const binaries: readonly [string, Binary, (a: number, b: number) => number | boolean][] = [
    ['add', s.add, (a, b) => a + b],
    ['sub', s.sub, (a, b) => a - b],
    ['mul', s.mul, (a, b) => a * b],
    ['div', s.div, (a, b) => a / b],
    ['floorDivide', s.floorDivide, (a, b) => Math.floor(a / b)],
    ['mod', s.mod, (a, b) => ((a % b) + b) % b],
    ['rem', s.rem, (a, b) => a % b],
    ['pow', s.pow, (a, b) => a ** b],
    ['maximum', s.maximum, Math.max],
    ['minimum', s.minimum, Math.min],
    ['atan2', s.atan2, Math.atan2],
    ['logaddexp', s.logaddexp, (a, b) => Math.log(Math.exp(a) + Math.exp(b))],
    ['equal', s.equal, (a, b) => a === b],
    ['notEqual', s.notEqual, (a, b) => a !== b],
    ['less', s.less, (a, b) => a < b],
    ['lessEqual', s.lessEqual, (a, b) => a <= b],
    ['greater', s.greater, (a, b) => a > b],
    ['greaterEqual', s.greaterEqual, (a, b) => a >= b],
    ['logicalAnd', s.logicalAnd, (a, b) => a !== 0 && b !== 0],
    ['logicalOr', s.logicalOr, (a, b) => a !== 0 || b !== 0],
    ['logicalXor', s.logicalXor, (a, b) => (a !== 0) !== (b !== 0)],
  ]

  describe('functions of two operands', () => {
    const [a, b] = [
      [7, 2, 0, 3.5],
      [2, 2, 1, 0.5],
    ]
    it.each(binaries)('%s', (_, f, reference) => {
      const expected = a.map((v, i) => {
        const r = reference(v, b[i] ?? 0)
        return typeof r === 'boolean' ? r : expect.closeTo(r, 4)
      })
      expect(f(t(a), t(b)).tolist()).toEqual(expected)
      expect(f(7, t(b)).slice(0).item()).toEqual(expected[0])
    })
    it('bits', () => {
      const i = t([12, -12], { dtype: 'i32' })
      expect(s.bitwiseAnd(i, 10).tolist()).toEqual([12 & 10, -12 & 10])
      expect(s.bitwiseOr(i, 3).tolist()).toEqual([12 | 3, -12 | 3])
      expect(s.bitwiseXor(i, 3).tolist()).toEqual([12 ^ 3, -12 ^ 3])
      expect(s.leftShift(i, 2).tolist()).toEqual([48, -48])
      expect(s.rightShift(i, 2).tolist()).toEqual([3, -3])
    })
    it('where, astype, bitcast', () => {
      expect(s.where(t([true, false]), 1, t([5, 6])).tolist()).toEqual([1, 6])
      expect(s.astype(t([1.9]), 'i32').tolist()).toEqual([1])
      expect(s.bitcast(t([1]), 'i32').tolist()).toEqual([0x3f800000])
    })
  })

  describe('reductions', () => {
    const m = t([
      [1, 2],
      [3, 4],
    ])
    it('over axes and all', () => {
      expect(s.sum(m, 0).tolist()).toEqual([4, 6])
      expect(s.prod(m).item()).toBe(24)
      expect(s.max(m, 1).tolist()).toEqual([2, 4])
      expect(s.min(m, 1, true).tolist()).toEqual([[1], [3]])
      expect(s.mean(m).item()).toBe(2.5)
      expect(s.variance(m).item()).toBe(1.25)
      expect(s.std(m, 0).tolist()).toEqual([1, 1])
      expect(s.any(m, 0).tolist()).toEqual([true, true])
      expect(s.all(m.less(4)).item()).toBe(false)
      expect(s.logsumexp(t([0, 0])).item()).toBeCloseTo(Math.LN2, 6)
      expect(s.norm(t([3, 4])).item()).toBe(5)
      expect(s.argmax(m, 1).tolist()).toEqual([1, 1])
      expect(s.argmin(m).item()).toBe(0)
      expect(s.cumsum(m, 1).tolist()).toEqual([
        [1, 3],
        [3, 7],
      ])
      expect(s.cumprod(m, 0).tolist()).toEqual([
        [1, 2],
        [3, 8],
      ])
      expect(m.var().item()).toBe(1.25)
      expect(m.logsumexp(1).shape).toEqual([2])
    })
  })

  describe('shapes and indexing', () => {
    const m = t([
      [1, 2, 3],
      [4, 5, 6],
    ])
    it('views', () => {
      expect(s.reshape(m, [3, -1]).shape).toEqual([3, 2])
      expect(s.transpose(m).tolist()).toEqual([
        [1, 4],
        [2, 5],
        [3, 6],
      ])
      expect(s.swapaxes(m, 0, 1).shape).toEqual([3, 2])
      expect(s.moveaxis(s.zeros([1, 2, 3]), 0, -1).shape).toEqual([2, 3, 1])
      expect(s.broadcastTo(1, [2]).tolist()).toEqual([1, 1])
      expect(s.squeeze(s.expandDims(m, 0)).shape).toEqual([2, 3])
      expect(s.pad(t([1]), [[1, 1]], 'edge').tolist()).toEqual([1, 1, 1])
      expect(s.flip(t([1, 2])).tolist()).toEqual([2, 1])
      expect(s.tile(t([1]), [2]).tolist()).toEqual([1, 1])
      expect(s.repeat(t([1, 2]), 2).tolist()).toEqual([1, 1, 2, 2])
      expect(s.roll(t([1, 2, 3]), 1, 0).tolist()).toEqual([3, 1, 2])
      expect(s.split(m, [1, 2], 1).map((p) => p.shape)).toEqual([
        [2, 1],
        [2, 2],
      ])
      expect(s.concat([m, m.slice([0, 1])]).shape).toEqual([3, 3])
      expect(s.stack([t(1), t(2)]).tolist()).toEqual([1, 2])
      expect(m.flatten().shape).toEqual([6])
      expect(s.slidingWindow(t([1, 2, 3]), 0, 2).tolist()).toEqual([
        [1, 2],
        [2, 3],
      ])
    })
    it('gathers and scatters', () => {
      const i = (v: number[], shape?: number[]): s.Tensor =>
        t(v, { dtype: 'i32', ...(shape === undefined ? {} : { shape }) })
      expect(s.take(m, i([2, -1]), 1).tolist()).toEqual([
        [3, 3],
        [6, 6],
      ])
      expect(s.takeAlongAxis(m, i([0, 2], [2, 1]), 1).tolist()).toEqual([[1], [6]])
      expect(s.gatherND(m, i([1, 2], [1, 2])).tolist()).toEqual([6])
      expect(s.scatterND(t([1, 2, 3]), i([0], [1, 1]), t([9]), 'sum').tolist()).toEqual([10, 2, 3])
      expect(s.scatterAlongAxis(t([1, 2, 3]), i([2]), t([9]), 0).tolist()).toEqual([1, 2, 9])
      expect(s.oneHot(i([1]), 3).tolist()).toEqual([[0, 1, 0]])
      expect(s.tril(m).tolist()).toEqual([
        [1, 0, 0],
        [4, 5, 0],
      ])
      expect(s.triu(m).tolist()).toEqual([
        [1, 2, 3],
        [0, 5, 6],
      ])
      expect(s.diagonal(m).tolist()).toEqual([1, 5])
    })
    it('products and windows', () => {
      const v = t([1, 2])
      expect(s.dot(v, v).item()).toBe(5)
      expect(s.outer(v, v).tolist()).toEqual([
        [1, 2],
        [2, 4],
      ])
      expect(
        s
          .tensordot(m, m, [
            [0, 1],
            [0, 1],
          ])
          .item(),
      ).toBe(91)
      expect(s.linear(t([[1, 1, 1]]), m.T, t([1, 0])).tolist()).toEqual([[7, 15]])
      const image = s.arange(16).reshape([1, 1, 4, 4]).astype('f32')
      expect(s.maxPool(image, [2, 2]).tolist()).toEqual([
        [
          [
            [5, 7],
            [13, 15],
          ],
        ],
      ])
      expect(s.averagePool(image, [2, 2]).sum().item()).toBe(30)
      expect(s.globalAveragePool(image).item()).toBe(7.5)
      expect(s.globalMaxPool(image).item()).toBe(15)
      expect(s.conv(image, s.ones([1, 1, 4, 4])).item()).toBe(120)
      expect(s.convTranspose(s.ones([1, 1, 1]), t([[[1, 2]]]), { bias: t([1]) }).tolist()).toEqual([[[2, 3]]])
    })
  })

  describe('nn', () => {
    const m = t([
      [1, 2, 3],
      [4, 5, 6],
    ])
    it('is a namespace of the same functions', () => {
      expect(s.nn.softmax).toBe(s.softmax)
    })
    it('activations keep shape and dtype', () => {
      for (const f of [
        s.gelu,
        s.elu,
        s.selu,
        s.leakyRelu,
        s.softplus,
        s.hardSigmoid,
        s.hardSwish,
        s.mish,
        s.logSoftmax,
      ]) {
        const y = f(m.astype('f16'))
        expect([y.shape, y.dtype]).toEqual([[2, 3], 'f16'])
      }
    })
    it('normalisation over batches asks for channels', () => {
      const v = t([1, 2])
      expect(() => s.batchNorm(v, v, v)).toThrow('[E_SHAPE] batchNorm: data of shape [2]')
      expect(() => s.batchNormTraining(v)).toThrow('[E_SHAPE] batchNormTraining: data of shape [2]')
    })
    it('integers become f32', () => {
      const n = t([1, -3, 2, 6], { dtype: 'i32' })
      expect(s.softsign(n).tolist()).toEqual([0.5, -0.75, 2 / 3, 6 / 7].map((v) => expect.closeTo(v, 6)))
      const pairs = n.reshape([2, 2])
      expect(s.rotary(pairs).dtype).toBe('f32')
      expect(s.rotary(pairs).tolist()).toEqual(s.rotary(pairs.astype('f32')).tolist())
      const { output, mean, variance } = s.batchNormTraining(pairs)
      expect([output.dtype, mean.dtype, variance.dtype]).toEqual(['f32', 'f32', 'f32'])
      expect(mean.tolist()).toEqual([1.5, 1.5])
    })
    it('layers', () => {
      const labels = t([2, 0], { dtype: 'i32' })
      expect(s.crossEntropy(m, labels).tolist()).toEqual([expect.closeTo(0.407606, 5), expect.closeTo(2.407606, 5)])
      expect(s.embedding(m, t([1], { dtype: 'i32' })).tolist()).toEqual([[4, 5, 6]])
      expect(
        s
          .rmsNorm(m, { scale: t([0, 0, 0]) })
          .sum()
          .item(),
      ).toBe(0)
      expect(
        s
          .batchNorm(m.reshape([2, 3, 1]), t([1, 2, 3]), t([1, 1, 1]), { epsilon: 0 })
          .slice(0)
          .tolist(),
      ).toEqual([[0], [0], [0]])
      expect(s.groupNorm(m.reshape([1, 6, 1]), 3).shape).toEqual([1, 6, 1])
      expect(s.dropout(m, s.random.key(0), 0).tolist()).toEqual(m.tolist())
      expect(
        s
          .rotary(s.ones([2, 4]))
          .slice(0)
          .tolist(),
      ).toEqual([1, 1, 1, 1])
      expect(s.random.integers(s.random.key(0), [4], 5, 6).tolist()).toEqual([5, 5, 5, 5])
      expect(s.random.bits(s.random.key(0), [2]).dtype).toBe('u32')
    })
  })
})
