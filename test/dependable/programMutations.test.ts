/**
 * Mutated programs: each compiles and runs, or is an error with a code of the user's, or what the program's own text throws; none is an
 * internal error, an error without a code out of Sinter's files, or ends the process. SINTER_PROGRAM_MUTATIONS says how many (10 unless
 * set, 300 at night; a fifth as many are compared, six at least), SINTER_FIRST_SEED where they start. Mutant N is that of seed N: `test/random/mutate` has the mutations (numbers, names, values,
 * arguments, options, results). Below, what they found. Sites: `types/dtype.ts` (names), `compose/elementwise.ts` (casts), `compose/views.ts`
 * (padding), `compose/window.ts`, `compose/padding.ts`, `api/calls/slicing.ts`, `api/ops/linalg.ts`, `api/tensor/memory.ts`, `api/transforms/derivatives.ts`,
 * `graph/ops/indexing.ts`, `api/calls/options.ts`, `api/device/session.ts`, `api/optim/check.ts`.
 */
import { expect, it } from 'vitest'
import { pad } from '../../src/compose/views.ts'
import { param, withContext } from '../../src/graph/build.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import * as s from '../../src/index.ts'
import { importOnnx } from '../../src/onnx/index.ts'
import { evaluateConstant } from '../../src/reference/evaluate.ts'
import { encodeModel } from '../onnx/encode.ts'
import { errorOf } from '../onnx/models.ts'
import { seedsOf } from '../support/nightly.ts'
import { faultsOf } from '../support/watch.ts'

const count = seedsOf('SINTER_PROGRAM_MUTATIONS', 10, 300)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)
const compiles = new URL('../random/mutate/compiles.ts', import.meta.url)

it(`${count} of them run, or are errors with codes`, { timeout: 120_000 + 100 * count }, async () => {
  expect(await faultsOf(compiles, first, first + count)).toEqual([])
})

const compares = new URL('../random/mutate/compares.ts', import.meta.url)
const compared = Math.max(6, Math.ceil(count / 5))

it(`${compared} milder ones give what the reference gives, or errors with codes`, {
  timeout: 120_000 + 400 * count,
}, async () => {
  expect(await faultsOf(compares, first, first + compared)).toEqual([])
})

/** What is not of the type, as JavaScript may give it. */
const any = (x: unknown): never => x as never
const bare: unknown = Object.create(null)
const x = s.ones([2, 3])
const image = s.ones([1, 1, 4, 4])
const code = (call: () => unknown): string => errorOf(call).code

it('what is no dtype', () => {
  for (const dtype of [Symbol('f32'), bare, ['f32'], {}, 1, null]) {
    expect(code(() => x.astype(any(dtype)))).toBe('E_DTYPE')
    expect(code(() => x.bitcast(any(dtype)))).toBe('E_DTYPE')
    expect(code(() => s.spec([2], any(dtype)))).toBe('E_DTYPE')
    if (dtype !== null)
      expect(code(() => s.oneHot(s.tensor([0], { dtype: 'i32' }), 2, { dtype: any(dtype) }))).toBe('E_DTYPE')
  }
})

it('updates beyond the tensor along an axis without indices', () => {
  const at = s.zeros([3, 4], 'i32')
  for (const device of ['reference', 'wasm'] as const) {
    s.setDevice(device)
    expect(code(() => s.scatterAlongAxis(s.zeros([1, 4]), at, s.ones([3, 4]), 1))).toBe('E_SHAPE')
    expect(code(() => s.scatterAlongAxis(s.zeros([3, 3]), at, s.ones([3, 4]), 0, 'sum'))).toBe('E_SHAPE')
    expect(s.scatterAlongAxis(s.zeros([5, 1]), at, s.ones([3, 4]), 1, 'sum').tolist()).toEqual([
      [4],
      [4],
      [4],
      [0],
      [0],
    ])
  }
  s.setDevice('reference')
  for (const [shape, axis] of [
    [[1, 4], 1],
    [[3, 3], 0],
  ] as const) {
    const bytes = encodeModel({
      nodes: [{ op: 'ScatterElements', in: ['x', 'i', 'u'], out: ['y'], attrs: { axis: { int: axis } } }],
      inputs: [
        { name: 'x', type: 1, dims: shape },
        { name: 'i', type: 7, dims: [3, 4] },
        { name: 'u', type: 1, dims: [3, 4] },
      ],
      outputs: [{ name: 'y', type: 1, dims: shape }],
    })
    expect(code(() => importOnnx(bytes, { evaluate: evaluateConstant }))).toBe('E_SHAPE')
  }
})

it('padding that is no pair of whole numbers', () => {
  for (const pair of [[Number.POSITIVE_INFINITY, 0], [1], [1, 2, 3], [0.5, 0], [1n, 0n], [bare, 0], [2 ** 60, 0]])
    for (const mode of ['wrap', 'reflect', 'edge', 'constant'] as const)
      expect(code(() => s.ones([3]).pad([any(pair)], mode))).toBe('E_ARGUMENT')
})

it('padding that repeats an axis a million times is as many nodes as one that repeats it ten times', () => {
  const nodes = (width: number, mode: 'wrap' | 'reflect'): number =>
    withContext(() => topologicalOrder([pad(param(0, [3], 'f32'), [[width, width]], mode)]).length)
  for (const mode of ['wrap', 'reflect'] as const) expect(nodes(3_000_000, mode)).toBe(nodes(30, mode))
  expect(code(() => s.jit((t: s.Tensor) => t.pad([[2 ** 52, 2 ** 52]], 'wrap')).compile(s.spec([3])))).toBe(
    'E_OVERFLOW',
  )
})

it.each([2, 3, 5])('padding from an axis of %i, many times', (n) => {
  s.setDevice('reference')
  const own = Array.from({ length: n }, (_, i) => i)
  for (const mode of ['wrap', 'reflect'] as const)
    for (const [before, after] of [
      [0, 100],
      [100, 0],
      [37, 41],
      [8 * n, 1],
    ] as const) {
      const period = mode === 'wrap' ? n : Math.max(1, 2 * n - 2)
      const want = Array.from({ length: before + n + after }, (_, at) => {
        const k = (((at - before) % period) + period) % period
        return own[k < n ? k : period - k]
      })
      expect([
        ...s
          .tensor(own)
          .pad([[before, after]], mode)
          .dataSync(),
      ]).toEqual(want)
    }
})

it('windows, strides and positions that are no whole numbers', () => {
  for (const odd of [1n, 0.5, '2', bare, Symbol('2'), undefined]) {
    expect(code(() => s.maxPool(image, [any(odd), 2]))).toBe('E_ARGUMENT')
    expect(code(() => s.averagePool(image, [2, any(odd)]))).toBe('E_ARGUMENT')
    expect(code(() => s.maxPool(image, [2, 2], { stride: [any(odd), 1] }))).toBe('E_ARGUMENT')
    expect(code(() => s.conv2d(image, image, { dilation: [1, any(odd)] }))).toBe('E_ARGUMENT')
    expect(
      code(() =>
        s.conv2d(image, image, {
          padding: [
            [any(odd), 0],
            [0, 0],
          ],
        }),
      ),
    ).toBe('E_ARGUMENT')
    if (odd !== undefined)
      expect(code(() => s.grad((t: s.Tensor) => t.sum(), { argnums: any(odd) })(x))).toBe('E_ARGUMENT')
    expect(code(() => s.jacrev((t: s.Tensor) => t.sum(), { argnums: [any(odd)] })(x))).toBe('E_ARGUMENT')
  }
})

it('names that no text can show', () => {
  for (const name of [bare, Symbol('wasm'), ['wasm'], 1, null]) {
    expect(code(() => s.setDevice(any(name)))).toMatch(/^E_(DEVICE|ARGUMENT)$/)
    expect(
      code(() =>
        x.pad(
          [
            [1, 1],
            [0, 0],
          ],
          any(name),
        ),
      ),
    ).toBe('E_ARGUMENT')
    if (name !== 1) expect(code(() => s.optim.sgd({ learningRate: any(name) }))).toBe('E_ARGUMENT')
    if (typeof name === 'symbol' || name === bare)
      expect(code(() => s.conv2d(image, image, { padding: any(name) }))).toBe('E_ARGUMENT')
  }
})

it('tidy of no function, inside a traced one too', () => {
  expect(code(() => s.tidy(any(1)))).toBe('E_ARGUMENT')
  expect(code(() => s.jit(() => s.tidy(any(x))).compile())).toBe('E_ARGUMENT')
})

it.each([8, 1000])('ONNX graphs %i deep inside one another', (depth) => {
  const varint = (n: number): number[] => (n < 128 ? [n] : [(n % 128) + 128, ...varint(Math.floor(n / 128))])
  const field = (no: number, ...parts: (Uint8Array | string)[]): Buffer => {
    const body = Buffer.concat(parts.map((p) => (typeof p === 'string' ? Buffer.from(p) : p)))
    return Buffer.concat([Uint8Array.from([...varint(no * 8 + 2), ...varint(body.length)]), body])
  }
  const output = field(12, field(1, 'y'))
  let graph = Buffer.concat([field(1, field(1, 'x'), field(2, 'y'), field(4, 'Neg')), output])
  for (let i = 0; i < depth; i++) {
    const branch = field(5, field(1, 'then_branch'), field(6, graph), Uint8Array.of(0xa0, 1, 5))
    graph = Buffer.concat([field(1, field(1, 'c'), field(2, 'y'), field(4, 'If'), branch), output])
  }
  const model = Buffer.concat([Uint8Array.of(8, 10), field(8, Uint8Array.of(0x10, 21)), field(7, graph)])
  const error = errorOf(() => importOnnx(new Uint8Array(model), { evaluate: evaluateConstant }))
  expect(error.code).toBe('E_ONNX_MALFORMED')
  expect(error.summary).toContain(depth > 8 ? 'messages nest more than 64 deep' : '"c"')
})
