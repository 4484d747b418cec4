/** If, Loop and Scan of imported models over ranges of named extents: one program for a range, results of the model at each length. */
import { expect, test } from 'vitest'
import { jit, setDevice, type Tensor, tensor } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx } from '../../src/onnx.ts'
import { encodeModel, type ModelSpec } from './encode.ts'

setDevice('wasm', { threads: 1 })

const { FLOAT, INT64, BOOL } = tensorType

/** A body of Loop that halves v and adds x from outside; its third output is the sum of v. */
const halving = {
  graph: {
    nodes: [
      { op: 'Mul', in: ['v', 'half'], out: ['h'] },
      { op: 'Add', in: ['h', 'x'], out: ['w'] },
      { op: 'ReduceSum', in: ['w', 'axes'], out: ['seen'], attrs: { keepdims: { int: 0 } } },
      { op: 'Identity', in: ['go'], out: ['again'] },
    ],
    inputs: [
      { name: 'i', type: INT64, dims: [] },
      { name: 'go', type: BOOL, dims: [] },
      { name: 'v', type: FLOAT, dims: ['length', 3] },
    ],
    outputs: [
      { name: 'again', type: BOOL, dims: [] },
      { name: 'w', type: FLOAT, dims: ['length', 3] },
      { name: 'seen', type: FLOAT, dims: [3] },
    ],
    initializers: [
      { name: 'half', type: FLOAT, dims: [], floats: [0.5] },
      { name: 'axes', type: INT64, dims: [1], int64s: [0] },
    ],
  },
}

/** A body of Scan that keeps the greatest row so far, and gives what a row lacks of it. */
const greatest = {
  graph: {
    nodes: [
      { op: 'Max', in: ['s', 'e'], out: ['t'] },
      { op: 'Sub', in: ['t', 'e'], out: ['lack'] },
    ],
    inputs: [
      { name: 's', type: FLOAT, dims: [3] },
      { name: 'e', type: FLOAT, dims: [3] },
    ],
    outputs: [
      { name: 't', type: FLOAT, dims: [3] },
      { name: 'lack', type: FLOAT, dims: [3] },
    ],
  },
}

/** A branch of If: a reduction of x from outside, by `op`. */
const branch = (op: string) => ({
  graph: {
    nodes: [
      { op, in: ['x'], out: ['r'], attrs: { keepdims: { int: 1 } } },
      { op: 'Add', in: ['x', 'r'], out: ['b'] },
    ],
    inputs: [],
    outputs: [{ name: 'b', type: FLOAT, dims: ['length', 3] }],
  },
})

const x = { name: 'x', type: FLOAT, dims: ['length', 3] }

const models: Readonly<Record<string, ModelSpec>> = {
  Loop: {
    nodes: [{ op: 'Loop', in: ['n', '', 'x'], out: ['last', 'all'], attrs: { body: halving } }],
    inputs: [x],
    outputs: [
      { name: 'last', type: FLOAT, dims: ['length', 3] },
      { name: 'all', type: FLOAT, dims: [20, 3] },
    ],
    initializers: [{ name: 'n', type: INT64, dims: [], int64s: [20] }],
  },
  Scan: {
    nodes: [
      { op: 'Scan', in: ['first', 'x'], out: ['last', 'all'], attrs: { body: greatest, num_scan_inputs: { int: 1 } } },
    ],
    inputs: [x],
    outputs: [
      { name: 'last', type: FLOAT, dims: [3] },
      { name: 'all', type: FLOAT, dims: ['length', 3] },
    ],
    initializers: [{ name: 'first', type: FLOAT, dims: [3], floats: [0.25, -2, 0.5] }],
  },
  If: {
    nodes: [
      { op: 'ReduceSum', in: ['x'], out: ['sum'], attrs: { keepdims: { int: 0 } } },
      { op: 'Greater', in: ['sum', 'limit'], out: ['c'] },
      {
        op: 'If',
        in: ['c'],
        out: ['y'],
        attrs: { then_branch: branch('ReduceMean'), else_branch: branch('ReduceMax') },
      },
    ],
    inputs: [x],
    outputs: [{ name: 'y', type: FLOAT, dims: ['length', 3] }],
    initializers: [{ name: 'limit', type: FLOAT, dims: [], floats: [30] }],
  },
}

test.for(Object.entries(models))('%s over a range of lengths', ([, spec]) => {
  const bytes = encodeModel(spec)
  const model = importOnnx(bytes, { lengths: { length: [9, 64] } })
  const f = jit(model.apply, { mode: 'strict' })
  const at = (n: number): { x: Tensor } => ({
    x: tensor(
      Float32Array.from({ length: 3 * n }, (_, i) => ((7 * i) % 11) / 11),
      { shape: [n, 3] },
    ),
  })
  // Shorter loops are written out at import.
  for (const n of [17, 23, 40, 64, 9]) {
    const got = f(model.parameters, at(n))
    expect(f.explain(model.parameters, at(n)).closed, `length ${n}`).toBeUndefined()
    const alone = importOnnx(bytes, { lengths: { length: n } })
    const want = jit(alone.apply, { mode: 'strict' })(alone.parameters, at(n))
    for (const [name, t] of Object.entries(got)) expect(t.dataSync(), `${name} at ${n}`).toEqual(want[name]?.dataSync())
  }
  f.dispose()
})
