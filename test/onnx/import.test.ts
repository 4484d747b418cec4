/** The ONNX importer on small models made here: inputs, specialisation, functions, control flow, errors. */
import { describe, expect, it } from 'vitest'
import { tensorType } from '../../src/onnx/proto.ts'
import type { ModelSpec } from './encode.ts'
import { errorOf, floats, load, longs, relu, run } from './models.ts'

const { FLOAT, INT64, BOOL } = tensorType

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
    expect(error.message).toContain('[batch, 2]')
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
          { op: 'AttnLSTM', name: 'third', domain: 'com.microsoft', in: ['x'], out: ['d'] },
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
        com.microsoft.AttnLSTM "third": recurrence with attention inside is not imported
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
