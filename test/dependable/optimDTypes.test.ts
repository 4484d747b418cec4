/**
 * Issue: siblings of "sums keep their operand's dtype": a parameter has the same dtype after a step as before, whatever the optimiser, the rate
 * and the gradients' dtype; the state has the dtype that the step computes in. Sites: `optimizer` (src/api/optim/optimizer.ts), which casts for
 * all rules alike, `rateAt` for schedules of other dtypes, the rules of sgd.ts and adam.ts, clip.ts.
 */
import { beforeEach, describe, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { turn } from '../support/nightly.ts'

const dtypes = ['f16', 'bf16', 'f32', 'f64'] as const
type Float = (typeof dtypes)[number]
/** What a step computes in, and the unit that a parameter near 1 is rounded by. */
const computes = { f16: 'f32', bf16: 'f32', f32: 'f32', f64: 'f64' } as const satisfies Record<Float, s.DType>
const unit = { f16: 2 ** -10, bf16: 2 ** -7, f32: 2 ** -23, f64: 1e-7 }

const rates: Readonly<Record<string, s.optim.LearningRate>> = {
  number: 0.25,
  'schedule of f32': (step) => step.astype('f32').mul(0).add(0.25),
  'schedule of f64': (step) => step.astype('f64').mul(0).add(0.25),
  'schedule of f16': (step) => step.astype('f16').mul(0).add(0.25),
}
const optimisers = {
  sgd: (learningRate: s.optim.LearningRate) => s.optim.sgd({ learningRate, weightDecay: 0.5 }),
  momentum: (learningRate: s.optim.LearningRate) => s.optim.sgd({ learningRate, momentum: 0.5 }),
  nesterov: (learningRate: s.optim.LearningRate) => s.optim.sgd({ learningRate, momentum: 0.5, nesterov: true }),
  adam: (learningRate: s.optim.LearningRate) => s.optim.adam({ learningRate }),
  adamw: (learningRate: s.optim.LearningRate) => s.optim.adamw({ learningRate, weightDecay: 0.5 }),
} as const

type Params = Record<Float, s.Tensor>
const record = (make: (dtype: Float) => s.Tensor): Params => ({
  f16: make('f16'),
  bf16: make('bf16'),
  f32: make('f32'),
  f64: make('f64'),
})
const shapeOfTree = (tree: object): unknown =>
  Object.fromEntries(
    Object.entries(tree).map(([key, x]) => [key, x instanceof s.Tensor ? [x.dtype, ...x.shape] : shapeOfTree(x)]),
  )

beforeEach(() => {
  s.setDevice('wasm', { threads: 1 })
})

describe.each(Object.keys(optimisers) as (keyof typeof optimisers)[])('%s', (name) => {
  // By day each optimiser at one kind of rate, in turn.
  const rateNames = turn(Object.keys(rates), Object.keys(optimisers).indexOf(name))
  test.each(rateNames)('three steps at a rate that is a %s', (rate) => {
    const { init, update } = optimisers[name](rates[rate] ?? 0)
    for (const given of ['own', 'computed'] as const) {
      let params = record((dtype) => s.full([2, 3], 1, dtype))
      let state = init<Params>(params)
      const [first, kept] = [shapeOfTree(params), shapeOfTree(state)]
      const step = s.jit((g: Params, st: typeof state, p: Params) => update(g, st, p))
      for (let i = 0; i < 3; i++) {
        const gradients = record((dtype) => s.full([2, 3], 0.5, given === 'own' ? dtype : computes[dtype]))
        const next = i === 0 ? update(gradients, state, params) : step(gradients, state, params)
        params = next.params
        state = next.state
        expect(shapeOfTree(params)).toEqual(first)
        expect(shapeOfTree(state)).toEqual(kept)
      }
      // All of them took the step of the widest, but for rounding three times.
      const want = Number(params.f64.dataSync()[0])
      expect(want).toBeLessThan(0.95)
      for (const dtype of dtypes)
        for (const x of params[dtype].astype('f64').dataSync())
          expect(Math.abs(Number(x) - want)).toBeLessThanOrEqual(3 * unit[dtype])
    }
  })
})

test('gradients that are clipped keep theirs', () => {
  const gradients = record((dtype) => s.full([2, 3], 5, dtype))
  expect(shapeOfTree(s.optim.clipByGlobalNorm(gradients, 1))).toEqual(shapeOfTree(gradients))
})
