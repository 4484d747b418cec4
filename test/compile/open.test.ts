/** Programs with open extents: one program for many shapes gives what the static program of each gives; in strict mode in every bit. */

import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec, type TensorSpec } from '../../src/api/tensor/tree.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { Fitter } from '../../src/compile/open/fit.ts'
import {
  arange,
  concat,
  conv,
  dropout,
  exp,
  gelu,
  grad,
  maxPool,
  relu,
  rsqrt,
  softmax,
  type Tensor,
  take,
  tanh,
  vmap,
  where,
} from '../../src/index.ts'
import { formulaAt, realAt } from '../../src/runtime/extents.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { openProgram, runOn, runStatic } from './openSupport.ts'
import { at as of } from './support.ts'

const dimensions = [
  { name: 'batch', least: 3, most: 11 },
  { name: 'length', least: 5, most: 67 },
]
const samples = [
  [7, 61],
  [11, 67],
  [3, 5],
  [11, 5],
  [3, 67],
  [5, 30],
]
/** Extents that no sample has: powers of two, and some that are equal to extents of the programs. */
const others = [
  [8, 64],
  [3, 17],
  [4, 24],
]

type Traced = (...x: Tensor[]) => Tensor | Tensor[]
type Case = (b: number, n: number) => readonly [Traced, TensorSpec[]]

const normalised = (x: Tensor): Tensor => {
  const d = x.sub(x.mean(-1, { keepdims: true }))
  return d.mul(rsqrt(d.square().mean(-1, { keepdims: true }).add(1e-5)))
}

const cases: Readonly<Record<string, Case>> = {
  'elementwise with a row that all share': (b, n) => [
    (x, w = x) => exp(x.mul(2).add(w)).sub(x),
    [spec([b, n, 24]), spec([24])],
  ],
  'the mean over an open extent': (b, n) => [(x) => x.mean(1), [spec([b, n, 24])]],
  'the variance over an open extent': (b, n) => [(x) => x.var(1), [spec([b, n, 24])]],
  'softmax over an open extent': (b, n) => [(x) => softmax(x, -1), [spec([b, 12, n])]],
  'softmax over rows of two extents joined': (b, n) => [(x) => softmax(x.reshape([b * n, 12]), -1), [spec([b, n, 12])]],
  'a product of two extents joined': (b, n) => [
    (x, w = x) =>
      x
        .reshape([b * n, 24])
        .matmul(w)
        .reshape([b, n, 36]),
    [spec([b, n, 24]), spec([24, 36])],
  ],
  'past and new along an inner axis': (b, n) => [
    (x, y = x) => concat([x, y], 2).mul(2),
    [spec([b, 6, n, 24]), spec([b, 6, 5, 24])],
  ],
  'the position of the greatest of all': (b, n) => [(x) => x.reshape([-1]).argmax(), [spec([b, n, 24])]],
  'a causal mask': (b, n) => [
    (x) => where(arange(n).reshape([n, 1]).greaterEqual(arange(n)), x, -1e9),
    [spec([b, n, n])],
  ],
  'causal attention': (b, n) => [
    (q, k = q, v = q) => {
      const scores = q.matmul(k.swapaxes(-1, -2)).div(4)
      return softmax(where(arange(n).reshape([n, 1]).greaterEqual(arange(n)), scores, -1e9), -1).matmul(v)
    },
    [spec([b, 4, n, 16]), spec([b, 4, n, 16]), spec([b, 4, n, 16])],
  ],
  dropout: (b, n) => [(x, key = x) => dropout(x, key, 0.25), [spec([b, n, 24]), spec([2], 'u32')]],
  'running sums': (b, n) => [(x) => x.cumsum(1), [spec([b, n, 24])]],
  'layer normalisation between products': (b, n) => [
    (x, w = x, v = x) => x.add(gelu(normalised(x).matmul(w)).matmul(v)),
    [spec([b, n, 96]), spec([96, 192]), spec([192, 96])],
  ],
  'gradients, whose mean has both extents': (b, n) => [
    (x, w = x) =>
      grad((x: Tensor, w: Tensor) => tanh(x.matmul(w)).square().mean(), { argnums: [0, 1] })(x, w) as Tensor[],
    [spec([b, n, 24]), spec([24, 36])],
  ],
  'a function batched over an open extent': (b, n) => [
    (x) => vmap((row: Tensor) => softmax(row, 0).sum(-1))(x),
    [spec([b, n, 24])],
  ],
  'embeddings of tokens and positions': (b, n) => [
    (ids, table = ids) => take(table, ids, 0).add(take(table, arange(n), 0)),
    [spec([b, n], 'i32'), spec([600, 24])],
  ],
  'a transpose': (b, n) => [(x) => x.transpose([0, 2, 1]).mul(3), [spec([b, n, 24])]],
  'a sum that many programs share': (b, n) => [(x) => x.sum(), [spec([b, n, 2048])]],
  'sums of columns below rows': (b, n) => [(x) => softmax(x, -1).reshape([-1, 1024]).mean(0), [spec([b, n, 1024])]],
  'a product with a sum of its columns': (b, n) => [
    (x, w = x) => {
      const z = x.matmul(w)
      return [z, z.sum(0), z.max(-1)]
    },
    [spec([b * n, 64]), spec([64, 640])],
  ],
  'a product over an open depth': (b, n) => [
    (x, y = x) =>
      x
        .reshape([-1, 64])
        .swapaxes(0, 1)
        .matmul(y.reshape([-1, 48])),
    [spec([b, 16 * n, 64]), spec([b, 16 * n, 48])],
  ],
  'a convolution': (b, n) => [
    (x, w = x) => relu(conv(x, w, { padding: 1 })),
    [spec([b, 3, n, 24]), spec([8, 3, 3, 3])],
  ],
  'the greatest of windows': (b, n) => [(x) => maxPool(x, [2, 2]), [spec([b, 3, 2 * n, 24])]],
}

const backend = createWasmBackend({ threads: 1 })

for (const [name, make] of Object.entries(cases))
  for (const mode of ['fast', 'strict'] as const)
    test(`${name}, ${mode}`, () => {
      const trace = ([b = 1, n = 1]: readonly number[]) => {
        const [f, specs] = make(b, n)
        return traceFunction(f, specs).graph
      }
      const { program } = openProgram({ dimensions, samples, trace }, mode, wasmTarget)
      const executable = backend.prepare(program)
      for (const extents of [of(samples, 0), of(samples, 2), ...others]) {
        const graph = trace(extents)
        const got = runOn(backend, executable, graph, extents)
        runStatic(backend, graph, mode, wasmTarget).forEach((want, o) => {
          let [most, worst] = [1, 0]
          want.forEach((v, i) => {
            most = Math.max(most, Math.abs(Number(v)))
            worst = Math.max(worst, Math.abs(Number(v) - Number(got[o]?.[i])))
          })
          if (mode === 'strict') expect(got[o], `at ${extents.join(' by ')}`).toEqual(want)
          else expect(worst / most, `at ${extents.join(' by ')}`).toBeLessThan(1e-5)
        })
      }
      executable.dispose()
    })

test('formulas are found exactly, and none is found where there is none', () => {
  const fitter = new Fitter(samples)
  const whole = (f: (b: number, n: number) => number) => fitter.whole(samples.map(([b = 0, n = 0]) => f(b, n)))
  for (const f of [
    (b: number, n: number) => b * n,
    (_: number, n: number) => 768 * n * n - 5,
    (b: number, n: number) => 3 * b + n + 1,
    (_: number, n: number) => Math.ceil(n / 2),
  ]) {
    const found = whole(f)
    if (found === undefined) expect.fail(String(f))
    for (const [b = 0, n = 0] of others) expect(formulaAt(found, [b, n])).toBe(f(b, n))
  }
  expect(whole((_, n) => (n * 7919) % 13)).toBeUndefined()
  const mean = fitter.real(
    samples.map(([b = 0, n = 0]) => Math.fround(1 / (36 * b * n))),
    'f32',
  )
  if (mean === undefined) expect.fail('no reciprocal')
  expect(Math.fround(realAt(mean, [8, 64]))).toBe(Math.fround(1 / (36 * 8 * 64)))
  expect(
    fitter.real(
      samples.map(([, n = 0]) => Math.sin(n)),
      'f32',
    ),
  ).toBeUndefined()
})

test('what has no formula, or another form at another length, is refused with its operation and the dimensions', () => {
  const compiled = (f: (x: Tensor, n: number) => Tensor) => () =>
    openProgram(
      { dimensions, samples, trace: ([, n = 1]) => traceFunction((x: Tensor) => f(x, n), [spec([n, 24])]).graph },
      'fast',
      wasmTarget,
    )
  expect(compiled((x, n) => x.mul(Math.sin(n)))).toThrow(/E_UNSUPPORTED.*batch, length cannot be open here: a number/)
  expect(compiled((x, n) => (n > 40 ? exp(x) : x.mul(2)))).toThrow(/E_UNSUPPORTED.*batch, length cannot be open here/)
})
