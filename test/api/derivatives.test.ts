/** Derivatives as users call them: compiled, in float64, against differences and the reference device. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { nightly } from '../support/nightly.ts'
import { f64, numbers } from './tensors.ts'

const { grad, jit, tensor, valueAndGrad } = s

function expectClose(got: readonly number[], want: readonly number[], tolerance: number): void {
  expect(got.length).toBe(want.length)
  got.forEach((v, i) => {
    expect(Math.abs(v - (want[i] ?? Number.NaN))).toBeLessThan(tolerance * Math.max(1, Math.abs(v)))
  })
}

/** Central differences of a loss in each element of x. */
function differences(f: (x: s.Tensor) => s.Tensor, x: s.Tensor, step = 1e-5): number[] {
  const at = numbers(x)
  return at.map((_, i) => {
    const moved = (by: number): number =>
      Number(
        f(
          tensor(
            Float64Array.from(at, (v, k) => (k === i ? v + by : v)),
            { shape: x.shape },
          ),
        ).item(),
      )
    return (moved(step) - moved(-step)) / (2 * step)
  })
}

const x = f64([
  [0.3, -1.2, 0.7],
  [1.1, 0.4, -0.6],
])
const w = f64([
  [0.5, -0.4],
  [0.1, 0.9],
  [-0.7, 0.2],
])

const losses: Readonly<Record<string, (v: s.Tensor) => s.Tensor>> = {
  'tanh of a product': (v) => s.tanh(v.matmul(w)).sum(),
  'softmax and logsumexp': (v) => s.softmax(v).mul(v).sum().add(s.logsumexp(v)),
  'normalised rows': (v) => s.layerNorm(v).pow(3).sum(),
  'rows gathered twice': (v) =>
    s
      .take(v, tensor([1, 0, 1], { dtype: 'i32' }))
      .exp()
      .mean(),
  'a maximum and a running sum': (v) =>
    s
      .cumsum(v, 1)
      .mul(s.max(v, 1, true))
      .sum(),
  'a convolution': (v) => s.square(s.conv(v.reshape([1, 1, 2, 3]), f64([[[[0.5, -1]]]]))).sum(),
}

describe.each(['wasm', 'reference'] as const)('gradients on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  // By day each on one of the devices.
  const own = Object.entries(losses).filter((_, i) => nightly || i % 2 === (device === 'wasm' ? 0 : 1))
  it.each(own)('%s: lazy, jitted, forward and by differences', (_, f) => {
    const want = differences(f, x)
    const lazy = grad(f)(x)
    expect(lazy.shape).toEqual(x.shape)
    expect(lazy.dtype).toBe('f64')
    expectClose(numbers(lazy), want, 1e-7)
    expectClose(numbers(jit(grad(f))(x)), want, 1e-7)
    expectClose(numbers(s.jacfwd(f)(x)), want, 1e-7)
  })

  it('second derivatives: grad of grad, hessian, forward over reverse', () => {
    const f = (v: s.Tensor): s.Tensor => s.sin(v).mul(v.slice(0)).sum()
    const v = f64([0.4, -0.9, 1.3])
    const column = (i: number) => (u: s.Tensor) => grad(f)(u).slice(i)
    const want = [0, 1, 2].flatMap((i) => differences(column(i), v))
    const rows = [0, 1, 2].flatMap((i) => numbers(grad(column(i))(v)))
    const h = s.hessian(f)(v)
    expect(h.shape).toEqual([3, 3])
    expectClose(rows, want, 1e-7)
    expectClose(numbers(h), want, 1e-7)
    expectClose(numbers(jit(s.jacrev(grad(f)))(v)), want, 1e-7)
    expectClose(numbers(jit(s.hessian(f))(v)), want, 1e-7)
    const [, along] = s.jvp(grad(f), [v], [f64([0, 1, 0])])
    expectClose(numbers(along), want.slice(3, 6), 1e-7)
  })

  it('third derivatives of a scalar function', () => {
    const f = (v: s.Tensor): s.Tensor => s.exp(v.mul(2))
    expect(grad(grad(grad(f)))(f64(0.5)).item()).toBeCloseTo(8 * Math.E, 9)
    expect(jit(grad(grad(jit(grad(f)))))(f64(0.5)).item()).toBeCloseTo(8 * Math.E, 9)
  })

  it('closes over variables of an outer derivative', () => {
    // d/da [a^2 d/db (a^2 b^3)] = d/da 3 a^4 b^2 = 12 a^3 b^2
    const f = grad((a: s.Tensor) => {
      const scale = a.mul(a)
      return grad((b: s.Tensor) => scale.mul(b.pow(3)))(f64(1.5)).mul(scale)
    })
    const want = 12 * 8 * 1.5 ** 2
    expect(f(f64(2)).item()).toBeCloseTo(want, 9)
    expect(jit(f)(f64(2)).item()).toBeCloseTo(want, 9)
    // Forward mode and the pullback of an inner function both see the outer variable.
    const g = grad((a: s.Tensor) => s.jvp((b: s.Tensor) => b.mul(b).mul(a), [a], [f64(1)])[1])
    expect(g(f64(3)).item()).toBeCloseTo(12, 9)
    const h = grad((a: s.Tensor) => {
      const [, pull] = s.vjp((b: s.Tensor) => s.sin(b).mul(a), a)
      return pull(a)[0]
    })
    // d/da a^2 cos a
    expect(h(f64(0.7)).item()).toBeCloseTo(1.4 * Math.cos(0.7) - 0.49 * Math.sin(0.7), 9)
  })

  it('forward, reverse and linearised derivatives agree', () => {
    const f = (p: { w: s.Tensor; b: [s.Tensor] }, v: s.Tensor) => ({ y: s.tanh(v.matmul(p.w).add(p.b[0])), n: 3 })
    const p: Parameters<typeof f>[0] = { w, b: [f64([0.1, -0.2])] }
    const dp: typeof p = { w: w.mul(0.5).add(1), b: [f64([1, 2])] }
    const [value, tangent] = s.jvp(f, [p, x], [dp, null])
    expectTypeOf(tangent).toEqualTypeOf<{ y: s.Tensor; n: number }>()
    expect(tangent.n).toBe(3)
    const [same, push] = s.linearize(f, p, x)
    expectClose(numbers(same.y), numbers(value.y), 1e-12)
    for (const k of [1, 2, 3])
      expectClose(numbers(push({ w: dp.w.mul(k), b: [dp.b[0].mul(k)] }, null).y), numbers(tangent.y.mul(k)), 1e-12)
    const [, pull] = s.vjp(f, p, x)
    const cotangent = f64([
      [1, -2],
      [0.5, 3],
    ])
    const [gp, gx] = pull({ y: cotangent, n: null })
    expectTypeOf(gp).toEqualTypeOf<{ w: s.Tensor; b: [s.Tensor] }>()
    expect(gx.shape).toEqual(x.shape)
    const left = gp.w.mul(dp.w).sum().add(gp.b[0].mul(dp.b[0]).sum())
    expect(left.item()).toBeCloseTo(Number(cotangent.mul(tangent.y).sum().item()), 10)
    expect(numbers(pull({ y: null, n: null })[0].w)).toEqual([0, 0, 0, 0, 0, 0])
  })

  it('Jacobians of trees in trees, both ways', () => {
    const f = (a: { u: s.Tensor; v: s.Tensor }, k: s.Tensor) =>
      [s.exp(a.u).mul(k), a.v.sum().mul(a.u.slice(1))] as const
    const a = { u: f64([0.2, 0.5]), v: f64([[1, 2, 3]]) }
    const k = f64([2, -1])
    const forward = s.jacfwd(f)(a, k)
    const reverse = jit(s.jacrev(f))(a, k)
    expectTypeOf(forward).toExtend<[{ u: s.Tensor; v: s.Tensor }, { u: s.Tensor; v: s.Tensor }]>()
    const [e0, e1] = [2 * Math.exp(0.2), -Math.exp(0.5)]
    for (const j of [forward, reverse]) {
      expect([j[0].u.shape, j[0].v.shape, j[1].u.shape, j[1].v.shape]).toEqual([[2, 2], [2, 1, 3], [2], [1, 3]])
      expectClose(numbers(j[0].u), [e0, 0, 0, e1], 1e-12)
      expectClose(numbers(j[0].v), [0, 0, 0, 0, 0, 0], 1e-12)
      expectClose(numbers(j[1].u), [0, 6], 1e-12)
      expectClose(numbers(j[1].v), [0.5, 0.5, 0.5], 1e-12)
    }
    const [[inK, inA]] = s.jacrev(f, { argnums: [1, 0] })(a, k)
    expectClose(numbers(inK), [Math.exp(0.2), 0, 0, Math.exp(0.5)], 1e-12)
    expectClose(numbers(inA.u), [e0, 0, 0, e1], 1e-12)
  })

  it('argnums, trees, static values and aux', () => {
    const f = (p: { w: s.Tensor[]; name: string }, v: s.Tensor, k: number) => {
      const loss = p.w.reduce((sum, u) => sum.add(u.mul(v).sum()), f64(0)).mul(k)
      return [loss, { twice: loss.mul(2), name: p.name, seen: s.isfinite(v) }] as [
        s.Tensor,
        { twice: s.Tensor; name: string; seen: s.Tensor },
      ]
    }
    const p = { w: [f64([1, 2]), f64([3, 4])], name: 'p' }
    const v = f64([5, 6])
    const [[loss, aux], [gv, gp]] = valueAndGrad(f, { argnums: [1, 0], hasAux: true })(p, v, 10)
    expectTypeOf(gp).toEqualTypeOf<{ w: s.Tensor[]; name: string }>()
    expect(loss.item()).toBe(560)
    expect(aux.twice.item()).toBe(1120)
    expect(aux.name).toBe('p')
    expect(aux.seen.tolist()).toEqual([true, true])
    expect(gv.tolist()).toEqual([40, 60])
    expect(gp.w.map((u) => u.tolist())).toEqual([
      [50, 60],
      [50, 60],
    ])
    expect(gp.name).toBe('p')
    const [g, again] = jit(grad(f, { argnums: 1, hasAux: true }))(p, v, 10)
    expect(g.tolist()).toEqual([40, 60])
    expect(again.twice.item()).toBe(1120)
  })

  it('stopGradient, and integers beside floats', () => {
    const v = f64([1, 2])
    expect(grad((u: s.Tensor) => u.mul(s.stopGradient({ u }).u).sum())(v).tolist()).toEqual([1, 2])
    const i = tensor([1, 0], { dtype: 'i32' })
    const f = (u: s.Tensor, k: s.Tensor) => [s.take(u, k), k.add(1)] as const
    const [value, tangent] = s.jvp(f, [v, i], [f64([10, 20]), null])
    expect(value.map((t) => t.tolist())).toEqual([
      [2, 1],
      [2, 1],
    ])
    expect(tangent.map((t) => [t.dtype, t.tolist()])).toEqual([
      ['f64', [20, 10]],
      ['i32', [0, 0]],
    ])
    const [, pull] = s.vjp(f, v, i)
    expect(pull([f64([1, 5]), null]).map((t) => [t.dtype, t.tolist()])).toEqual([
      ['f64', [5, 1]],
      ['i32', [0, 0]],
    ])
  })

  it('effects run once, in order, lazily and jitted', () => {
    const seen: string[] = []
    const note = (name: string) => (data: s.HostArray) => {
      seen.push(`${name} ${Array.from<unknown>(data).join()}`)
    }
    const f = (v: s.Tensor): s.Tensor => {
      s.inspect(v, note('in'))
      return s.inspect(v.mul(v), note('out')).sum()
    }
    expect(grad(f)(f64([2, 3])).tolist()).toEqual([4, 6])
    expect(seen).toEqual(['in 2,3', 'out 4,9'])
    const g = jit((v: s.Tensor) => {
      s.inspect(v.add(0.5), note('before'))
      const d = grad(f)(v)
      s.inspect(d, note('after'))
      return d
    })
    seen.length = 0
    g(f64([1]))
    expect(seen).toEqual(['before 1.5', 'in 1', 'out 1', 'after 2'])
  })
})

describe('one kernel', () => {
  beforeAll(() => chooseDevice('wasm', { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  it('grad of sum(tanh(a*x+b)) in x, a and b', () => {
    const f = (u: s.Tensor, a: s.Tensor, b: s.Tensor): s.Tensor => s.tanh(a.mul(u).add(b)).sum()
    const g = jit(grad(f, { argnums: [0, 1, 2] }))
    const like = s.spec([1000])
    expect(g.explain(like, like, like).totals.kernels).toBe(1)
    // Sums over what a and b were repeated along ride with it.
    expect(g.explain(like, s.spec([]), s.spec([])).totals.kernels).toBe(1)
    expect(g.explain(s.spec([100, 64]), s.spec([64]), s.spec([64])).totals.kernels).toBe(1)
    expect(jit(s.vmap(grad((u: s.Tensor) => s.tanh(u).sum()))).explain(s.spec([8, 40])).totals.kernels).toBe(1)
    const [u, a, b] = [s.linspace(-1, 1, 5), s.linspace(0, 2, 5), s.linspace(1, 0, 5)]
    const slope = (i: number): number => 1 - Math.tanh(0.5 * i * (0.5 * i - 1) + 1 - 0.25 * i) ** 2
    const [du, da, db] = g(u, a, b)
    const each = [0, 1, 2, 3, 4]
    expectClose(
      numbers(du),
      each.map((i) => slope(i) * 0.5 * i),
      1e-5,
    )
    expectClose(
      numbers(da),
      each.map((i) => slope(i) * (0.5 * i - 1)),
      1e-5,
    )
    expectClose(numbers(db), each.map(slope), 1e-5)
  })
})

describe('outside jit', () => {
  beforeAll(() => chooseDevice('wasm', { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  it('a gradient of many nodes is evaluated at once, and equals the jitted one', () => {
    const deep = (v: s.Tensor): s.Tensor => {
      let y = v
      for (let i = 0; i < (nightly ? 150 : 30); i++) y = s.sin(y).add(v.mul(0.01))
      return y.sum()
    }
    const v = s.linspace(0.1, 1, 5).astype('f64')
    const lazy = valueAndGrad(deep)(v)
    const jitted = jit(valueAndGrad(deep))(v)
    expectClose(numbers(lazy[0]), numbers(jitted[0]), 1e-12)
    expectClose(numbers(lazy[1]), numbers(jitted[1]), 1e-12)
  })
  it('steps in a scope keep memory level', () => {
    let v = s.ones([1000]).evaluate()
    let before = 0
    for (let i = 0; i < 30; i++) {
      const next = s.tidy(() => v.sub(grad((u: s.Tensor) => s.tanh(u).sum())(v).mul(0.1)))
      v.dispose()
      v = next
      if (i === 10) before = s.memory().used
    }
    expect(s.memory().used).toBe(before)
  })
  it('a pullback serves many times, also when the value is gone', () => {
    const v = f64([0.5, 2])
    const [value, pull] = s.vjp((u: s.Tensor) => s.exp(u).mul(u), v)
    value.dispose()
    const slope = [0.5, 2].map((a) => Math.exp(a) * (1 + a))
    for (const k of [1, 2, 3])
      expectClose(
        numbers(pull(f64([k, k]))[0]),
        slope.map((a) => a * k),
        1e-12,
      )
  })
  it('what it closes over is read at the call', () => {
    const factor = f64([1, 2])
    const g = grad((u: s.Tensor) => u.mul(factor).sum())
    expect(g(f64([1, 1])).tolist()).toEqual([1, 2])
    factor.dispose()
    expect(() => g(f64([1, 1]))).toThrow(/E_DISPOSED/)
  })
})

describe('training', () => {
  beforeAll(() => chooseDevice('wasm', { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  it('an MLP learns XOR with plain SGD to a loss below 0.01', () => {
    const inputs = tensor([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ])
    const targets = tensor([[0], [1], [1], [0]])
    type Params = { w1: s.Tensor; b1: s.Tensor; w2: s.Tensor; b2: s.Tensor }
    const predict = (p: Params, v: s.Tensor): s.Tensor =>
      s.sigmoid(s.tanh(v.matmul(p.w1).add(p.b1)).matmul(p.w2).add(p.b2))
    const loss = (p: Params, v: s.Tensor, y: s.Tensor): s.Tensor => s.mean(s.square(predict(p, v).sub(y)))
    const step = jit(
      (p: Params, v: s.Tensor, y: s.Tensor): [Params, s.Tensor] => {
        const [value, g] = valueAndGrad(loss)(p, v, y)
        const move = (a: s.Tensor, d: s.Tensor): s.Tensor => a.sub(d.mul(2))
        return [{ w1: move(p.w1, g.w1), b1: move(p.b1, g.b1), w2: move(p.w2, g.w2), b2: move(p.b2, g.b2) }, value]
      },
      { donate: [0] },
    )
    let params: Params = {
      w1: s.random.normal(s.random.key(1), [2, 8]),
      b1: s.zeros([8]),
      w2: s.random.normal(s.random.key(2), [8, 1]),
      b2: s.zeros([1]),
    }
    const values: number[] = []
    let before = 0
    for (let i = 0; i < 500; i++) {
      const [next, value] = step(params, inputs, targets)
      params = next
      values.push(Number(value.item()))
      value.dispose()
      if (i === 100) before = s.memory().used
    }
    expect(s.memory().used).toBe(before)
    expect(values[0]).toBeGreaterThan(0.1)
    expect(values.at(-1)).toBeLessThan(0.01)
    expect(numbers(s.round(predict(params, inputs)))).toEqual([0, 1, 1, 0])
  })
})
