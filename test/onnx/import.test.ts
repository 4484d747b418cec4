/** The ONNX importer on small models made here: decoding, inputs, specialisation, functions, errors. */
import { describe, expect, it } from 'vitest'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/backends/reference/evaluate.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import type { HostTensor, ImportedModel, ImportOptions } from '../../src/onnx/index.ts'
import { decodeModel, importOnnx, readTensorProto } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { encodeModel, encodeTensor, type ModelSpec, type TensorSpec } from './encode.ts'

const { FLOAT, INT64, BOOL } = tensorType

const load = (m: ModelSpec, options: Partial<ImportOptions> = {}): ImportedModel =>
  importOnnx(encodeModel(m), { evaluate: evaluateConstant, ...options })

const floats = (...values: number[]): HostTensor => ({
  data: Float32Array.from(values),
  shape: [values.length],
  dtype: 'f32',
})
const longs = (...values: number[]): HostTensor => ({
  data: BigInt64Array.from(values, BigInt),
  shape: [values.length],
  dtype: 'i64',
})

function run(
  model: ImportedModel,
  values: Record<string, HostTensor>,
): { shape: readonly number[]; data: unknown[] }[] {
  const inputs = model.inputNames.map((name) => values[name]?.data ?? new Float32Array(0))
  return evaluateGraph(model.graph, inputs, { rounding: 'dtype' }).map((t) => ({
    shape: t.shape,
    data: Array.from(toHostArray(t) as ArrayLike<unknown>),
  }))
}

/** The error a body throws; fails when it throws none or one that is not the user's. */
function errorOf(body: () => unknown): UserError {
  try {
    body()
  } catch (error) {
    if (error instanceof UserError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

const relu: ModelSpec = {
  nodes: [{ op: 'Relu', name: 'r', in: ['x'], out: ['y'] }],
  inputs: [{ name: 'x', type: FLOAT, dims: [3] }],
  outputs: [{ name: 'y', type: FLOAT, dims: [3] }],
}

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

describe('inputs', () => {
  const dynamic: ModelSpec = { ...relu, inputs: [{ name: 'x', type: FLOAT, dims: ['batch', 2] }] }

  it('imports parameters with their origin', () => {
    const model = load(relu)
    expect(model.inputNames).toEqual(['x'])
    expect(model.outputNames).toEqual(['y'])
    expect(model.specialised).toEqual([])
    const [y] = model.graph.outputs
    expect(y?.origin).toMatchObject({ name: 'Relu', where: 'r' })
    expect(run(model, { x: floats(-1, 0, 2) })[0]?.data).toEqual([0, 0, 2])
  })

  it('takes symbolic extents from the caller, and says which are missing', () => {
    expect(load(dynamic, { inputShapes: { x: [5, 2] } }).graph.params[0]?.shape).toEqual([5, 2])
    const error = errorOf(() => load(dynamic))
    expect(error.code).toBe('E_ONNX_INPUT')
    expect(error.message).toContain('"batch"')
    expect(errorOf(() => load(dynamic, { inputShapes: { x: [5, 3] } })).code).toBe('E_ONNX_INPUT')
    expect(errorOf(() => load(dynamic, { inputShapes: { x: [5] } })).code).toBe('E_ONNX_INPUT')
    expect(errorOf(() => load(dynamic, { inputShapes: { z: [5] } })).code).toBe('E_ONNX_INPUT')
  })

  it('binds a symbol once for all inputs', () => {
    const model = load(
      {
        nodes: [{ op: 'Add', in: ['a', 'b'], out: ['y'] }],
        inputs: [
          { name: 'a', type: FLOAT, dims: ['n'] },
          { name: 'b', type: FLOAT, dims: ['n'] },
        ],
        outputs: [{ name: 'y', type: FLOAT, dims: ['n'] }],
      },
      { inputShapes: { a: [4] } },
    )
    expect(model.graph.params.map((p) => p.shape)).toEqual([[4], [4]])
  })
})

describe('value specialisation', () => {
  const reshape: ModelSpec = {
    nodes: [{ op: 'Reshape', name: 'view', in: ['x', 'shape'], out: ['y'] }],
    inputs: [
      { name: 'x', type: FLOAT, dims: [6] },
      { name: 'shape', type: INT64, dims: [2] },
    ],
    outputs: [{ name: 'y', type: FLOAT, dims: ['a', 'b'] }],
  }

  it('folds an input whose value fixes a shape, and no other', () => {
    const model = load(reshape, { inputValues: { x: floats(1, 2, 3, 4, 5, 6), shape: longs(-1, 3) } })
    expect(model.specialised).toEqual(['shape'])
    expect(model.inputNames).toEqual(['x'])
    expect(model.graph.outputs[0]?.shape).toEqual([2, 3])
  })

  it('names the input and the node when the value is missing', () => {
    const error = errorOf(() => load(reshape))
    expect(error.code).toBe('E_ONNX_INPUT')
    expect(error.message).toContain('"shape"')
    expect(error.message).toContain('view')
  })

  it('needs no value for shapes computed from shapes', () => {
    const model = load({
      nodes: [
        { op: 'Shape', in: ['x'], out: ['s'] },
        { op: 'Gather', in: ['s', 'zero'], out: ['d'] },
        { op: 'Unsqueeze', in: ['d', 'axes'], out: ['u'] },
        { op: 'Concat', in: ['u', 'rest'], out: ['t'], attrs: { axis: { int: 0 } } },
        { op: 'Reshape', in: ['x', 't'], out: ['y'] },
      ],
      inputs: [{ name: 'x', type: FLOAT, dims: [2, 3, 4] }],
      outputs: [{ name: 'y', type: FLOAT, dims: [2, 12] }],
      initializers: [
        { name: 'zero', type: INT64, dims: [], int64s: [0] },
        { name: 'axes', type: INT64, dims: [1], int64s: [0] },
        { name: 'rest', type: INT64, dims: [1], int64s: [-1] },
      ],
    })
    expect(model.specialised).toEqual([])
    expect(model.graph.outputs[0]?.shape).toEqual([2, 12])
  })

  it('takes a branch of one shape at run time instead of folding the condition', () => {
    const branch = (op: string) => ({
      graph: {
        nodes: [{ op, in: ['x'], out: [`${op}_out`] }],
        outputs: [{ name: `${op}_out`, type: FLOAT, dims: [3] }],
      },
    })
    const model = load(
      {
        nodes: [{ op: 'If', in: ['c'], out: ['y'], attrs: { then_branch: branch('Neg'), else_branch: branch('Abs') } }],
        inputs: [
          { name: 'x', type: FLOAT, dims: [3] },
          { name: 'c', type: BOOL, dims: [] },
        ],
        outputs: [{ name: 'y', type: FLOAT, dims: [3] }],
      },
      { inputValues: { c: { data: Uint8Array.of(1), shape: [], dtype: 'bool' } } },
    )
    expect(model.specialised).toEqual([])
    const x = floats(1, -2, 3)
    expect(run(model, { x, c: { data: Uint8Array.of(1), shape: [], dtype: 'bool' } })[0]?.data).toEqual([-1, 2, -3])
    expect(run(model, { x, c: { data: Uint8Array.of(0), shape: [], dtype: 'bool' } })[0]?.data).toEqual([1, 2, 3])
  })
})

describe('local functions', () => {
  it('inlines them with their attributes', () => {
    const model = load({
      opsets: { local: 1 },
      nodes: [{ op: 'Scaled', name: 'call', domain: 'local', in: ['x'], out: ['y'], attrs: { slope: { float: 0.5 } } }],
      inputs: [{ name: 'x', type: FLOAT, dims: [2] }],
      outputs: [{ name: 'y', type: FLOAT, dims: [2] }],
      functions: [
        {
          name: 'Scaled',
          domain: 'local',
          inputs: ['a'],
          outputs: ['b'],
          attributes: ['slope'],
          nodes: [
            { op: 'LeakyRelu', name: 'leak', in: ['a'], out: ['t'], attrs: { alpha: { ref: 'slope', refType: 1 } } },
            { op: 'Neg', in: ['t'], out: ['b'] },
          ],
        },
      ],
    })
    expect(run(model, { x: floats(-4, 3) })[0]?.data).toEqual([2, -3])
    expect(model.graph.outputs[0]?.origin.where).toBe('call/b')
  })

  it('ends on a function that calls itself', () => {
    const error = errorOf(() =>
      load({
        ...relu,
        opsets: { local: 1 },
        nodes: [{ op: 'F', domain: 'local', in: ['x'], out: ['y'] }],
        functions: [
          {
            name: 'F',
            domain: 'local',
            inputs: ['a'],
            outputs: ['b'],
            nodes: [{ op: 'F', domain: 'local', in: ['a'], out: ['b'] }],
          },
        ],
      }),
    )
    expect(error.code).toBe('E_ONNX_MALFORMED')
  })
})

describe('unsupported models', () => {
  it('lists every node at fault at once', () => {
    const error = errorOf(() =>
      load({
        nodes: [
          { op: 'NoSuchOp', name: 'first', in: ['x'], out: ['a'] },
          { op: 'Relu', name: 'fine', in: ['a'], out: ['b'] },
          { op: 'AlsoNone', name: 'second', domain: 'com.example', in: ['b'], out: ['c'] },
          { op: 'NonZero', name: 'third', in: ['x'], out: ['d'] },
          { op: 'Relu', in: ['c'], out: ['y'] },
        ],
        inputs: [{ name: 'x', type: FLOAT, dims: [3] }],
        outputs: [{ name: 'y', type: FLOAT, dims: [3] }],
      }),
    )
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(error.message).toMatchInlineSnapshot(`
      "[E_ONNX_UNSUPPORTED] the model has 3 parts that cannot be imported:
        NoSuchOp "first": there is no such operator here
        com.example.AlsoNone "second": there is no such operator here
        NonZero "third": the shape of its result depends on the values of its input
        help: export the model without these operators, or replace them by supported ones"
    `)
  })

  it('reports contradictions with the node', () => {
    const error = errorOf(() =>
      load({
        ...relu,
        nodes: [{ op: 'Add', name: 'sum', in: ['x', 'w'], out: ['y'] }],
        initializers: [{ name: 'w', type: FLOAT, dims: [2], floats: [1, 2] }],
      }),
    )
    expect(error.code).toBe('E_SHAPE')
    expect(error.message).toContain('Add "sum"')
  })

  it('reports a value nothing defines', () => {
    const error = errorOf(() => load({ ...relu, nodes: [{ op: 'Relu', in: ['nowhere'], out: ['y'] }] }))
    expect(error.code).toBe('E_ONNX_MALFORMED')
    expect(error.message).toContain('nowhere')
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

describe('control flow', () => {
  it('unrolls a loop with a known trip count', () => {
    const model = load({
      nodes: [
        {
          op: 'Loop',
          in: ['count', '', 'x'],
          out: ['last', 'all'],
          attrs: {
            body: {
              graph: {
                nodes: [
                  { op: 'Add', in: ['v', 'v'], out: ['w'] },
                  { op: 'Identity', in: ['w'], out: ['seen'] },
                  { op: 'Identity', in: ['go'], out: ['again'] },
                ],
                inputs: [
                  { name: 'i', type: INT64, dims: [] },
                  { name: 'go', type: BOOL, dims: [] },
                  { name: 'v', type: FLOAT, dims: [1] },
                ],
                outputs: [
                  { name: 'again', type: BOOL, dims: [] },
                  { name: 'w', type: FLOAT, dims: [1] },
                  { name: 'seen', type: FLOAT, dims: [1] },
                ],
              },
            },
          },
        },
      ],
      inputs: [{ name: 'x', type: FLOAT, dims: [1] }],
      outputs: [
        { name: 'last', type: FLOAT, dims: [1] },
        { name: 'all', type: FLOAT, dims: [3, 1] },
      ],
      initializers: [{ name: 'count', type: INT64, dims: [], int64s: [3] }],
    })
    expect(run(model, { x: floats(1) })).toEqual([
      { shape: [1], data: [8] },
      { shape: [3, 1], data: [2, 4, 8] },
    ])
  })
})
