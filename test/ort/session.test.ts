/** `sinter/ort`: sessions of ONNX Runtime's API, on models made here. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as Common from 'onnxruntime-common'
import { describe, expect, it, test } from 'vitest'
import { UserError } from '../../src/diagnostics/errors.ts'
import { memory } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { env, InferenceSession, Tensor } from '../../src/ort.ts'
import { numberToF16 } from '../../src/scalar/half.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { relu } from '../onnx/models.ts'

const { FLOAT, INT64, BOOL, FLOAT16, UINT8, BFLOAT16, STRING } = tensorType

const sessionOf = (m: ModelSpec, options?: InferenceSession.SessionOptions): Promise<InferenceSession> =>
  InferenceSession.create(encodeModel(m), options)

const floats = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor =>
  new Tensor('float32', Float32Array.from(values), dims)

const listOf = (t: Common.Tensor | undefined): unknown[] => Array.from((t?.data ?? []) as ArrayLike<unknown>)

async function errorOf(body: () => Promise<unknown>): Promise<UserError> {
  try {
    await body()
  } catch (error) {
    if (error instanceof UserError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

/** x [batch, 2] times w [2, 2], and the sum of x over its last axis. */
const linear: ModelSpec = {
  nodes: [
    { op: 'MatMul', in: ['x', 'w'], out: ['y'] },
    { op: 'ReduceSum', in: ['x', 'axes'], out: ['total'], attrs: { keepdims: { int: 0 } } },
  ],
  inputs: [{ name: 'x', type: FLOAT, dims: ['batch', 2] }],
  outputs: [
    { name: 'y', type: FLOAT, dims: ['batch', 2] },
    { name: 'total', type: FLOAT, dims: ['batch'] },
  ],
  initializers: [
    { name: 'w', type: FLOAT, dims: [2, 2], floats: [1, 2, 3, 4] },
    { name: 'axes', type: INT64, dims: [1], int64s: [-1] },
  ],
  opset: 17,
}

test('the types are those of onnxruntime-common', () => {
  const factory: typeof Common.InferenceSession = InferenceSession
  expect(factory.create).toBeTypeOf('function')
  expect(new Tensor('int32', [1, 2])).toMatchObject({ type: 'int32', dims: [2] })
  expect(env.versions.common).toBeTypeOf('string')
})

describe('metadata', () => {
  it('has names and types in order, names of open extents among them', async () => {
    const session = await sessionOf(linear)
    expect(session.inputNames).toEqual(['x'])
    expect(session.outputNames).toEqual(['y', 'total'])
    expect(session.inputMetadata).toEqual([{ name: 'x', isTensor: true, type: 'float32', shape: ['batch', 2] }])
    expect(session.outputMetadata).toEqual([
      { name: 'y', isTensor: true, type: 'float32', shape: ['batch', 2] },
      { name: 'total', isTensor: true, type: 'float32', shape: ['batch'] },
    ])
  })

  it('leaves out initialisers that are listed as inputs, as old models do', async () => {
    const session = await sessionOf({
      ...linear,
      inputs: [{ name: 'w', type: FLOAT, dims: [2, 2] }, ...(linear.inputs ?? [])],
    })
    expect(session.inputNames).toEqual(['x'])
  })

  it('names types that have no dtype', async () => {
    const session = await sessionOf({
      nodes: [{ op: 'Identity', in: ['x'], out: ['y'] }],
      inputs: [
        { name: 'x', type: FLOAT, dims: ['n'] },
        { name: 's', type: STRING, dims: ['n'] },
      ],
      outputs: [{ name: 'y', type: FLOAT, dims: ['n'] }],
    })
    expect(session.inputMetadata.map((v) => v.isTensor && v.type)).toEqual(['float32', 'string'])
  })
})

describe('run', () => {
  it('takes any extent where one is open', async () => {
    const session = await sessionOf(linear)
    for (const n of [1, 3, 2, 3, 0]) {
      const x = Array.from({ length: 2 * n }, (_, i) => i)
      const { y, total } = await session.run({ x: floats(x, [n, 2]) })
      const rows = Array.from({ length: n }, (_, i) => [2 * i, 2 * i + 1] as const)
      expect(y?.dims).toEqual([n, 2])
      expect(listOf(y)).toEqual(rows.flatMap(([a, b]) => [a + 3 * b, 2 * a + 4 * b]))
      expect(total?.dims).toEqual([n])
      expect(listOf(total)).toEqual(rows.map(([a, b]) => a + b))
    }
  })

  it('computes the outputs that are asked for', async () => {
    const session = await sessionOf(linear)
    const feeds = { x: floats([1, 2], [1, 2]) }
    expect(Object.keys(await session.run(feeds, ['total']))).toEqual(['total'])
    expect(Object.keys(await session.run(feeds, { y: null }))).toEqual(['y'])
    expect(Object.keys(await session.run(feeds, { tag: 'options' }))).toEqual(['y', 'total'])
    expect(Object.keys(await session.run(feeds, ['y'], { tag: 'options' }))).toEqual(['y'])
    const kept = floats([0, 0], [1, 2])
    const { y } = await session.run(feeds, { y: kept })
    expect(y).toBe(kept)
    expect(listOf(kept)).toEqual([7, 10])
    const error = await errorOf(() => session.run(feeds, { y: floats([0], [1]) }))
    expect(error.code).toBe('E_SHAPE')
  })

  it('keeps element types', async () => {
    const session = await sessionOf({
      nodes: [
        { op: 'Add', in: ['h', 'h'], out: ['h2'] },
        { op: 'Not', in: ['b'], out: ['b2'] },
        { op: 'Add', in: ['l', 'l'], out: ['l2'] },
        { op: 'Identity', in: ['u'], out: ['u2'] },
      ],
      inputs: [
        { name: 'h', type: FLOAT16, dims: [2] },
        { name: 'b', type: BOOL, dims: [3] },
        { name: 'l', type: INT64, dims: [1] },
        { name: 'u', type: UINT8, dims: [2] },
      ],
      outputs: [
        { name: 'h2', type: FLOAT16, dims: [2] },
        { name: 'b2', type: BOOL, dims: [3] },
        { name: 'l2', type: INT64, dims: [1] },
        { name: 'u2', type: UINT8, dims: [2] },
      ],
    })
    const out = await session.run({
      h: new Tensor('float16', Uint16Array.of(numberToF16(1.5), numberToF16(-2)), [2]),
      b: new Tensor('bool', [true, false, true]),
      l: new Tensor('int64', BigInt64Array.of(-(1n << 40n))),
      u: new Tensor('uint8', [7, 255]),
    })
    expect(Object.values(out).map((t) => t.type)).toEqual(['float16', 'bool', 'int64', 'uint8'])
    const h = out.h2?.data as unknown as ArrayBufferView
    expect([...new Uint16Array(h.buffer, h.byteOffset, 2)]).toEqual([numberToF16(3), numberToF16(-4)])
    expect(listOf(out.b2)).toEqual([0, 1, 0])
    expect(listOf(out.l2)).toEqual([-(1n << 41n)])
    expect(listOf(out.u2)).toEqual([7, 255])
  })

  it('compiles anew for another value that fixes shapes, and not for one it has seen', async () => {
    const session = await sessionOf({
      nodes: [{ op: 'Reshape', in: ['x', 'shape'], out: ['y'] }],
      inputs: [
        { name: 'x', type: FLOAT, dims: [6] },
        { name: 'shape', type: INT64, dims: [2] },
      ],
      outputs: [{ name: 'y', type: FLOAT, dims: ['a', 'b'] }],
    })
    const x = floats([1, 2, 3, 4, 5, 6])
    const dims = async (a: bigint, b: bigint): Promise<readonly number[] | undefined> => {
      const { y } = await session.run({ x, shape: new Tensor('int64', BigInt64Array.of(a, b)) })
      return y?.dims
    }
    expect(await dims(2n, 3n)).toEqual([2, 3])
    expect(await dims(6n, 1n)).toEqual([6, 1])
    expect(await dims(2n, 3n)).toEqual([2, 3])
    expect(await dims(-1n, 2n)).toEqual([3, 2])
  })

  it('takes any rank where none is declared', async () => {
    const session = await sessionOf({
      nodes: [{ op: 'ReduceMax', in: ['x', 'axes'], out: ['y'], attrs: { keepdims: { int: 0 } } }],
      inputs: [{ name: 'x', type: FLOAT }],
      outputs: [{ name: 'y', type: FLOAT }],
      initializers: [{ name: 'axes', type: INT64, dims: [1], int64s: [-1] }],
      opset: 18,
    })
    expect(session.inputMetadata).toEqual([{ name: 'x', isTensor: true, type: 'float32', shape: [] }])
    expect((await session.run({ x: floats([1, 3, 2]) })).y?.dims).toEqual([])
    expect(listOf((await session.run({ x: floats([1, 3, 2, 0], [2, 2]) })).y)).toEqual([3, 2])
  })

  it('takes tensors of another copy of the API', async () => {
    const session = await sessionOf(relu)
    const data = Float32Array.of(-1, 0, 2)
    const other = { type: 'float32', dims: [3], data, location: 'cpu', getData: () => Promise.resolve(data) }
    const { y } = await session.run({ x: other as unknown as Tensor })
    expect(listOf(y)).toEqual([0, 0, 2])
  })

  it('runs many at once', async () => {
    const session = await sessionOf(linear)
    const all = await Promise.all(
      Array.from({ length: 12 }, (_, i) => session.run({ x: floats([i, 1], [1, 2]) }, ['total'])),
    )
    expect(all.map(({ total }) => listOf(total))).toEqual(Array.from({ length: 12 }, (_, i) => [i + 1]))
  })
})

describe('memory', () => {
  const wide: ModelSpec = {
    nodes: [{ op: 'MatMul', in: ['x', 'w'], out: ['y'] }],
    inputs: [{ name: 'x', type: FLOAT, dims: ['batch', 512] }],
    outputs: [{ name: 'y', type: FLOAT, dims: ['batch', 512] }],
    initializers: [
      { name: 'w', type: FLOAT, dims: [512, 512], raw: new Uint8Array(new Float32Array(2 ** 18).fill(0.5).buffer) },
    ],
  }

  /** Bytes in use after the first run of a session, after eight lengths, and after its release. */
  async function uses(): Promise<[number, number, number]> {
    const session = await sessionOf(wide)
    const run = async (n: number): Promise<number> => {
      const { y } = await session.run({ x: floats(new Array<number>(512 * n).fill(1), [n, 512]) })
      expect(listOf(y)[0]).toBe(256)
      return memory().used
    }
    const first = await run(1)
    let last = first
    for (let n = 2; n <= 8; n++) last = await run(n)
    await session.release()
    const after = memory().used
    expect((await errorOf(() => session.run({ x: floats([], [0, 512]) }))).code).toBe('E_DISPOSED')
    await session.release()
    return [first, last, after]
  }

  it('holds weights once, however many lengths run, and gives all back', async () => {
    const before = memory().used
    const [first, last, after] = await uses()
    expect(first - before).toBeGreaterThanOrEqual(2 ** 20)
    expect(last - first).toBeLessThan(2 ** 18)
    // What all programs share stays.
    expect(after - before).toBeLessThan(2 ** 15)
    const again = await uses()
    expect(again[2]).toBe(after)
  })
})

test('many lengths have few programs', async () => {
  const session = await sessionOf(linear)
  const before = memory().programs
  for (let n = 1; n <= 40; n++) {
    const { total } = await session.run({ x: floats(new Array<number>(2 * n).fill(1), [n, 2]) })
    expect(listOf(total)).toEqual(new Array(n).fill(2))
  }
  expect(memory().programs - before).toBeLessThanOrEqual(5)
  await session.release()
  expect(memory().programs).toBe(before)
})

describe('sources', () => {
  const bytes = encodeModel(relu)
  const doubled = async (session: InferenceSession): Promise<unknown[]> =>
    listOf((await session.run({ x: floats([-1, 0, 2]) })).y)

  it('takes a path, bytes, a buffer and a part of one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sinter-ort-'))
    const path = join(folder, 'relu.onnx')
    writeFileSync(path, bytes)
    const padded = new Uint8Array(bytes.length + 20)
    padded.set(bytes, 10)
    const sessions = [
      await InferenceSession.create(path),
      await InferenceSession.create(bytes.slice().buffer),
      await InferenceSession.create(padded.buffer, 10, bytes.length),
      await InferenceSession.create(padded.buffer, 10, bytes.length, { executionProviders: ['cpu'] }),
      await InferenceSession.create(`data:application/octet-stream;base64,${Buffer.from(bytes).toString('base64')}`),
    ]
    for (const session of sessions) expect(await doubled(session)).toEqual([0, 0, 2])
  })

  const external: ModelSpec = {
    nodes: [{ op: 'Add', in: ['x', 'w'], out: ['y'] }],
    inputs: [{ name: 'x', type: FLOAT, dims: [2] }],
    outputs: [{ name: 'y', type: FLOAT, dims: [2] }],
    initializers: [{ name: 'w', type: FLOAT, dims: [2], external: { location: 'w.bin', offset: '4', length: '8' } }],
  }
  const weights = new Uint8Array(Float32Array.of(9, 1, 2).buffer)

  it('reads weights beside the model, or as they are given', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sinter-ort-'))
    const path = join(folder, 'model.onnx')
    writeFileSync(path, encodeModel(external))
    writeFileSync(join(folder, 'w.bin'), weights)
    const feeds = { x: floats([10, 20]) }
    const read = async (session: InferenceSession): Promise<unknown[]> => listOf((await session.run(feeds)).y)
    expect(await read(await InferenceSession.create(path))).toEqual([11, 22])
    for (const externalData of [[{ path: './w.bin', data: weights }], [{ path: 'w.bin', data: join(folder, 'w.bin') }]])
      expect(await read(await sessionOf(external, { externalData }))).toEqual([11, 22])
    expect((await errorOf(() => sessionOf(external))).message).toContain('"w.bin"')
  })

  it.for<[string, () => Promise<unknown>, string, RegExp]>([
    ['nothing', () => InferenceSession.create(undefined as never), 'E_ARGUMENT', /path/],
    ['a missing file', () => InferenceSession.create('nowhere.onnx'), 'E_FILE', /nowhere\.onnx/],
    ['what is no model', () => InferenceSession.create(Uint8Array.of(1, 2, 3)), 'E_ONNX_MALFORMED', /./],
    ['a part beyond the buffer', () => InferenceSession.create(bytes.buffer, 5, 1e6), 'E_ARGUMENT', /buffer/],
    ['options that are none', () => InferenceSession.create(bytes, 3.5 as never), 'E_ARGUMENT', /./],
    ['profiling', () => InferenceSession.create(bytes, { enableProfiling: true }), 'E_UNSUPPORTED', /profiling/],
  ])('refuses %s', async ([, body, code, says]) => {
    const error = await errorOf(body)
    expect(error.code).toBe(code)
    expect(error.message).toMatch(says)
  })

  it('says which operators are not here before anything runs, however open the shapes', async () => {
    const error = await errorOf(() =>
      sessionOf({ ...linear, nodes: [...linear.nodes, { op: 'NoSuchOperator', in: ['y'], out: ['z'] }] }),
    )
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(error.message).toContain('NoSuchOperator')
  })
})

describe('providers', () => {
  it('takes the first that opens', async () => {
    const session = await sessionOf(relu, { executionProviders: ['tensorrt', { name: 'wasm' }], intraOpNumThreads: 1 })
    expect(listOf((await session.run({ x: floats([-1, 1, 2]) })).y)).toEqual([0, 1, 2])
  })

  it('says why none does', async () => {
    const error = await errorOf(() => sessionOf(relu, { executionProviders: ['coreml', 'xnnpack'] }))
    expect(error.code).toBe('E_DEVICE')
    expect(error.message).toMatch(/coreml.*xnnpack/s)
  })
})

describe('feeds', () => {
  it.for<[string, Record<string, unknown>, string, RegExp]>([
    ['a missing one', {}, 'E_ONNX_INPUT', /input 'x' is missing in 'feeds'/],
    ['an unknown one', { x: floats([1, 2], [1, 2]), z: floats([1]) }, 'E_ONNX_INPUT', /"z"/],
    ['another dtype', { x: new Tensor('int32', [1, 2], [1, 2]) }, 'E_DTYPE', /int32|i32/],
    ['another extent', { x: floats([1, 2, 3], [1, 3]) }, 'E_SHAPE', /\[batch, 2\]/],
    ['another rank', { x: floats([1, 2]) }, 'E_SHAPE', /\[batch, 2\]/],
    ['no tensor', { x: [1, 2] }, 'E_ARGUMENT', /no tensor/],
    ['strings', { x: new Tensor('string', ['a', 'b'], [1, 2]) }, 'E_UNSUPPORTED', /string/],
  ])('refuses %s', async ([, feeds, code, says]) => {
    const session = await sessionOf(linear)
    const error = await errorOf(() => session.run(feeds as InferenceSession.FeedsType))
    expect(error.code).toBe(code)
    expect(error.message).toMatch(says)
  })

  it('holds free dimensions to what the options say', async () => {
    const session = await sessionOf(linear, { freeDimensionOverrides: { batch: 2 } })
    const { total } = await session.run({ x: floats([1, 2, 3, 4], [2, 2]) })
    expect(listOf(total)).toEqual([3, 7])
    expect((await errorOf(() => session.run({ x: floats([1, 2], [1, 2]) }))).code).toBe('E_SHAPE')
  })

  it('refuses outputs that the model does not have, and types that the API does not', async () => {
    const session = await sessionOf(linear)
    const feeds = { x: floats([1, 2], [1, 2]) }
    expect((await errorOf(() => session.run(feeds, ['nothing']))).code).toBe('E_ONNX_INPUT')
    const brain = await sessionOf({
      nodes: [{ op: 'Cast', in: ['x'], out: ['y'], attrs: { to: { int: BFLOAT16 } } }],
      inputs: [{ name: 'x', type: FLOAT, dims: [1] }],
      outputs: [{ name: 'y', type: BFLOAT16, dims: [1] }],
    })
    expect((await errorOf(() => brain.run({ x: floats([1]) }))).code).toBe('E_UNSUPPORTED')
  })
})
