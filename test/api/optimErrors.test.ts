/** What optimisers refuse, and what they say: trees that do not fit, parameters that are none, hyperparameters out of range. */
import { describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { messageOf } from './messages.ts'

const { jit, optim } = s

describe('what is refused', () => {
  const p = { w: s.ones([2, 3]), b: [s.ones([3]), 'same'] as [s.Tensor, string] }
  const opt = optim.adamw({ learningRate: 0.1 })
  const state = opt.init(p)

  it('trees that do not fit', () => {
    // @ts-expect-error a missing leaf
    expect(messageOf(() => opt.update({ w: p.w }, state, p))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.update: gradients.b is missing, where params has a list of 2
        at test/api/optimErrors.test.ts
        help: pass the gradients of these parameters, as grad gives them"
    `)
    // @ts-expect-error one too many
    expect(messageOf(() => opt.update({ ...p, c: p.w }, state, p))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.update: gradients.c is a tensor, where params has nothing
        at test/api/optimErrors.test.ts
        help: pass the gradients of these parameters, as grad gives them"
    `)
    expect(messageOf(() => opt.update({ ...p, w: p.w.T }, state, p))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] adamw.update: gradients.w is f32[3, 2], where params has f32[2, 3]
        at test/api/optimErrors.test.ts
        help: pass the gradients of these parameters, as grad gives them"
    `)
    expect(messageOf(() => opt.update({ ...p, w: p.w.astype('f64') }, state, p))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] adamw.update: gradients.w is f64[2, 3], where params has f32[2, 3]
        at test/api/optimErrors.test.ts
        help: pass the gradients of these parameters, as grad gives them"
    `)
    const other = optim.sgd({ learningRate: 0.1, momentum: 0.9 })
    // @ts-expect-error another optimiser's state
    expect(messageOf(() => other.update(p, state, p))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] sgd.update: state.first is an object, where the optimiser has nothing
        at test/api/optimErrors.test.ts
        help: pass the state that init or the last update of this sgd gave for these parameters"
    `)
    expect(messageOf(() => opt.update(p, { ...state, step: s.zeros([]) }, p))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] adamw.update: state.step is f32[], where the optimiser has i32[]
        at test/api/optimErrors.test.ts
        help: pass the state that init or the last update of this adamw gave for these parameters"
    `)
    expect(
      messageOf(() => opt.update(p, { ...state, second: { ...p, b: p.b[0] as never } }, p)),
    ).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.update: state.second.b is a tensor, where the optimiser has a list of 2
        at test/api/optimErrors.test.ts
        help: pass the state that init or the last update of this adamw gave for these parameters"
    `)
    expect(messageOf(() => s.tree.map((a) => a, [p.w, p.w], [p.w]))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] tree.map: tree2 is a list of 1, where the first tree has a list of 2
        at test/api/optimErrors.test.ts
        help: pass trees of one structure"
    `)
    expect(messageOf(() => s.tree.map((a) => a, [p.w, 2], [p.w, p.w as never]))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] tree.map: tree2[1] is a tensor, where the first tree has a number
        at test/api/optimErrors.test.ts
        help: pass trees of one structure"
    `)
  })

  it('parameters that are none', () => {
    expect(messageOf(() => opt.init({ n: s.arange(3) }))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] adamw.init: params.n is i32[3]
        at test/api/optimErrors.test.ts
        help: parameters are float tensors: pass the others beside them"
    `)
    expect(messageOf(() => opt.init({ n: 3 }))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.init: params holds no tensor
        at test/api/optimErrors.test.ts
        help: numbers are static: pass tensor(x) instead"
    `)
    expect(messageOf(() => opt.init(new Float32Array(3)))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.init: params is a Float32Array
        at test/api/optimErrors.test.ts
        help: make a tensor of it first: tensor(data)"
    `)
    expect(messageOf(() => opt.init({ w: s.spec([2]) }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] adamw.init: params holds a tensor spec
        at test/api/optimErrors.test.ts
        help: specs are for explain and compile"
    `)
    expect(messageOf(() => optim.clipByGlobalNorm([s.arange(3)], 1))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] clipByGlobalNorm: tree[0] is i32[3]
        at test/api/optimErrors.test.ts
        help: the norm is of float tensors: leave the others out"
    `)
  })

  it('hyperparameters out of range', () => {
    expect(messageOf(() => optim.sgd({ learningRate: -1 }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.sgd: learningRate is -1
        at test/api/optimErrors.test.ts
        help: give a number of at least 0, or a schedule"
    `)
    expect(messageOf(() => optim.sgd({ learningRate: Number.NaN }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.sgd: learningRate is NaN
        at test/api/optimErrors.test.ts
        help: give a number of at least 0, or a schedule"
    `)
    expect(messageOf(() => optim.sgd({ learningRate: 0.1, momentum: 1 }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.sgd: momentum is 1
        at test/api/optimErrors.test.ts
        help: give a number of at least 0 and below 1"
    `)
    expect(messageOf(() => optim.sgd({ learningRate: 0.1, nesterov: true }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.sgd: nesterov without momentum
        at test/api/optimErrors.test.ts
        help: give momentum, such as 0.9"
    `)
    expect(messageOf(() => optim.adam({ learningRate: 0.1, beta2: 1.5 }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.adam: beta2 is 1.5
        at test/api/optimErrors.test.ts
        help: give a number of at least 0 and below 1"
    `)
    expect(messageOf(() => optim.adamw({ learningRate: 0.1, weightDecay: -0.1 }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.adamw: weightDecay is -0.1
        at test/api/optimErrors.test.ts
        help: give a number of at least 0"
    `)
    expect(messageOf(() => optim.clipByGlobalNorm(p, 0))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] clipByGlobalNorm: maxNorm is 0
        at test/api/optimErrors.test.ts
        help: give a positive number"
    `)
    expect(messageOf(() => optim.cosineDecay({ from: 1, steps: 0 }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.cosineDecay: steps is 0
        at test/api/optimErrors.test.ts
        help: give a whole number of at least 1"
    `)
    expect(messageOf(() => optim.piecewise([5, 5], [1, 2, 3]))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.piecewise: boundary 1 is 5, the one before 5
        at test/api/optimErrors.test.ts
        help: give boundaries in rising order"
    `)
    expect(messageOf(() => optim.piecewise([5], [1]))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] optim.piecewise: 1 pieces for 1 boundaries
        at test/api/optimErrors.test.ts
        help: give one piece more than boundaries"
    `)
    expect(
      messageOf(() => optim.sgd({ learningRate: () => s.ones([2]) }).update(p, { step: state.step }, p)),
    ).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] sgd: the schedule gives f32[2]
        at test/api/optimErrors.test.ts
        help: return a float scalar"
    `)
  })

  it('inside jit the message names the same call', () => {
    // @ts-expect-error a missing leaf
    expect(messageOf(() => jit(() => opt.update({ w: p.w }, state, p))())).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] adamw.update: gradients.b is missing, where params has a list of 2
        at test/api/optimErrors.test.ts
        help: pass the gradients of these parameters, as grad gives them"
    `)
  })
})
