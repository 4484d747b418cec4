/** Optimisers against plain numbers, schedules against their formulas, and trees. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { nightly } from '../support/nightly.ts'
import { numbers } from './tensors.ts'

const { grad, jit, optim, tensor } = s

interface Params {
  w: s.Tensor
  layers: [{ b: s.Tensor; note: string }, s.Tensor]
}

const shapes = [[3, 5], [7], []] as const
/** Deterministic values, some of them large, none equal. */
const values = (seed: number, n: number, scale = 1): number[] =>
  Array.from({ length: n }, (_, i) => scale * Math.sin(seed * 12.9898 + i * 78.233 + 0.5))
const sizes = [15, 7, 1]

function paramsOf(rows: readonly (readonly number[])[], dtype: s.FloatDType): Params {
  const [w, b, c] = rows.map((row, i) => tensor([...row], { dtype }).reshape(shapes[i] ?? []))
  if (w === undefined || b === undefined || c === undefined) throw new Error('three rows')
  return { w, layers: [{ b, note: 'static' }, c] }
}
const rowsOf = (p: Params): number[][] => [p.w, p.layers[0].b, p.layers[1]].map(numbers)

/** One parameter's update in plain numbers: the parameter, its gradient, the step from 1, and what it remembers. */
type Plain = (p: number, g: number, t: number, memory: number[]) => number

const rate = (t: number): number => 0.05 * 0.5 ** ((t - 1) / 3)
const schedule = optim.exponentialDecay({ from: 0.05, rate: 0.5, steps: 3 })

interface Case {
  readonly make: () => s.optim.Optimizer<never> | s.optim.Optimizer<'velocity'> | s.optim.Optimizer<'first' | 'second'>
  readonly plain: Plain
}

const momentum =
  (m: number, nesterov: boolean, decay: number): Plain =>
  (p, g0, _, memory) => {
    const g = g0 + decay * p
    const v = m * (memory[0] ?? 0) + g
    memory[0] = v
    return p - 0.1 * (nesterov ? g + m * v : v)
  }
const adam =
  (lr: (t: number) => number, b1: number, b2: number, epsilon: number, decay: number): Plain =>
  (p, g, t, memory) => {
    const m = b1 * (memory[0] ?? 0) + (1 - b1) * g
    const v = b2 * (memory[1] ?? 0) + (1 - b2) * g * g
    memory[0] = m
    memory[1] = v
    return p - lr(t) * (m / (1 - b1 ** t) / (Math.sqrt(v / (1 - b2 ** t)) + epsilon) + decay * p)
  }

const cases: Readonly<Record<string, Case>> = {
  'plain descent': { make: () => optim.sgd({ learningRate: 0.1 }), plain: (p, g) => p - 0.1 * g },
  'descent on a schedule, with decay': {
    make: () => optim.sgd({ learningRate: schedule, weightDecay: 0.02 }),
    plain: (p, g, t) => p - rate(t) * (g + 0.02 * p),
  },
  momentum: { make: () => optim.sgd({ learningRate: 0.1, momentum: 0.9 }), plain: momentum(0.9, false, 0) },
  'momentum with nesterov and decay': {
    make: () => optim.sgd({ learningRate: 0.1, momentum: 0.8, nesterov: true, weightDecay: 0.1 }),
    plain: momentum(0.8, true, 0.1),
  },
  adam: { make: () => optim.adam({ learningRate: 0.01 }), plain: adam(() => 0.01, 0.9, 0.999, 1e-8, 0) },
  'adam without memory': {
    make: () => optim.adam({ learningRate: 0.01, beta1: 0, beta2: 0, epsilon: 0.1 }),
    plain: (p, g) => p - (0.01 * g) / (Math.abs(g) + 0.1),
  },
  adamw: { make: () => optim.adamw({ learningRate: 0.01 }), plain: adam(() => 0.01, 0.9, 0.999, 1e-8, 0.01) },
  'adamw on a schedule': {
    make: () => optim.adamw({ learningRate: schedule, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weightDecay: 0.3 }),
    plain: adam(rate, 0.8, 0.95, 1e-6, 0.3),
  },
}

const steps = 6
const gradientRows = (t: number): number[][] => sizes.map((n, i) => values(100 * t + i, n, 10 ** (i - 1)))

/** Rows after all steps, in plain float64. */
function plainRun(plain: Plain, from: readonly (readonly number[])[]): number[][] {
  const memory = from.map((row) => row.map((): number[] => []))
  let rows = from.map((row) => [...row])
  for (let t = 1; t <= steps; t++) {
    const g = gradientRows(t)
    rows = rows.map((row, i) => row.map((p, k) => plain(p, g[i]?.[k] ?? Number.NaN, t, memory[i]?.[k] ?? [])))
  }
  return rows
}

function run<Slots extends string>(
  opt: s.optim.Optimizer<Slots>,
  from: readonly (readonly number[])[],
  dtype: s.FloatDType,
  how: 'lazy' | 'jit' | 'donated',
): { readonly rows: number[][]; readonly step: unknown } {
  const step = (g: Params, state: s.optim.OptimizerState<Slots, Params>, p: Params) => opt.update(g, state, p)
  const jitted = how === 'lazy' ? step : jit(step, how === 'donated' ? { donate: [1, 2] } : {})
  let params = paramsOf(from, dtype)
  let state = opt.init(params)
  for (let t = 1; t <= steps; t++) ({ params, state } = jitted(paramsOf(gradientRows(t), dtype), state, params))
  expect(params.layers[0].note).toBe('static')
  expect(params.w.dtype).toBe(dtype)
  return { rows: rowsOf(params), step: state.step.item() }
}

function expectClose(got: readonly number[][], want: readonly number[][], tolerance: number): void {
  expect(got.map((row) => row.length)).toEqual(want.map((row) => row.length))
  got.flat().forEach((v, i) => {
    const w = want.flat()[i] ?? Number.NaN
    expect(Math.abs(v - w)).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(w)))
  })
}

const start = sizes.map((n, i) => values(i + 1, n, 2))
const f32 = (rows: readonly (readonly number[])[]): number[][] => rows.map((row) => row.map(Math.fround))

describe.each(['wasm', 'reference'] as const)('optimisers on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  // By day those with something to them on WebAssembly, and two others on the reference device.
  const own = Object.entries(cases).filter((_, i) => nightly || (device === 'wasm' ? i % 2 === 1 : i % 4 === 0))
  describe.each(own)('%s', (name, { make, plain }) => {
    const opt = make() as s.optim.Optimizer<string>
    // A schedule is f32.
    const exact = name.includes('schedule') ? 1e-7 : 1e-12

    it('f64 as plain numbers: lazy, jitted, donated', () => {
      const want = plainRun(plain, start)
      for (const how of ['lazy', 'jit', 'donated'] as const) {
        const got = run(opt, start, 'f64', how)
        expectClose(got.rows, want, exact)
        expect(got.step).toBe(steps)
      }
    })

    it('f32 as plain numbers: lazy, jitted, donated', () => {
      const want = plainRun(plain, f32(start))
      for (const how of ['lazy', 'jit', 'donated'] as const) expectClose(run(opt, start, 'f32', how).rows, want, 3e-6)
    })

    it.each(['f16', 'bf16'] as const)('%s parameters keep their state in f32', (dtype) => {
      const rounded = rowsOf(paramsOf(start, dtype))
      const state = opt.init(paramsOf(start, dtype))
      const { step, ...slots } = state
      expect(step.dtype).toBe('i32')
      for (const slot of Object.values(slots)) expect(slot.w.dtype).toBe('f32')
      const after = opt.update(paramsOf(gradientRows(1), dtype), state, paramsOf(start, dtype))
      expect(after.params.w.dtype).toBe(dtype)
      // One step: the exact result, rounded once.
      const g = rowsOf(paramsOf(gradientRows(1), dtype))
      const want = rounded.map((row, i) => row.map((p, k) => plain(p, g[i]?.[k] ?? 0, 1, [])))
      expectClose(rowsOf(after.params), want, dtype === 'f16' ? 2 ** -11 : 2 ** -8)
      // Gradients in f32 serve as well, and the next state is f32 again.
      const again = opt.update(paramsOf(gradientRows(2), 'f32'), after.state, after.params)
      for (const slot of Object.values({ ...again.state, step: after.state.step })) {
        const tensors = s.tree.leaves(slot)
        expect(tensors.every((t) => t.dtype === 'f32' || t.dtype === 'i32')).toBe(true)
      }
    })
  })

  it('bias correction keeps its digits at the first step', () => {
    // m / (1 - b1) / sqrt(v / (1 - b2)) is the sign of the gradient.
    const p = tensor([1, 1])
    const opt = optim.adam({ learningRate: 0.5, epsilon: 1e-30 })
    const { params } = opt.update(tensor([3e-3, -700]), opt.init(p), p)
    expectClose([numbers(params)], [[0.5, 1.5]], 2e-7)
  })

  it('decays only what the mask names', () => {
    const seen: string[] = []
    const opt = optim.adamw({
      learningRate: 0.1,
      weightDecay: 0.5,
      decays: (leaf, path) => {
        seen.push(path)
        return leaf.rank > 1
      },
    })
    const p = paramsOf(start, 'f64')
    const none = s.tree.map((x) => s.zerosLike(x), p)
    const { params } = opt.update(none, opt.init(p), p)
    expect(seen).toEqual(['params.w', 'params.layers[0].b', 'params.layers[1]'])
    expectClose(
      rowsOf(params),
      start.map((row, i) => (i === 0 ? row.map((v) => 0.95 * v) : row)),
      1e-12,
    )
  })

  it('trains inside one jitted step with everything donated', () => {
    const x = s.random.normal(s.random.key(3), [64, 5])
    const truth = tensor([[1], [-2], [0.5], [0], [3]])
    const y = x.matmul(truth).evaluate()
    const loss = (p: { w: s.Tensor; b: s.Tensor }): s.Tensor => x.matmul(p.w).add(p.b).sub(y).square().mean()
    const opt = optim.adam({ learningRate: optim.linearWarmup(10, optim.cosineDecay({ from: 0.4, steps: 50 })) })
    type P = Parameters<typeof loss>[0]
    type S = ReturnType<typeof opt.init<P>>
    const step = jit(
      (p: P, state: S) => {
        const [value, g] = s.valueAndGrad(loss)(p)
        return { value, ...opt.update(optim.clipByGlobalNorm(g, 5), state, p) }
      },
      { donate: [0, 1] },
    )
    let params: P = { w: s.zeros([5, 1]), b: s.zeros([1]) }
    let state: S = opt.init(params)
    const [first, kept] = [params.w, state]
    let value = Number.POSITIVE_INFINITY
    for (let i = 0; i < 60; i++) {
      const next = step(params, state)
      ;({ params, state } = next)
      value = Number(next.value.item())
    }
    expect(value).toBeLessThan(0.5)
    expect(state.step.item()).toBe(60)
    expect(first.disposed && kept.first.w.disposed).toBe(true)
  })

  it('vmap trains several at once', () => {
    const opt = optim.sgd({ learningRate: 0.1, momentum: 0.9 })
    const p = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
    ])
    const one = (x: s.Tensor, v: s.Tensor) =>
      opt.update(grad((y: s.Tensor) => y.square().sum())(x), { step: s.zeros([], 'i32'), velocity: v }, x).params
    expectClose([numbers(s.vmap(one)(p, s.zerosLike(p)))], [[0.8, 1.6, 2.4, 3.2, 4, 4.8]], 1e-6)
  })

  it('the global norm, and clipping by it', () => {
    const p = paramsOf(start, 'f64')
    const norm = Math.hypot(...start.flat())
    expect(Number(optim.globalNorm(p).item())).toBeCloseTo(norm, 12)
    expectClose(
      rowsOf(optim.clipByGlobalNorm(p, norm / 4)),
      start.map((row) => row.map((v) => v / 4)),
      1e-12,
    )
    expectClose(
      rowsOf(jit((t: Params) => optim.clipByGlobalNorm(t, norm / 4))(p)),
      start.map((row) => row.map((v) => v / 4)),
      1e-12,
    )
    // Below the bound nothing changes, not even a bit; a norm of 0 is below every bound.
    expect(rowsOf(optim.clipByGlobalNorm(paramsOf(start, 'f32'), 2 * norm))).toEqual(f32(start))
    expect(numbers(optim.clipByGlobalNorm(s.zeros([3]), 1))).toEqual([0, 0, 0])
    expect(optim.globalNorm([]).item()).toBe(0)
    // Half precision sums in f32: 300^2 is beyond f16.
    const half = s.full([4], 300, 'f16')
    expect(optim.globalNorm(half).item()).toBe(600)
    expect(numbers(optim.clipByGlobalNorm(half, 60))).toEqual([30, 30, 30, 30])
    expect(numbers(optim.clipByGlobalNorm(tensor([1, Number.NaN]), 1))).toEqual([Number.NaN, Number.NaN])
  })

  it('schedules as their formulas', () => {
    const at: readonly number[] = [0, 1, 2, 3, 7, 9, 10, 11, 19, 20, 25, 1000]
    const cosine = (t: number): number => 0.1 + 0.45 * (1 + Math.cos((Math.PI * Math.min(t, 10)) / 10))
    const table: readonly [s.optim.Schedule, (t: number) => number][] = [
      [optim.constant(0.3), () => 0.3],
      [optim.linear({ from: 1, to: 0.2, steps: 10 }), (t) => 1 - 0.08 * Math.min(t, 10)],
      [optim.cosineDecay({ from: 1, to: 0.1, steps: 10 }), cosine],
      [optim.cosineDecay({ from: 2, steps: 20 }), (t) => 1 + Math.cos((Math.PI * Math.min(t, 20)) / 20)],
      [optim.exponentialDecay({ from: 2, rate: 0.9, steps: 5 }), (t) => 2 * 0.9 ** (t / 5)],
      [optim.stepDecay({ from: 2, rate: 0.5, every: 10 }), (t) => 2 * 0.5 ** Math.floor(t / 10)],
      [optim.linearWarmup(10, 0.4), (t) => 0.04 * Math.min(t + 1, 10)],
      [
        optim.linearWarmup(3, optim.cosineDecay({ from: 1, to: 0.1, steps: 10 })),
        (t) => (t < 3 ? (t + 1) / 3 : cosine(t - 3)),
      ],
      [optim.piecewise([3, 10], [1, 0.5, 0.1]), (t) => (t < 3 ? 1 : t < 10 ? 0.5 : 0.1)],
      [
        optim.piecewise([9], [0.2, optim.linear({ from: 1, to: 0, steps: 10 })]),
        (t) => (t < 9 ? 0.2 : 1 - Math.min(t - 9, 10) / 10),
      ],
    ]
    for (const [schedule, formula] of table) {
      const jitted = jit(schedule)
      for (const t of at) {
        const step = tensor(t, { dtype: 'i32' })
        const want = formula(t)
        expect(schedule(step).dtype).toBe('f32')
        expect(Math.abs(Number(schedule(step).item()) - want)).toBeLessThanOrEqual(4e-6 * Math.max(want, 0.05))
        expect(Math.abs(Number(jitted(step).item()) - want)).toBeLessThanOrEqual(4e-6 * Math.max(want, 0.05))
        expect(Number(schedule(tensor(t, { dtype: 'f64' })).item())).toBeCloseTo(want, 12)
      }
    }
  })
})

describe('trees', () => {
  const p = paramsOf(start, 'f32')
  it('map and leaves', () => {
    const doubled = s.tree.map((x) => x.mul(2), p)
    expectTypeOf(doubled).toEqualTypeOf<Params>()
    expect(rowsOf(doubled)).toEqual(f32(start).map((row) => row.map((v) => 2 * v)))
    const sum = s.tree.map((a, b) => a.add(b ?? 0), p, { layers: p.layers, w: p.w })
    expect(rowsOf(sum)).toEqual(rowsOf(doubled))
    const ranks = s.tree.map((x) => x.rank, p)
    expectTypeOf(ranks.layers[1]).toEqualTypeOf<number>()
    expect(ranks).toEqual({ w: 2, layers: [{ b: 1, note: 'static' }, 0] })
    expect(s.tree.leaves(p)).toEqual([p.w, p.layers[0].b, p.layers[1]])
  })
  it('the types of state follow the parameters', () => {
    const opt = optim.adam({ learningRate: 0.1 })
    const state = opt.init(p)
    expectTypeOf(state.first).toEqualTypeOf<Params>()
    expectTypeOf(opt.update(p, state, p).params).toEqualTypeOf<Params>()
    expectTypeOf(optim.sgd({ learningRate: 1, momentum: 0.5 }).init(p).velocity).toEqualTypeOf<Params>()
    // @ts-expect-error plain descent has no velocity
    expect(optim.sgd({ learningRate: 1 }).init(p).velocity).toBeUndefined()
  })
})
