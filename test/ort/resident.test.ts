/** `preferredOutputLocation`: results that stay on the device, and feeds that stand there already. */
import type * as Common from 'onnxruntime-common'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { deviceOr } from '../../src/api/device/session.ts'
import { memory } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { InferenceSession, Tensor } from '../../src/ort.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'

const { FLOAT, DOUBLE, INT64 } = tensorType
afterEach(() => vi.restoreAllMocks())

/** A cache that grows by what is fed, the sum of it, and its length in doubles. */
const decoder: ModelSpec = {
  nodes: [
    { op: 'Concat', in: ['past', 'x'], out: ['present'], attrs: { axis: { int: 0 } } },
    { op: 'ReduceSum', in: ['present'], out: ['total'], attrs: { keepdims: { int: 0 } } },
    { op: 'Cast', in: ['total'], out: ['double'], attrs: { to: { int: DOUBLE } } },
  ],
  inputs: [
    { name: 'past', type: FLOAT, dims: ['p', 4] },
    { name: 'x', type: FLOAT, dims: ['n', 4] },
  ],
  outputs: [
    { name: 'present', type: FLOAT, dims: ['p + n', 4] },
    { name: 'total', type: FLOAT, dims: [] },
    { name: 'double', type: DOUBLE, dims: [] },
  ],
}

const sessionOf = (m: ModelSpec, preferredOutputLocation: InferenceSession.SessionOptions['preferredOutputLocation']) =>
  InferenceSession.create(encodeModel(m), preferredOutputLocation === undefined ? {} : { preferredOutputLocation })
const rows = (n: number, value: number): Tensor => new Tensor('float32', new Float32Array(4 * n).fill(value), [n, 4])
const present = (t: Common.Tensor | undefined): Common.Tensor => {
  if (t === undefined) throw new Error('no such output')
  return t
}

describe('a decoder with its cache on the device', () => {
  it('feeds what stayed there without a copy, and gives memory back when it is told to', async () => {
    const session = await sessionOf(decoder, { present: 'gpu-buffer', total: 'cpu' })
    const step = await session.run({ past: rows(1, 1), x: rows(1, 2) })
    const upload = vi.spyOn(deviceOr('wasm'), 'upload')
    const read = vi.spyOn(deviceOr('wasm'), 'read')
    const cache = present(step.present)
    expect(cache.location).toBe('gpu-buffer')
    expect(cache.dims).toEqual([2, 4])
    expect(() => cache.data).toThrow('not on CPU')
    const next = await session.run({ past: cache, x: rows(1, 3) }, ['present', 'total'])
    // Only x went up, and only the total came back.
    expect(upload.mock.calls.map(([data]) => data.length)).toEqual([4])
    expect(read.mock.calls.map(([, , n]) => n)).toEqual([1])
    expect(present(next.total).data[0]).toBe(4 * (1 + 2 + 3))
    const grown = present(next.present)
    expect([...((await grown.getData()) as Float32Array)]).toEqual([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3])
    const before = memory().used
    cache.dispose()
    expect(memory().used).toBeLessThan(before)
    await session.release()
  })

  it('does not hold memory over many steps', async () => {
    const session = await sessionOf(decoder, 'gpu-buffer')
    const once = async (): Promise<void> => {
      const first = await session.run({ past: rows(1, 1), x: rows(1, 2) })
      const second = await session.run({ past: present(first.present), x: rows(1, 2) })
      for (const t of [...Object.values(first), ...Object.values(second)]) t.dispose()
    }
    await once()
    const before = memory().used
    for (let i = 0; i < 20; i++) await once()
    expect(memory().used).toBe(before)
  })
})

describe('where results stand', () => {
  it('all that can, where all are asked to stay; those of types the API has none for come to the host', async () => {
    const session = await sessionOf(decoder, 'gpu-buffer')
    const r = await session.run({ past: rows(1, 1), x: rows(1, 2) })
    expect([r.present?.location, r.total?.location, r.double?.location]).toEqual(['gpu-buffer', 'gpu-buffer', 'cpu'])
    const other = await sessionOf(decoder, { double: 'gpu-buffer' })
    await expect(other.run({ past: rows(1, 1), x: rows(1, 2) })).rejects.toMatchObject({ code: 'E_UNSUPPORTED' })
  })

  it('on the host where a tensor is kept for them', async () => {
    const session = await sessionOf(decoder, 'gpu-buffer')
    const total = new Tensor('float32', new Float32Array(1), [])
    const r = await session.run({ past: rows(1, 1), x: rows(1, 2) }, { total })
    expect(r.total).toBe(total)
    expect(total.data[0]).toBe(12)
    const kept = present((await session.run({ past: rows(1, 1), x: rows(1, 2) })).total)
    await expect(session.run({ past: rows(1, 1), x: rows(1, 2) }, { total: kept })).rejects.toMatchObject({
      code: 'E_UNSUPPORTED',
    })
  })

  it('an unknown output, another location, no location', async () => {
    await expect(sessionOf(decoder, { nothing: 'cpu' })).rejects.toMatchObject({ code: 'E_ONNX_INPUT' })
    await expect(sessionOf(decoder, 'texture')).rejects.toMatchObject({ code: 'E_UNSUPPORTED' })
    await expect(sessionOf(decoder, { total: 'ml-tensor' })).rejects.toMatchObject({ code: 'E_UNSUPPORTED' })
    await expect(sessionOf(decoder, 7 as unknown as 'cpu')).rejects.toMatchObject({ code: 'E_ARGUMENT' })
  })
})

describe('feeds on a device', () => {
  const made = async (): Promise<Common.Tensor> =>
    present((await (await sessionOf(decoder, 'gpu-buffer')).run({ past: rows(1, 1), x: rows(1, 2) })).present)

  /** Another tensor over the same memory. */
  const view = (t: Common.Tensor, dims: readonly number[]): Common.Tensor =>
    Tensor.fromGpuBuffer(t.gpuBuffer, { dataType: 'float32', dims })

  it('may have another shape over the same memory, and go to the host for sessions on other devices', async () => {
    const flat = view(await made(), [1, 8])
    const wide = await sessionOf(
      {
        nodes: [{ op: 'Neg', in: ['x'], out: ['y'] }],
        inputs: [{ name: 'x', type: FLOAT, dims: [1, 8] }],
        outputs: [{ name: 'y', type: FLOAT }],
      },
      undefined,
    )
    expect([...(present((await wide.run({ x: flat })).y).data as Float32Array)]).toEqual([
      -1, -1, -1, -1, -2, -2, -2, -2,
    ])
    const other = await InferenceSession.create(encodeModel(decoder), { intraOpNumThreads: 1 })
    const r = await other.run({ past: await made(), x: rows(1, 5) })
    expect(present(r.total).data[0]).toBe(4 * (1 + 2 + 5))
  })

  it('are refused once they are disposed of, whoever holds them', async () => {
    const session = await sessionOf(decoder, 'gpu-buffer')
    const cache = await made()
    const flat = view(cache, [2, 4])
    cache.dispose()
    await expect(session.run({ past: flat, x: rows(1, 1) })).rejects.toMatchObject({ code: 'E_DISPOSED' })
    const long = view(await made(), [3, 4])
    await expect(session.run({ past: long, x: rows(1, 1) })).rejects.toMatchObject({ code: 'E_SHAPE' })
  })

  it('whose values fix shapes are fetched, and compared with those compiled for', async () => {
    const lengths = await sessionOf(
      {
        nodes: [{ op: 'Add', in: ['a', 'b'], out: ['s'] }],
        inputs: ['a', 'b'].map((name) => ({ name, type: INT64, dims: [1] })),
        outputs: [{ name: 's', type: INT64, dims: [1] }],
      },
      'gpu-buffer',
    )
    const long = (v: number): Tensor => new Tensor('int64', BigInt64Array.of(BigInt(v)), [1])
    const length = async (v: number): Promise<Common.Tensor> =>
      present((await lengths.run({ a: long(v), b: long(1) })).s)
    const shaped = await sessionOf(
      {
        nodes: [{ op: 'Expand', in: ['x', 's'], out: ['y'] }],
        inputs: [
          { name: 'x', type: FLOAT, dims: [1] },
          { name: 's', type: INT64, dims: [1] },
        ],
        outputs: [{ name: 'y', type: FLOAT }],
      },
      undefined,
    )
    for (const v of [2, 4, 2]) {
      const { y } = await shaped.run({ x: new Tensor('float32', Float32Array.of(1), [1]), s: await length(v) })
      expect(present(y).dims).toEqual([v + 1])
    }
  })
})
