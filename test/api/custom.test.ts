/** Functions with derivative rules of their own, compiled, in float64: values, orders, batches, closures. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { messageOf } from './messages.ts'
import { cube, sine, x, xs } from './ruled.ts'
import { f64, numbers } from './tensors.ts'

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const expectClose = (got: s.Tensor, want: readonly number[]): void => {
  expect(got.size).toBe(want.length)
  numbers(got).forEach((v, i) => {
    expect(v).toBeCloseTo(want[i] ?? Number.NaN, 10)
  })
}
const total = (f: (v: s.Tensor) => s.Tensor) => (v: s.Tensor) => f(v).sum()

describe('customJvp', () => {
  it('has the value of the function and the derivative of the rule, forward and reverse', () => {
    expectClose(sine(x), xs.map(Math.sin))
    expectClose(s.jit(sine)(x), xs.map(Math.sin))
    const want = xs.map((v) => 2 * Math.cos(v))
    expectClose(s.jvp(sine, [x], [s.onesLike(x)])[1], want)
    expectClose(s.grad(total(sine))(x), want)
    expectClose(s.jit(s.grad(total(sine)))(x), want)
    const [, pull] = s.vjp(sine, x)
    expectClose(pull(s.onesLike(x))[0], want)
    expectClose(s.linearize(sine, x)[1](s.onesLike(x)), want)
  })
  it('differentiates the rule for higher orders', () => {
    const want = xs.map((v) => -2 * Math.sin(v))
    expectClose(s.grad(total(s.grad(total(sine))))(x), want)
    expectClose(s.jvp(s.grad(total(sine)), [x], [s.onesLike(x)])[1], want)
    const own: (v: s.Tensor) => s.Tensor = s.customJvp(
      (v: s.Tensor) => s.exp(v),
      ([v], [t]) => [own(v), own(v).mul(t).mul(3)],
    )
    const third = s.grad(total(s.grad(total(s.grad(total(own))))))
    expectClose(
      third(x),
      xs.map((v) => 27 * Math.exp(v)),
    )
    expectClose(
      s.jit(third)(x),
      xs.map((v) => 27 * Math.exp(v)),
    )
    const rows = s.stack([x, x.mul(2)])
    expectClose(
      s.vmap(s.grad(total(s.grad(total(own)))))(rows),
      numbers(rows).map((v) => 9 * Math.exp(v)),
    )
  })
  it('batches, inside and outside of derivatives, over one argument of several', () => {
    const scaled = s.customJvp(
      (a: s.Tensor, b: s.Tensor) => a.mul(b),
      ([a, b], [ta, tb]) => [a.mul(b), ta.mul(b).add(a.mul(tb)).mul(10)],
    )
    const rows = s.stack([x, x.mul(2)])
    const loss = (a: s.Tensor, b: s.Tensor): s.Tensor => scaled(a, b).sum()
    expectClose(
      s.vmap(scaled, { inAxes: [0, null] })(rows, x),
      numbers(rows).map((v, i) => v * (xs[i % 3] ?? 0)),
    )
    const both = s.grad(loss, { argnums: [0, 1] })
    const [da, db] = s.vmap(both, { inAxes: [0, null] })(rows, x)
    expectClose(
      da,
      [...xs, ...xs].map((v) => 10 * v),
    )
    expectClose(
      db,
      numbers(rows).map((v) => 10 * v),
    )
    const whole = s.grad((b: s.Tensor) =>
      s
        .vmap(scaled, { inAxes: [0, null] })(rows, b)
        .sum(),
    )
    expectClose(
      whole(x),
      xs.map((v) => 30 * v),
    )
  })
  it('takes and gives trees; integers have no tangents, null stands for zeros', () => {
    const pick = s.customJvp(
      (p: { readonly w: s.Tensor; readonly at: s.Tensor }, scale: number) => ({
        chosen: s.take(p.w, p.at).mul(scale),
        at: p.at,
        unused: p.w.mul(5),
      }),
      ([p, scale], [t]) => {
        expectTypeOf(t).toEqualTypeOf<{ readonly w: s.Tensor; readonly at: s.Tensor }>()
        expect(t.at.dtype).toBe('i32')
        const value = { chosen: s.take(p.w, p.at).mul(scale), at: p.at, unused: p.w.mul(5) }
        return [value, { chosen: s.take(t.w, p.at).mul(scale * 7), at: null, unused: null }]
      },
    )
    expectTypeOf(pick).returns.toEqualTypeOf<{ chosen: s.Tensor; at: s.Tensor; unused: s.Tensor }>()
    const at = s.tensor([2, 0], { dtype: 'i32' })
    const loss = (w: s.Tensor): s.Tensor => {
      const y = pick({ w, at }, 3)
      return y.chosen.sum().add(y.unused.sum())
    }
    expectClose(s.grad(loss)(x), [21, 0, 21])
  })
})

describe('customVjp', () => {
  it('has the value of the function and the gradient of the rule', () => {
    const want = xs.map((v) => 9 * v * v)
    expectClose(
      cube(x),
      xs.map((v) => v ** 3),
    )
    expectClose(s.grad(total(cube))(x), want)
    expectClose(s.jit(s.grad(total(cube)))(x), want)
    expectClose(s.vjp(cube, x)[1](s.onesLike(x))[0], want)
    expectClose(s.jacrev(cube)(x), [want[0] ?? 0, 0, 0, 0, want[1] ?? 0, 0, 0, 0, want[2] ?? 0])
  })
  it('second orders differentiate the rule; batches sum what is shared', () => {
    expectClose(
      s.grad(total(s.grad(total(cube))))(x),
      xs.map((v) => 18 * v),
    )
    const rows = s.stack([x, x.mul(2)])
    expectClose(
      s.vmap(s.grad(total(cube)))(rows),
      numbers(rows).map((v) => 9 * v * v),
    )
    const scaled = s.customVjp(
      (a: s.Tensor, b: s.Tensor) => a.mul(b),
      (a, b) => [a.mul(b), [a, b] as const],
      ([a, b], ct) => [b.mul(ct), a.mul(ct).mul(10)],
    )
    const whole = s.grad((b: s.Tensor) =>
      s
        .vmap(scaled, { inAxes: [0, null] })(rows, b)
        .sum(),
    )
    expectClose(
      whole(x),
      xs.map((v) => 30 * v),
    )
    const own: (v: s.Tensor) => s.Tensor = s.customVjp(
      (v: s.Tensor) => s.exp(v),
      (v) => [own(v), own(v)],
      (y, ct) => [y.mul(ct).mul(3)],
    )
    expectClose(
      s.grad(total(s.grad(total(own))))(x),
      xs.map((v) => 9 * Math.exp(v)),
    )
    expectClose(
      s.vmap(s.grad(total(s.grad(total(own)))))(rows),
      numbers(rows).map((v) => 9 * Math.exp(v)),
    )
  })
  it('null gradients are zeros; residuals may hold what is no tensor', () => {
    const f = s.customVjp(
      (a: s.Tensor, b: { readonly n: s.Tensor; readonly power: number }) => s.pow(a, b.power).mul(b.n.astype('f64')),
      (a, b) => [s.pow(a, b.power).mul(b.n.astype('f64')), { a, power: b.power, name: 'pow' }],
      ({ a, power, name }, ct) => {
        expect(name).toBe('pow')
        return [
          s
            .pow(a, power - 1)
            .mul(ct)
            .mul(100),
          null,
        ]
      },
    )
    const n = s.tensor([1, 2, 3], { dtype: 'i32' })
    expectClose(
      s.grad((a: s.Tensor) => f(a, { n, power: 3 }).sum())(x),
      xs.map((v) => 100 * v * v),
    )
    const both = s.grad((a: s.Tensor, b: s.Tensor) => f(a, { n, power: 2 }).add(b).sum(), { argnums: [0, 1] })
    expectClose(both(x, x)[1], [1, 1, 1])
  })
  it('inside a scan', () => {
    const f = (v: s.Tensor): s.Tensor => s.scan((c: s.Tensor, u: s.Tensor) => [cube(c).add(u), null], v.slice(0), v)[0]
    const by = (v: readonly number[]): number => v.reduce((c, u) => c ** 3 + u, v[0] ?? 0)
    expect(Number(f(x).item())).toBeCloseTo(by(xs), 12)
    // d/dc of each step is 9 c^2 by the rule.
    let c = xs[0] ?? 0
    const slopes = xs.map((u) => {
      const slope = 9 * c * c
      c = c ** 3 + u
      return slope
    })
    const after = (i: number): number => slopes.slice(i + 1).reduce((p, q) => p * q, 1)
    const want = xs.map((_, i) => after(i) + (i === 0 ? slopes.reduce((p, q) => p * q, 1) : 0))
    expectClose(s.jit(s.grad(f))(x), want)
  })
})

describe("a user's kernel", () => {
  const kernel = (name: string, f: (v: number) => number): s.OpaqueKernel => ({
    name,
    shapeRule: ([v]) => ({ shape: v?.shape ?? [], dtype: 'f64' }),
    run: ([v], out) => {
      for (let i = 0; i < out.length; i++) out[i] = f(Number(v?.[i]))
    },
  })
  const erfLike = kernel('softsign', (v) => v / (1 + Math.abs(v)))
  const slope = kernel('softsignSlope', (v) => 1 / (1 + Math.abs(v)) ** 2)
  const apply = (v: s.Tensor): s.Tensor => s.opaque(erfLike, v)
  const want = xs.map((v) => 1 / (1 + Math.abs(v)) ** 2)

  it('has no derivative of its own, and takes either rule', () => {
    expect(messageOf(() => s.grad(total(apply))(x))).toContain('E_UNSUPPORTED')
    const forward = s.customJvp(apply, ([v], [t]) => [apply(v), s.opaque(slope, v).mul(t)])
    const reverse = s.customVjp(
      apply,
      (v) => [apply(v), v],
      (v, ct) => [s.opaque(slope, v).mul(ct)],
    )
    expectClose(s.jvp(forward, [x], [s.onesLike(x)])[1], want)
    for (const f of [forward, reverse]) {
      expectClose(
        f(x),
        xs.map((v) => v / (1 + Math.abs(v))),
      )
      expectClose(s.jit(s.grad(total(f)))(x), want)
      expectClose(
        s.jit(s.grad((v: s.Tensor) => f(v.mul(2)).sum()))(x.mul(0.5)),
        want.map((v) => 2 * v),
      )
    }
  })
  it('called in its own rule it has second derivatives', () => {
    // y' = (1 - |y|)^2
    const f: (v: s.Tensor) => s.Tensor = s.customJvp(apply, ([v], [t]) => {
      const y = f(v)
      return [y, s.square(s.abs(y).sub(1)).mul(t)]
    })
    expectClose(s.grad(total(f))(x), want)
    expectClose(
      s.grad(total(s.grad(total(f))))(x),
      xs.map((v) => (-2 * Math.sign(v)) / (1 + Math.abs(v)) ** 3),
    )
  })
})

describe('without a derivative', () => {
  it('a function with a rule compiles as if inlined', () => {
    const inner = (v: s.Tensor): s.Tensor => s.tanh(v.mul(2)).add(1)
    const ruled = s.customVjp(
      inner,
      (v) => [inner(v), v],
      (_, ct) => [ct],
    )
    const around =
      (f: (v: s.Tensor) => s.Tensor) =>
      (v: s.Tensor): s.Tensor =>
        s.softmax(f(v.sub(3))).mul(f(v))
    const [plain, custom] = [inner, ruled].map((f) => s.jit(around(f)).explain(s.spec([64, 128])))
    expect(custom?.totals.kernels).toBe(plain?.totals.kernels)
    expect(custom?.totals.kernels).toBe(1)
    expect(custom?.totals.bytes).toBe(plain?.totals.bytes)
    expect(custom?.totals.operations).toBe(plain?.totals.operations)
  })
  it('the backward pass of a rule fuses with what is around it', () => {
    const swish = s.customVjp(
      (v: s.Tensor) => v.mul(s.sigmoid(v)),
      (v) => [v.mul(s.sigmoid(v)), v],
      (v, ct) => {
        const g = s.sigmoid(v)
        return [ct.mul(g.add(v.mul(g).mul(g.neg().add(1))))]
      },
    )
    const f = s.jit(s.grad((v: s.Tensor) => swish(v.mul(3)).sum()))
    expect(f.explain(s.spec([1000])).totals.kernels).toBe(1)
  })
})

describe('closures', () => {
  const weights = f64([2, 3, 5])
  it('what is closed over is constant: concrete and pending tensors, and those of an enclosing jit or vmap', () => {
    const pending = weights.mul(1)
    const f = s.customVjp(
      (v: s.Tensor) => v.mul(pending),
      (v) => [v.mul(pending), null],
      (_, ct) => [ct.mul(weights).mul(10)],
    )
    expectClose(
      f(x),
      xs.map((v, i) => v * (numbers(weights)[i] ?? 0)),
    )
    expectClose(s.grad(total(f))(x), [20, 30, 50])
    expectClose(s.jit(s.grad(total(f)))(x), [20, 30, 50])
    const outer = s.jit((w: s.Tensor) => {
      const g = s.customJvp(
        (v: s.Tensor) => v.mul(w),
        ([v], [t]) => [v.mul(w), t.mul(w).mul(10)],
      )
      return s.grad(total(g))(x)
    })
    expectClose(outer(weights), [20, 30, 50])
    const batched = s.vmap((w: s.Tensor) => {
      const g = s.customVjp(
        (v: s.Tensor) => v.mul(w),
        (v) => [v.mul(w), null],
        (_, ct) => [ct.mul(w).mul(10)],
      )
      return s.grad(total(g))(x)
    })
    expectClose(batched(s.stack([weights, weights.mul(2)])), [20, 30, 50, 40, 60, 100])
  })
  it('a rule called in itself closes over values', () => {
    const f: (v: s.Tensor) => s.Tensor = s.customJvp(
      (v: s.Tensor) => s.exp(v),
      ([v], [t]) => [f(v), f(v).mul(weights).mul(t)],
    )
    expectClose(
      s.grad(total(s.grad(total(f))))(x),
      xs.map((v, i) => Math.exp(v) * (numbers(weights)[i] ?? 0) ** 2),
    )
  })
  it('tensors of an enclosing derivative are refused', () => {
    const f = (w: s.Tensor): s.Tensor => {
      const g = s.customJvp(
        (v: s.Tensor) => v.mul(w),
        ([v], [t]) => [v.mul(w), t.mul(w)],
      )
      return g(x).sum()
    }
    expect(numbers(s.jit(f)(weights))[0]).toBeCloseTo(0.3 * 2 - 1.2 * 3 + 0.7 * 5, 12)
    expect(messageOf(() => s.grad(f)(weights))).toMatchInlineSnapshot(`
      "UserError: [E_UNSUPPORTED] customJvp closes over a tensor of the enclosing grad, in which its rule has no derivative
        at test/api/custom.test.ts
        help: pass it as an argument of the function"
    `)
    expect(
      messageOf(() =>
        s.grad((w: s.Tensor) =>
          s
            .vmap((row: s.Tensor) => f(row))(s.stack([w, w]))
            .sum(),
        )(weights),
      ),
    ).toContain('E_UNSUPPORTED')
  })
})
