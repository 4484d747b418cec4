/** Bytes to a model: storage forms of tensors, external data, and bytes that are no model. */
import { describe, expect, it } from 'vitest'
import { UserError } from '../../src/diagnostics/errors.ts'
import { decodeModel, importOnnx, readTensorProto } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateConstant } from '../../src/reference/evaluate.ts'
import { encodeModel, encodeTensor, type ModelSpec, type TensorSpec } from './encode.ts'
import { errorOf, floats, load, relu, run } from './models.ts'

const { FLOAT } = tensorType

describe('decoding', () => {
  it('reads every storage form of a tensor', () => {
    const read = (t: Partial<TensorSpec> & { type: number; dims: number[] }): unknown[] =>
      Array.from(readTensorProto(encodeTensor({ name: 't', ...t })).data as ArrayLike<unknown>)
    expect(read({ type: tensorType.FLOAT, dims: [2], floats: [1.5, -2] })).toEqual([1.5, -2])
    expect(read({ type: tensorType.DOUBLE, dims: [2], doubles: [1.5, -2] })).toEqual([1.5, -2])
    expect(read({ type: tensorType.INT64, dims: [2], int64s: [1, -2] })).toEqual([1n, -2n])
    expect(read({ type: tensorType.UINT64, dims: [1], uint64s: [7] })).toEqual([7n])
    expect(read({ type: tensorType.UINT32, dims: [1], uint64s: [7] })).toEqual([7])
    expect(read({ type: tensorType.INT8, dims: [2], int32s: [-1, 5] })).toEqual([-1, 5])
    expect(read({ type: tensorType.FLOAT16, dims: [1], int32s: [0x3c00] })).toEqual([0x3c00])
    expect(read({ type: tensorType.BFLOAT16, dims: [1], raw: Uint8Array.of(0x80, 0x3f) })).toEqual([0x3f80])
    expect(read({ type: tensorType.BOOL, dims: [3], raw: Uint8Array.of(0, 2, 1) })).toEqual([0, 1, 1])
    expect(read({ type: tensorType.INT32, dims: [1, 2], raw: Uint8Array.of(1, 0, 0, 0, 255, 255, 255, 255) })).toEqual([
      1, -1,
    ])
  })

  it('names element types it has no dtype for', () => {
    const error = errorOf(() => readTensorProto(encodeTensor({ name: 't', type: tensorType.COMPLEX64, dims: [0] })))
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(error.message).toContain('COMPLEX64')
  })

  it('rejects data that does not fill the shape', () => {
    expect(errorOf(() => readTensorProto(encodeTensor({ name: 't', type: FLOAT, dims: [3], floats: [1] }))).code).toBe(
      'E_ONNX_MALFORMED',
    )
    expect(
      errorOf(() => readTensorProto(encodeTensor({ name: 't', type: FLOAT, dims: [3], raw: new Uint8Array(11) }))).code,
    ).toBe('E_ONNX_MALFORMED')
  })

  it('turns every truncation into E_ONNX_MALFORMED, or a model that still stands', () => {
    const bytes = encodeModel(relu)
    let errors = 0
    for (let n = 0; n < bytes.length; n++) {
      try {
        importOnnx(bytes.subarray(0, n), { evaluate: evaluateConstant })
      } catch (error) {
        expect(error).toBeInstanceOf(UserError)
        errors++
      }
    }
    expect(errors).toBe(bytes.length)
  })

  it('turns every flipped byte into a UserError, or a model that still stands', () => {
    const bytes = encodeModel(relu)
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [0x01, 0x80, 0xff]) {
        const broken = bytes.slice()
        broken[at] = (broken[at] ?? 0) ^ flip
        try {
          importOnnx(broken, { evaluate: evaluateConstant })
        } catch (error) {
          expect(error).toBeInstanceOf(UserError)
        }
      }
    }
  })

  it('rejects what is no protobuf, and a model without a graph', () => {
    expect(errorOf(() => decodeModel(new TextEncoder().encode('not a model at all'))).code).toBe('E_ONNX_MALFORMED')
    expect(errorOf(() => decodeModel(new Uint8Array(0))).code).toBe('E_ONNX_MALFORMED')
  })

  it('rejects extents beyond memory', () => {
    const t: TensorSpec = { name: 'w', type: FLOAT, dims: [2 ** 31, 2 ** 31], raw: new Uint8Array(4) }
    const error = errorOf(() =>
      load({ ...relu, nodes: [{ op: 'Add', in: ['x', 'w'], out: ['y'] }], initializers: [t] }),
    )
    expect(error.code).toBe('E_OVERFLOW')
  })
})

describe('external data', () => {
  const withExternal = (external: Record<string, string>): ModelSpec => ({
    ...relu,
    nodes: [{ op: 'Add', in: ['x', 'w'], out: ['y'] }],
    initializers: [{ name: 'w', type: FLOAT, dims: [3], external }],
  })
  const file = new Uint8Array(Float32Array.of(9, 1, 2, 3).buffer)
  const external = (location: string, offset: number, length: number | undefined): Uint8Array => {
    expect(location).toBe('data/weights.bin')
    return file.slice(offset, length === undefined ? undefined : offset + length)
  }

  it('comes from the loader', () => {
    const model = load(withExternal({ location: './data/weights.bin', offset: '4', length: '12' }), { external })
    expect(run(model, { x: floats(1, 1, 1) })[0]?.data).toEqual([2, 3, 4])
  })

  it('stays inside the folder of the model', () => {
    for (const location of [
      '/etc/passwd',
      '../weights.bin',
      'a/../../b',
      'C:\\data',
      '\\\\host\\share',
      'file:///x',
      'a\\..\\..\\b',
      '',
    ]) {
      const error = errorOf(() => load(withExternal({ location }), { external: () => file }))
      expect(error.code, location).toBe('E_ONNX_INPUT')
    }
  })

  it('must be as long as the tensor', () => {
    const short = errorOf(() =>
      load(withExternal({ location: 'data/weights.bin' }), { external: () => file.slice(0, 8) }),
    )
    expect(short.code).toBe('E_ONNX_MALFORMED')
    const wrong = errorOf(() => load(withExternal({ location: 'data/weights.bin', length: '8' }), { external }))
    expect(wrong.code).toBe('E_ONNX_MALFORMED')
  })

  it('needs a loader', () => {
    expect(errorOf(() => load(withExternal({ location: 'data/weights.bin' }))).code).toBe('E_ONNX_INPUT')
  })
})
