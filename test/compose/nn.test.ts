/** Activations, normalisations, attention, rotary embedding and random tensors against their definitions. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { lit, numbers, ramp, run, typeOf } from './run.ts'

const inf = Number.POSITIVE_INFINITY
const xs = [-3, -1, -0.5, 0, 0.5, 1, 3]
const close = (node: Node, expected: readonly number[], digits = 5): void => {
  const have = numbers(node)
  expect(have.length).toBe(expected.length)
  have.forEach((v, i) => {
    expect(v).toBeCloseTo(expected[i] ?? Number.NaN, digits)
  })
}
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))

describe('activations against their definitions', () => {
  it.each([
    ['relu', c.relu, (x: number) => Math.max(x, 0)],
    ['silu', c.silu, (x: number) => x * sigmoid(x)],
    ['softplus', c.softplus, (x: number) => Math.log1p(Math.exp(x))],
    ['elu', c.elu, (x: number) => (x > 0 ? x : Math.expm1(x))],
    ['selu', c.selu, (x: number) => 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * Math.expm1(x))],
    ['leakyRelu', c.leakyRelu, (x: number) => (x >= 0 ? x : 0.01 * x)],
    ['hardSigmoid', c.hardSigmoid, (x: number) => Math.min(1, Math.max(0, x / 6 + 0.5))],
    ['hardSwish', c.hardSwish, (x: number) => x * Math.min(1, Math.max(0, x / 6 + 0.5))],
    ['softsign', c.softsign, (x: number) => x / (1 + Math.abs(x))],
    ['mish', c.mish, (x: number) => x * Math.tanh(Math.log1p(Math.exp(x)))],
  ])('%s', (_, f, reference) => close(f(lit(xs)), xs.map(reference)))
  it('gelu in both forms', () => {
    // Values of the normal distribution function times x.
    close(c.gelu(lit([-1, 0, 1, 2])), [-0.15865525, 0, 0.84134475, 1.9544997])
    close(c.gelu(lit([-1, 0, 1, 2]), 'tanh'), [-0.158808, 0, 0.841192, 1.954597])
  })
  it('softplus and elu do not overflow', () => {
    expect(numbers(c.softplus(lit([1000, -1000])))).toEqual([1000, 0])
    expect(numbers(c.elu(lit([1000])))).toEqual([1000])
  })
  it('keeps dtypes', () => {
    expect([c.relu, c.gelu, c.silu, c.softplus, c.softmax].map((f) => typeOf(f(ramp([2], 'f16'))))).toEqual(
      new Array(5).fill('f16[2]'),
    )
    expect(typeOf(c.relu(ramp([2], 'i32')))).toBe('i32[2]')
    expect(typeOf(c.softmax(ramp([2], 'i32')))).toBe('f32[2]')
  })
})

describe('normalisations', () => {
  it('softmax and logSoftmax', () => {
    close(c.softmax(lit([1000, 1000, 0, Math.log(3)], [2, 2])), [0.5, 0.5, 0.25, 0.75])
    close(c.softmax(lit([0, 0, Math.log(3), 0], [2, 2]), 0), [0.25, 0.5, 0.75, 0.5])
    close(c.logSoftmax(lit([1000, 1000])), [Math.log(0.5), Math.log(0.5)])
    expect(numbers(c.softmax(lit([-inf, -inf])))).toEqual([Number.NaN, Number.NaN])
  })
  it('layerNorm and rmsNorm', () => {
    close(
      c.layerNorm(lit([1, 3, 10, 10], [2, 2]), { epsilon: 0.0 + 1e-12, scale: lit([1, 2]), bias: lit([0, 5]) }),
      [-1, 7, 0, 5],
    )
    close(
      c.rmsNorm(lit([3, 4]), { epsilon: 1e-12, scale: lit([1, 10]) }),
      [3 / Math.sqrt(12.5), 40 / Math.sqrt(12.5)],
      4,
    )
  })
  it('batchNorm by running and by own statistics', () => {
    const x = lit([1, 3, 10, 20], [2, 2, 1])
    close(
      c.batchNorm(x, lit([1, 3]), lit([4, 1]), { epsilon: 0, scale: lit([2, 1]), bias: lit([0, 1]) }),
      [0, 1, 9, 18],
    )
    const t = c.batchNormTraining(x, { epsilon: 0 })
    close(t.output, [-1, -1, 1, 1])
    close(t.mean, [5.5, 11.5])
    close(t.variance, [20.25, 72.25])
  })
  it('groupNorm', () => {
    close(c.groupNorm(lit([1, 3, 10, 20], [1, 4, 1]), 2, { epsilon: 0, scale: lit([1, 1, 1, 2]) }), [-1, 1, -1, 2])
    expect(() => c.groupNorm(ramp([1, 4, 1]), 3)).toThrow(/E_SHAPE/)
  })
  it('crossEntropy', () => {
    const rows = [1, 2, 3, 0, 0, 0]
    const lse = Math.log(Math.E + Math.E ** 2 + Math.E ** 3)
    close(c.crossEntropy(lit(rows, [2, 3]), lit([2, 0], [2], 'i32')), [lse - 3, Math.log(3)])
    close(c.crossEntropy(lit([0, 0, 1, 3], [2, 2]), lit([1, 0], [2], 'i32'), 0), [
      Math.log(1 + Math.E) - 1,
      Math.log(1 + Math.E ** 3) - 0,
    ])
  })
})

/** Attention by its definition on one head. */
function directAttention(
  q: number[][],
  k: number[][],
  v: number[][],
  see: (i: number, j: number) => boolean,
): number[] {
  return q.flatMap((row, i) => {
    const scores = k.map((key, j) =>
      see(i, j) ? row.reduce((s, x, d) => s + x * (key[d] ?? 0), 0) / Math.sqrt(row.length) : -inf,
    )
    const top = Math.max(...scores)
    const e = scores.map((s) => Math.exp(s - top))
    const total = e.reduce((s, x) => s + x, 0)
    return (v[0] ?? []).map((_, d) => v.reduce((s, value, j) => s + ((e[j] ?? 0) / total) * (value[d] ?? 0), 0))
  })
}

describe('attention', () => {
  const q = [
    [1, 0],
    [0.5, -1],
    [2, 1],
  ]
  const k = [
    [0, 1],
    [1, 1],
    [-1, 0.5],
  ]
  const v = [
    [1, 2, 3],
    [4, 5, 6],
    [-1, 0, 1],
  ]
  const [Q, K, V] = [lit(q.flat(), [3, 2]), lit(k.flat(), [3, 2]), lit(v.flat(), [3, 3])]
  it('plain, causal, windowed, masked', () => {
    close(
      c.attention(Q, K, V),
      directAttention(q, k, v, () => true),
    )
    close(
      c.attention(Q, K, V, { causal: true }),
      directAttention(q, k, v, (i, j) => j <= i),
    )
    close(
      c.attention(Q, K, V, { window: 2 }),
      directAttention(q, k, v, (i, j) => j <= i && j > i - 2),
    )
    const mask = lit([1, 0, 1, 1, 1, 1, 0, 0, 1], [3, 3], 'bool')
    close(
      c.attention(Q, K, V, { mask }),
      directAttention(q, k, v, (i, j) => run(mask)[i * 3 + j] === true),
    )
  })
  it('shares key heads among groups of query heads', () => {
    const heads = (x: Node, n: number): Node => c.broadcastTo(c.expandDims(x, [0, 1]), [1, n, ...x.shape])
    const y = c.attention(heads(Q, 4), c.mul(heads(K, 2), lit([1, -1], [1, 2, 1, 1])), heads(V, 2), { causal: true })
    expect(y.shape).toEqual([1, 4, 3, 3])
    const first = directAttention(q, k, v, (i, j) => j <= i)
    const second = directAttention(
      q,
      k.map((r) => r.map((x) => -x)),
      v,
      (i, j) => j <= i,
    )
    close(y, [...first, ...first, ...second, ...second])
  })
  it('soft cap bounds the scores', () => {
    const y = c.attention(lit([100], [1, 1]), lit([1, -1], [2, 1]), lit([1, 0], [2, 1]), { softcap: 1 })
    close(y, [sigmoid(2 * Math.tanh(100))])
  })
})

describe('rotary', () => {
  it('rotates halves or neighbours by the position', () => {
    const [s, co] = [Math.sin(1), Math.cos(1)]
    close(c.rotary(lit([1, 2, 1, 2], [2, 2])), [1, 2, co - 2 * s, 2 * co + s])
    const x = lit([1, 2, 3, 4], [1, 4])
    const positions = lit([1], [1], 'i32')
    const [s2, c2] = [Math.sin(0.01), Math.cos(0.01)]
    close(c.rotary(x, { positions }), [co - 3 * s, 2 * c2 - 4 * s2, 3 * co + s, 4 * c2 + 2 * s2])
    close(c.rotary(x, { positions, interleaved: true }), [co - 2 * s, 2 * co + s, 3 * c2 - 4 * s2, 4 * c2 + 3 * s2])
  })
})

describe('random', () => {
  const k = c.key(42n)
  it('is a function of key and index', () => {
    expect(run(k)).toEqual([0, 42])
    expect(run(c.key(-1))).toEqual([0xffffffff, 0xffffffff])
    expect(numbers(c.randomUniform(k, [4]))).toEqual(numbers(c.randomUniform(c.key(42), [2, 2])))
    const [a, b] = c.splitKey(k).map(numbers)
    expect(a).not.toEqual(b)
    expect(numbers(c.foldIn(k, 1))).not.toEqual(numbers(c.foldIn(k, 2)))
  })
  it('has the right moments', () => {
    const moments = (node: Node): number[] => [c.mean(node), c.variance(node)].flatMap(numbers)
    const n = [20000]
    const [um = 0, uv = 0] = moments(c.randomUniform(k, n))
    expect(um).toBeCloseTo(0.5, 2)
    expect(uv).toBeCloseTo(1 / 12, 2)
    const [nm = 1, nv = 0] = moments(c.randomNormal(k, n))
    expect(Math.abs(nm)).toBeLessThan(0.03)
    expect(Math.abs(nv - 1)).toBeLessThan(0.04)
    expect(numbers(c.mean(c.bernoulli(k, 0.3, n)))[0]).toBeCloseTo(0.3, 1)
  })
  it('stays below 1 in half precision', () => {
    for (const dtype of ['f16', 'bf16'] as const)
      expect(Math.max(...numbers(c.randomUniform(k, [20000], dtype)))).toBeLessThan(1)
  })
  it('whole numbers in a range', () => {
    const values = numbers(c.randomInteger(k, [1000], -2, 3))
    expect([...new Set(values)].sort((a, b) => a - b)).toEqual([-2, -1, 0, 1, 2])
    expect(() => c.randomInteger(k, [1], 3, 3)).toThrow(/E_ARGUMENT/)
  })
  it('dropout zeroes a share and keeps the mean', () => {
    const y = numbers(c.dropout(c.ones([20000]), k, 0.25))
    expect(y.filter((v) => v === 0).length / y.length).toBeCloseTo(0.25, 1)
    expect(new Set(y).size).toBe(2)
    expect(y.reduce((s, v) => s + v, 0) / y.length).toBeCloseTo(1, 1)
    expect(() => c.dropout(c.ones([1]), k, 1)).toThrow(/E_ARGUMENT/)
  })
})

describe('effects', () => {
  it('calls back in order, and runs a user kernel', () => {
    const seen: string[] = []
    const note = (label: string) => ({
      label,
      call: (data: ArrayLike<unknown>) => seen.push(`${label} ${Array.from(data).join()}`),
    })
    const first = c.inspect(ramp([2]), note('a'))
    const second = c.inspect(c.add(first, 1), note('b'), first)
    const double = c.opaque(
      {
        name: 'double',
        shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
        run: ([x], out) => {
          for (let i = 0; i < out.length; i++) out[i] = Number(x?.[i]) * 2
        },
      },
      second,
    )
    expect(numbers(double)).toEqual([2, 4])
    expect(seen).toEqual(['a 0,1', 'b 1,2'])
  })
})
