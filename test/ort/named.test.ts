/** `extra.sinter` of a session: extents by name with their ranges, and bounds of results whose number depends on data. */
import { expect, test } from 'vitest'
import { memory, setDevice } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { InferenceSession, Tensor } from '../../src/ort.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { encoder, masked, numbers, places, words } from '../onnx/lengthModels.ts'
import { atNight, nightly } from '../support/nightly.ts'

// Sessions run on this device, whose memory is looked at.
setDevice('wasm', { threads: 1 })

const { FLOAT, INT64 } = tensorType

const idsOf = (b: number, n: number): Record<string, Tensor> => {
  const drawn = numbers(b + 13 * n, b * n).map((v) => BigInt(Math.floor((v + 0.5) * words)))
  return {
    ids: new Tensor('int64', BigInt64Array.from(drawn), [b, n]),
    mask: new Tensor('int64', new BigInt64Array(b * n).fill(1n), [b, n]),
  }
}

// By day test/onnx/ranges.test.ts has the same of the imported model.
atNight('an encoder with ranges of its names: two compilations for batches 1 to 8 and lengths 8 to 512', async () => {
  const bytes = encodeModel(encoder())
  const before = memory().programs
  const session = await InferenceSession.create(bytes, {
    extra: { sinter: { lengths: { batch: [1, 8], sequence: [8, places] } } },
  })
  const run = async (b: number, n: number): Promise<Float32Array> =>
    (await session.run(idsOf(b, n))).y?.data as Float32Array
  for (const [b, n] of [
    [8, 512],
    [2, 8],
    [1, 512],
    [1, 8],
  ] as const)
    await run(b, n)
  const settled = memory()
  // Each compilation has three programs, for parts of the range of lengths.
  expect(settled.programs - before).toBe(6)
  for (let i = 0; i < 60; i++) await run(1 + (i % 8), i % 10 === 0 ? places - i / 10 : 8 + ((53 * i) % 200))
  const { programs, arenaBytes } = memory()
  expect({ programs, arenaBytes }).toEqual({ programs: settled.programs, arenaBytes: settled.arenaBytes })
  for (const [b, n] of [
    [1, 512],
    [3, 511],
    [8, 8],
  ] as const) {
    const alone = await InferenceSession.create(bytes)
    const want = (await alone.run(idsOf(b, n))).y?.data as Float32Array
    const got = await run(b, n)
    expect(got.length).toBe(want.length)
    expect(got.reduce((m, v, i) => Math.max(m, Math.abs(v - (want[i] ?? Number.NaN))), 0)).toBeLessThan(1e-5)
    await alone.release()
  }
  await expect(run(9, 8)).rejects.toThrow(/E_SHAPE.*batch is from 1 to 8/)
  await session.release()
})

test('a name that is a sum of others is no extent of its own', async () => {
  const before = memory().programs
  const session = await InferenceSession.create(encodeModel(masked), {
    extra: { sinter: { lengths: { batch: 1, new: [1, 64], past: [0, 128] } } },
  })
  let past: Tensor = new Tensor('float32', new Float32Array(0), [1, 0, 4])
  for (let step = 0; step < (nightly ? 100 : 40); step++) {
    const n = step === 0 ? 6 : 1
    const total = past.dims[1] ?? 0
    const x = new Tensor('float32', Float32Array.from(numbers(step, 4 * n)), [1, n, 4])
    const mask = new Tensor(
      'float32',
      Float32Array.from({ length: total + n }, (_, i) => (i % 3 === 1 ? -1e9 : 0)),
      [1, total + n],
    )
    const { y, present } = await session.run({ x, past, mask })
    if (y === undefined || present === undefined) expect.fail('no results')
    expect(present.dims).toEqual([1, total + n, 4])
    const rows = present.data as Float32Array
    const query = [0, 1, 2, 3].map((d) => Number(x.data[4 * (n - 1) + d]))
    const shown = Array.from({ length: total + n }, (_, i) => i).filter((i) => i % 3 !== 1)
    const shares = shown.map((i) => Math.exp(query.reduce((s, q, d) => s + q * (rows[4 * i + d] ?? 0), 0)))
    const sum = shares.reduce((a, b) => a + b, 0)
    for (let d = 0; d < 4; d++) {
      const want = shown.reduce((s, i, j) => s + ((shares[j] ?? 0) / sum) * (rows[4 * i + d] ?? 0), 0)
      expect(Number(y.data[4 * (n - 1) + d])).toBeCloseTo(want, 5)
    }
    // One template for the prompt, one for a token, each of four programs at most.
    expect(memory().programs - before).toBeLessThanOrEqual(8)
    past = present as Tensor
  }
  await session.release()
  expect(memory().programs).toBe(before)
})

const nonZero: ModelSpec = {
  nodes: [{ op: 'NonZero', name: 'nz', in: ['x'], out: ['where'] }],
  inputs: [{ name: 'x', type: FLOAT, dims: ['rows', 3] }],
  outputs: [{ name: 'where', type: INT64 }],
}

test('bounds of results whose number depends on data', async () => {
  const x = (...values: number[]): Record<string, Tensor> => ({
    x: new Tensor('float32', Float32Array.from(values), [values.length / 3, 3]),
  })
  const session = await InferenceSession.create(encodeModel(nonZero), { extra: { sinter: { bounds: { nz: 2 } } } })
  const { where } = await session.run(x(0, 5, 0, 7, 0, 0))
  expect([where?.dims, Array.from(where?.data as BigInt64Array, Number)]).toEqual([
    [2, 2],
    [0, 1, 1, 0],
  ])
  await expect(session.run(x(1, 5, 0, 7, 0, 0))).rejects.toThrow(/E_OVERFLOW/)
  await session.release()
  const odd = await InferenceSession.create(encodeModel(nonZero), { extra: { sinter: { bounds: { x: 2 } } } })
  await expect(odd.run(x(1, 2, 3))).rejects.toThrow(/E_ONNX_INPUT.*these have: nz, where/s)
})

test.for<[string, unknown, RegExp]>([
  ['an option that is none', { sizes: {} }, /E_ARGUMENT.*no option "sizes"/],
  ['what is no object', 3, /E_ARGUMENT.*extra\.sinter is a number/],
  ['bounds that are none', { bounds: [] }, /E_ARGUMENT.*bounds is an array/],
  ['lengths that are none', { lengths: 4 }, /E_ARGUMENT.*lengths is a number/],
  ['a range backwards', { lengths: { rows: [4, 2] } }, /E_ONNX_INPUT.*range of the extent "rows"/],
  ['a name that no input has', { lengths: { columns: [1, 2] } }, /E_ONNX_INPUT.*inputs name rows/s],
])('refuses %s', async ([, sinter, says]) => {
  await expect(InferenceSession.create(encodeModel(nonZero), { extra: { sinter } })).rejects.toThrow(says)
})
