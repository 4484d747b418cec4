/** Imported models as functions of their float initialisers: training, transforms, what stays a constant, errors. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import * as s from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx, type OnnxModel } from '../../src/onnx.ts'
import { messageOf } from '../api/messages.ts'
import { makeRng } from '../random/rng.ts'
import { chooseDevice } from '../support/device.ts'
import { encodeModel, type TensorSpec } from './encode.ts'

const { FLOAT, INT64 } = tensorType

const random = makeRng(7)
const weight = (name: string, dims: readonly number[]): TensorSpec => ({
  name,
  type: FLOAT,
  dims,
  floats: Array.from({ length: dims.reduce((a, b) => a * b, 1) }, () => random.real(-0.7, 0.7)),
})

/** relu(x @ w1 + b1) @ w2, halved by a scale and moved to columns by a reshape. */
const network = (): OnnxModel =>
  importOnnx(
    encodeModel({
      inputs: [{ name: 'x', type: FLOAT, dims: ['N', 3] }],
      outputs: [{ name: 'y', type: FLOAT, dims: ['N', 1] }],
      initializers: [
        weight('w1', [3, 16]),
        weight('b1', [16]),
        weight('w2', [16, 1]),
        { name: 'half', type: FLOAT, dims: [], floats: [0.5] },
        { name: 'shape', type: INT64, dims: [2], int64s: [-1, 1] },
        weight('unused', [4]),
      ],
      nodes: [
        { op: 'Gemm', in: ['x', 'w1', 'b1'], out: ['h'] },
        { op: 'Relu', in: ['h'], out: ['r'] },
        { op: 'MatMul', in: ['r', 'w2'], out: ['z'] },
        { op: 'Mul', in: ['z', 'half'], out: ['m'] },
        { op: 'Reshape', in: ['m', 'shape'], out: ['y'] },
      ],
    }),
    { inputShapes: { x: [32, 3] } },
  )

const x = s.tensor(
  Float32Array.from({ length: 96 }, () => random.real(-1, 1)),
  { shape: [32, 3] },
)
/** What the network learns: the product of two inputs. */
const target = x
  .slice(null, [0, 1])
  .mul(x.slice(null, [1, 2]))
  .evaluate()

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

describe('fine-tuning', () => {
  it('a few steps of gradient descent lower the loss', () => {
    const model = network()
    expect(Object.keys(model.parameters).sort()).toEqual(['b1', 'half', 'w1', 'w2'])
    expect(model.inputs).toEqual({ x: s.spec([32, 3]) })
    expect(model.outputs).toEqual(['y'])
    const loss = (p: Record<string, s.Tensor>): s.Tensor =>
      s.mean(s.square(model.apply(p, { x }).y?.sub(target) ?? Number.NaN))
    const step = s.jit((p: Record<string, s.Tensor>) => {
      const [value, gradient] = s.valueAndGrad(loss)(p)
      expectTypeOf(gradient).toEqualTypeOf<Record<string, s.Tensor>>()
      const next = Object.fromEntries(Object.entries(p).map(([k, v]) => [k, v.sub(gradient[k]?.mul(0.3) ?? 0)]))
      return { value, next }
    })
    const losses: number[] = []
    let p = model.parameters
    for (let i = 0; i < 150; i++) {
      const { value, next } = step(p)
      losses.push(Number(value.item()))
      p = next
    }
    expect(losses.at(-1)).toBeLessThan(0.5 * (losses[0] ?? 0))
    expect(losses.at(-1)).toBeLessThan(0.06)
    // The model's own values are as they were.
    expect(Number(loss(model.parameters).item())).toBeCloseTo(losses[0] ?? Number.NaN, 6)
  })

  it('a frozen part gets no gradient, and batching composes', () => {
    const model = network()
    const { w2, ...rest } = model.parameters
    if (w2 === undefined) throw new Error('no w2')
    const head = (w: s.Tensor): s.Tensor => s.sum(model.apply({ ...rest, w2: w }, { x }).y ?? 0)
    const g = s.grad(head)(w2)
    const both = s.vmap(s.grad(head))(s.stack([w2, w2.mul(2)]))
    expect(both.shape).toEqual([2, 16, 1])
    // The output is linear in w2.
    for (const row of [0, 1])
      both
        .slice(row)
        .dataSync()
        .forEach((v, i) => {
          expect(Number(v)).toBeCloseTo(Number(g.dataSync()[i]), 4)
        })
  })
})

describe('what stays a constant', () => {
  const only = (
    initializers: readonly TensorSpec[],
    nodes: Parameters<typeof encodeModel>[0]['nodes'],
    output = FLOAT,
  ): OnnxModel =>
    importOnnx(
      encodeModel({
        inputs: [{ name: 'x', type: FLOAT, dims: [2] }],
        outputs: [{ name: 'y', type: output, dims: [2] }],
        initializers,
        nodes,
      }),
    )
  const scalar = (name: string, value: number): TensorSpec => ({ name, type: FLOAT, dims: [], floats: [value] })
  const at = (model: OnnxModel, ...values: number[]): unknown =>
    model.apply(model.parameters, { x: s.tensor(values) }).y?.tolist()

  it('whole exponents; others are parameters', () => {
    const cube = only([scalar('three', 3)], [{ op: 'Pow', in: ['x', 'three'], out: ['y'] }])
    expect(cube.parameters).toEqual({})
    expect(at(cube, -2, 3)).toEqual([-8, 27])
    const root = only([scalar('half', 0.5)], [{ op: 'Pow', in: ['x', 'half'], out: ['y'] }])
    const g = s.grad((p: Record<string, s.Tensor>) => s.sum(root.apply(p, { x: s.tensor([4, 9]) }).y ?? 0))(
      root.parameters,
    )
    expect(Number(g.half?.item())).toBeCloseTo(2 * Math.log(4) + 3 * Math.log(9), 4)
  })
  it('what fixes a shape or decides a branch', () => {
    const mask: TensorSpec = { name: 'mask', type: FLOAT, dims: [3], floats: [1, 0, 1] }
    const found = only(
      [mask],
      [
        { op: 'NonZero', in: ['mask'], out: ['places'] },
        { op: 'Cast', in: ['places'], out: ['numbers'], attrs: { to: { int: FLOAT } } },
        { op: 'Add', in: ['x', 'numbers'], out: ['y'] },
      ],
    )
    expect(found.parameters).toEqual({})
    expect(at(found, 10, 20)).toEqual([[10, 22]])
  })
})

describe('errors name the call and the entry', () => {
  const model = network()
  const { w2, ...rest } = model.parameters
  it.each([
    ['a parameter is missing', () => model.apply(rest, { x })],
    ['a parameter too many', () => model.apply({ ...model.parameters, w3: x }, { x })],
    ['an input of another shape', () => model.apply(model.parameters, { x: s.ones([31, 3]) })],
    ['an input of another dtype', () => model.apply(model.parameters, { x: s.ones([32, 3], 'i32') })],
    ['an input of another name', () => model.apply(model.parameters, { input: x })],
  ])('%s', (_, call) => {
    expect(w2?.shape).toEqual([16, 1])
    expect(messageOf(call)).toMatchSnapshot()
  })
})
