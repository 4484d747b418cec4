/**
 * If, Loop and Scan of imported models: a body that reads a float initialiser before anything else does, conditions known by the
 * shapes and values given, branches that are wrong and do not run, nodes in any order. Sites: `stepBody.ts` (what a body takes from
 * around), `ops/control.ts` (If, Loop, Scan), `values.ts` (values of parameters), `arrange.ts` (order), `import.ts` (what is told of a
 * missing value).
 */
import { describe, expect, it } from 'vitest'
import { jit, type Tensor, tensor } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx } from '../../src/onnx.ts'
import { encodeModel, type GraphSpec, type ModelSpec, type NodeSpec } from '../onnx/encode.ts'
import { errorOf, floats, load, longs, run } from '../onnx/models.ts'

const { FLOAT, INT64, BOOL } = tensorType
const value = (name: string, type: number, ...dims: (number | string)[]) => ({ name, type, dims })
const weights = (name: string, ...values: number[]) => ({ name, type: FLOAT, dims: [values.length], floats: values })

/** A branch of one node. */
const branch = (op: string, inputs: readonly string[], out: string): { graph: GraphSpec } => ({
  graph: { nodes: [{ op, in: inputs, out: [out] }], outputs: [value(out, FLOAT, 2)] },
})

describe('a float initialiser that a graph inside reads first', () => {
  const choice: ModelSpec = {
    nodes: [
      {
        op: 'If',
        in: ['c'],
        out: ['y'],
        attrs: { then_branch: branch('Add', ['x', 'w'], 'a'), else_branch: branch('Mul', ['x', 'v'], 'b') },
      },
      // Read outside as well, later.
      { op: 'Add', in: ['y', 'w'], out: ['z'] },
    ],
    inputs: [value('x', FLOAT, 2), value('c', BOOL)],
    outputs: [value('z', FLOAT, 2)],
    initializers: [weights('w', 10, 20), weights('v', 3, 5)],
  }
  it('is a parameter of an If', () => {
    const model = importOnnx(encodeModel(choice))
    expect(Object.keys(model.parameters).sort()).toEqual(['v', 'w'])
    const f = jit((x: Tensor, c: Tensor) => model.apply(model.parameters, { x, c }))
    for (const [c, want] of [
      [true, [21, 42]],
      [false, [13, 30]],
    ] as const)
      expect(f(tensor([1, 2]), tensor(c)).z?.tolist()).toEqual(want)
  })

  /** v := v * w, as often as n says; the product inside another If. */
  const body: GraphSpec = {
    nodes: [
      {
        op: 'If',
        in: ['go'],
        out: ['next'],
        attrs: { then_branch: branch('Mul', ['v', 'w'], 'p'), else_branch: branch('Add', ['v', 'u'], 'q') },
      },
      { op: 'Identity', in: ['go'], out: ['again'] },
    ],
    inputs: [value('i', INT64), value('go', BOOL), value('v', FLOAT, 2)],
    outputs: [value('again', BOOL), value('next', FLOAT, 2)],
  }
  it('is a parameter of a Loop, and of an If in it', () => {
    const model = importOnnx(
      encodeModel({
        nodes: [{ op: 'Loop', in: ['n', '', 'x'], out: ['y'], attrs: { body: { graph: body } } }],
        inputs: [value('x', FLOAT, 2), value('n', INT64)],
        outputs: [value('y', FLOAT, 2)],
        initializers: [weights('w', 2, 3), weights('u', 7, 7)],
      }),
    )
    const y = model.apply(model.parameters, { x: tensor([1, 1]), n: tensor(3n) }).y
    expect(y?.tolist()).toEqual([8, 27])
  })
  it('is a parameter of a Scan', () => {
    const model = importOnnx(
      encodeModel({
        nodes: [
          {
            op: 'Scan',
            in: ['s', 'x'],
            out: ['last', 'all'],
            attrs: {
              num_scan_inputs: { int: 1 },
              body: {
                graph: {
                  nodes: [
                    { op: 'Mul', in: ['e', 'w'], out: ['ew'] },
                    { op: 'Add', in: ['s0', 'ew'], out: ['s1'] },
                    { op: 'Identity', in: ['s1'], out: ['seen'] },
                  ],
                  inputs: [value('s0', FLOAT, 1), value('e', FLOAT, 1)],
                  outputs: [value('s1', FLOAT, 1), value('seen', FLOAT, 1)],
                },
              },
            },
          },
        ],
        inputs: [value('s', FLOAT, 1), value('x', FLOAT, 12, 1)],
        outputs: [value('last', FLOAT, 1), value('all', FLOAT, 12, 1)],
        initializers: [weights('w', 2)],
      }),
    )
    const x = tensor(Float32Array.from({ length: 12 }, (_, i) => i)).reshape([12, 1])
    const { last } = model.apply(model.parameters, { s: tensor([1]), x })
    expect(last?.tolist()).toEqual([133])
  })
})

describe('a branch that does not run', () => {
  const wrong: Readonly<Record<string, NodeSpec>> = {
    'does not fit the shapes': { op: 'Add', in: ['x', 'three'], out: ['b'] },
    'holds an operator there is not': { op: 'Nonsense', in: ['x'], out: ['b'] },
    'asks for a value that is missing': { op: 'Reshape', in: ['x', 'k'], out: ['b'] },
    'reads what nothing defines': { op: 'Neg', in: ['nowhere'], out: ['b'] },
  }
  /** x doubled where n is 1; else the node. */
  const model = (node: NodeSpec, swap = false): ModelSpec => {
    const good = { graph: { nodes: [{ op: 'Add', in: ['x', 'x'], out: ['b'] }], outputs: [value('b', FLOAT, 2)] } }
    const bad = { graph: { nodes: [node], outputs: [value('b', FLOAT, 'any')] } }
    return {
      nodes: [
        { op: 'Equal', in: ['n', 'one'], out: ['c'] },
        {
          op: 'If',
          name: 'choice',
          in: ['c'],
          out: ['y'],
          attrs: { then_branch: swap ? bad : good, else_branch: swap ? good : bad },
        },
      ],
      inputs: [value('x', FLOAT, 2), value('n', INT64), value('k', INT64, 1)],
      outputs: [value('y', FLOAT, 2)],
      initializers: [{ name: 'one', type: INT64, dims: [], int64s: [1] }, weights('three', 1, 2, 3)],
    }
  }
  const scalar = (v: number) => ({ ...longs(v), shape: [] })
  for (const [what, node] of Object.entries(wrong)) {
    it(`may be one that ${what}: the value given for its condition decides`, () => {
      const chosen = load(model(node), { inputValues: { n: scalar(1) } })
      expect(chosen.specialised).toEqual(['n'])
      expect(run(chosen, { x: floats(1, 2), k: longs(2) })).toEqual([{ shape: [2], data: [2, 4] }])
      const swapped = load(model(node, true), { inputValues: { n: scalar(0) } })
      expect(run(swapped, { x: floats(1, 2), k: longs(2) })).toEqual([{ shape: [2], data: [2, 4] }])
    })
    it(`that ${what} is told where it may run, with the input that decides`, () => {
      const error = errorOf(() => load(model(node)))
      expect(error.help).toContain('give the value of input "n", on which it depends')
      const run = errorOf(() => load(model(node), { inputValues: { n: scalar(0) } }))
      expect(run.code).toBe(error.code)
      expect(run.help ?? '').not.toContain('"n"')
    })
  }
  it('may be the body of a loop of no steps', () => {
    const spec: ModelSpec = {
      nodes: [
        {
          op: 'Loop',
          in: ['n', '', 'x'],
          out: ['y'],
          attrs: {
            body: {
              graph: {
                nodes: [
                  { op: 'Add', in: ['v', 'three'], out: ['w'] },
                  { op: 'Identity', in: ['go'], out: ['again'] },
                ],
                inputs: [value('i', INT64), value('go', BOOL), value('v', FLOAT, 2)],
                outputs: [value('again', BOOL), value('w', FLOAT, 2)],
              },
            },
          },
        },
      ],
      inputs: [value('x', FLOAT, 2), value('n', INT64)],
      outputs: [value('y', FLOAT, 2)],
      initializers: [weights('three', 1, 2, 3)],
    }
    expect(run(load(spec, { inputValues: { n: scalar(0) } }), { x: floats(1, 2) })).toEqual([
      { shape: [2], data: [1, 2] },
    ])
    expect(errorOf(() => load(spec, { inputValues: { n: scalar(1) } })).code).toBe('E_SHAPE')
    const unknown = errorOf(() => load(spec))
    expect(unknown.code).toBe('E_SHAPE')
    expect(unknown.help).toContain('"n"')
  })
  it('is chosen by a condition inside a loop', () => {
    // Step 0 would add three numbers to two; the condition there is the number of the step.
    const inside: GraphSpec = {
      nodes: [
        { op: 'Less', in: ['i', 'zero'], out: ['c'] },
        {
          op: 'If',
          in: ['c'],
          out: ['w'],
          attrs: { then_branch: branch('Add', ['v', 'three'], 'a'), else_branch: branch('Add', ['v', 'v'], 'b') },
        },
        { op: 'Identity', in: ['go'], out: ['again'] },
      ],
      inputs: [value('i', INT64), value('go', BOOL), value('v', FLOAT, 2)],
      outputs: [value('again', BOOL), value('w', FLOAT, 2)],
    }
    const model = load({
      nodes: [{ op: 'Loop', in: ['n', '', 'x'], out: ['y'], attrs: { body: { graph: inside } } }],
      inputs: [value('x', FLOAT, 2)],
      outputs: [value('y', FLOAT, 2)],
      initializers: [
        { name: 'n', type: INT64, dims: [], int64s: [10] },
        { name: 'zero', type: INT64, dims: [], int64s: [0] },
        weights('three', 1, 2, 3),
      ],
    })
    expect(run(model, { x: floats(1, 2) })).toEqual([{ shape: [2], data: [1024, 2048] }])
  })
})

describe('nodes in any order', () => {
  const nodes: NodeSpec[] = [
    { op: 'Add', in: ['x', 'x'], out: ['a'] },
    { op: 'Neg', in: ['a'], out: ['b'] },
    {
      op: 'If',
      in: ['c'],
      out: ['d'],
      attrs: {
        then_branch: {
          graph: {
            // Out of order inside, and reading from around.
            nodes: [
              { op: 'Mul', in: ['e', 'b'], out: ['f'] },
              { op: 'Exp', in: ['a'], out: ['e'] },
            ],
            outputs: [value('f', FLOAT, 2)],
          },
        },
        else_branch: branch('Identity', ['b'], 'g'),
      },
    },
    { op: 'twice', domain: 'local', in: ['d'], out: ['y'] },
  ]
  const spec = (order: readonly number[]): ModelSpec => ({
    nodes: order.flatMap((i) => nodes[i] ?? []),
    inputs: [value('x', FLOAT, 2), value('c', BOOL)],
    outputs: [value('y', FLOAT, 2)],
    opsets: { local: 1 },
    functions: [
      {
        name: 'twice',
        domain: 'local',
        inputs: ['p'],
        outputs: ['r'],
        nodes: [
          { op: 'Add', in: ['q', 'q'], out: ['r'] },
          { op: 'Abs', in: ['p'], out: ['q'] },
        ],
      },
    ],
  })
  it('are sorted, in graphs, graphs inside and functions', () => {
    const condition = { data: Uint8Array.of(1), shape: [], dtype: 'bool' as const }
    const result = (order: readonly number[]) => run(load(spec(order)), { x: floats(1, -1), c: condition })
    const want = result([0, 1, 2, 3])
    expect(want[0]?.data[0]).toBeCloseTo(4 * Math.exp(2), 4)
    for (const order of [
      [3, 2, 1, 0],
      [1, 3, 0, 2],
      [2, 0, 3, 1],
    ])
      expect(result(order)).toEqual(want)
  })
  it('a chain of 20,000 nodes is sorted without recursion', () => {
    const count = 20_000
    const chain = Array.from({ length: count }, (_, i) => ({
      op: 'Neg',
      in: [i === 0 ? 'x' : `v${i}`],
      out: [i === count - 1 ? 'y' : `v${i + 1}`],
    })).reverse()
    const model = load({ nodes: chain, inputs: [value('x', FLOAT, 2)], outputs: [value('y', FLOAT, 2)] })
    expect(run(model, { x: floats(1, 2) })).toEqual([{ shape: [2], data: [1, 2] }])
  })
  it('that form a circle are E_ONNX_MALFORMED and named', () => {
    const circle = (extra: readonly NodeSpec[]): ModelSpec => ({
      nodes: [{ op: 'Neg', name: 'first', in: ['x'], out: ['a'] }, ...extra],
      inputs: [value('x', FLOAT, 2)],
      outputs: [value('a', FLOAT, 2)],
    })
    const two = errorOf(() =>
      load(
        circle([
          { op: 'Add', name: 'left', in: ['r', 'a'], out: ['l'] },
          { op: 'Neg', name: 'right', in: ['l'], out: ['r'] },
        ]),
      ),
    )
    expect(two.code).toBe('E_ONNX_MALFORMED')
    expect(two.summary).toContain('read each other\'s results: Add "left", Neg "right"')
    const self = errorOf(() => load(circle([{ op: 'Neg', name: 'self', in: ['s'], out: ['s'] }])))
    expect(self.code).toBe('E_ONNX_MALFORMED')
    // Through a graph inside: a branch reads what the If gives.
    const inside = errorOf(() =>
      load(
        circle([
          {
            op: 'If',
            name: 'if',
            in: ['a'],
            out: ['z'],
            attrs: { then_branch: branch('Neg', ['z'], 't'), else_branch: branch('Neg', ['a'], 'e') },
          },
        ]),
      ),
    )
    expect(inside.summary).toContain('If "if"')
  })
})
