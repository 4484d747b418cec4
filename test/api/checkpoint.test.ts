/** Checkpointed functions: the values and derivatives of the function itself, less kept for the backward pass. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { withContext } from '../../src/graph/build.ts'
import * as s from '../../src/index.ts'
import { linearizeGraph } from '../../src/transforms/index.ts'
import { chooseDevice } from '../support/device.ts'
import { f64, numbers } from './tensors.ts'

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const expectClose = (got: s.Tensor, want: s.Tensor): void => {
  expect(got.shape).toEqual(want.shape)
  const values = numbers(want)
  numbers(got).forEach((v, i) => {
    expect(v).toBeCloseTo(values[i] ?? Number.NaN, 10)
  })
}

type Layer = { readonly w: s.Tensor; readonly b: s.Tensor }
const layer = (x: s.Tensor, { w, b }: Layer): s.Tensor => s.tanh(s.sin(x.matmul(w)).mul(2).add(b))
const x = f64([
  [0.3, -0.8],
  [1.1, 0.4],
  [-0.2, 0.9],
])
const p: Layer = {
  w: f64([
    [0.4, -0.9],
    [0.7, 0.2],
  ]),
  b: f64([0.1, -0.3]),
}
type Wrap = typeof plain
const plain = <A extends readonly unknown[], R>(f: (...args: A) => R): ((...args: A) => R) => f

describe('checkpoint keeps values, derivatives and types', () => {
  const stack =
    (wrap: Wrap) =>
    (q: Layer, v: s.Tensor): s.Tensor => {
      const f = wrap(layer)
      return f(f(v, q), q).sum()
    }
  const nested = (wrap: Wrap) => {
    const inner = wrap((v: s.Tensor) => s.exp(s.sin(v)))
    return wrap((v: s.Tensor) => inner(inner(v)).mul(v).sum())
  }
  it('in every transform', () => {
    const f = s.checkpoint(layer)
    expectTypeOf(f).toEqualTypeOf<(x: s.Tensor, p: Layer) => s.Tensor>()
    expectClose(f(x, p), layer(x, p))
    expectClose(s.jit(f)(x, p), layer(x, p))
    const [a, b] = [stack(plain), stack(s.checkpoint)]
    for (const run of [s.grad, (g: typeof a) => s.jit(s.grad(g))]) {
      const [want, got] = [run(a)(p, x), run(b)(p, x)]
      expectClose(got.w, want.w)
      expectClose(got.b, want.b)
    }
    const [na, nb] = [nested(plain), nested(s.checkpoint)]
    const v = f64([0.2, -0.5, 1.4])
    expectClose(s.jvp(nb, [v], [v])[1], s.jvp(na, [v], [v])[1])
    expectClose(s.vjp(nb, v)[1](f64(2))[0], s.vjp(na, v)[1](f64(2))[0])
    expectClose(s.hessian(nb)(v), s.hessian(na)(v))
    expectClose(s.vmap(s.grad(nb))(s.stack([v, v.mul(2)])), s.vmap(s.grad(na))(s.stack([v, v.mul(2)])))
  })
  it('with literals that the backward pass reads', () => {
    const grid = (...shape: number[]): s.Tensor => s.sin(s.arange(shape.reduce((n, k) => n * k, 1))).reshape(shape)
    const [v, w] = [grid(5, 6), grid(6, 6)]
    const run = (wrap: Wrap) => {
      const f = wrap((a: s.Tensor) => s.sin(a.matmul(w).mul(s.tensor([1, 2, 3, 4, 5, 6]))))
      return s.jit(s.grad((a: s.Tensor) => s.softmax(f(a).matmul(w)).square().sum()))(v)
    }
    const want = numbers(run(plain))
    numbers(run(s.checkpoint)).forEach((value, i) => {
      expect(value).toBeCloseTo(want[i] ?? Number.NaN, 5)
    })
  })
  it('in the steps of a scan', () => {
    const run =
      (wrap: Wrap) =>
      (v: s.Tensor): s.Tensor => {
        const step = wrap((c: s.Tensor, u: s.Tensor) => s.sin(s.exp(c.mul(u))).add(u))
        return s.scan((c: s.Tensor, u: s.Tensor) => [step(c, u), null], v.slice(0), v)[0].sum()
      }
    expectClose(s.jit(s.grad(run(s.checkpoint)))(x), s.grad(run(plain))(x))
  })
})

describe('a deep network', () => {
  it('keeps what enters its checkpointed blocks, and has one block at a time in memory', () => {
    const [depth, rows, width] = [12, 512, 64]
    const report = (wrap: Wrap): s.Explanation => {
      const block = wrap((v: s.Tensor, w: s.Tensor) =>
        s.nn.gelu(s.nn.layerNorm(v).matmul(w).add(0.1)).matmul(w.T).add(v),
      )
      const loss = (v: s.Tensor, ws: readonly s.Tensor[]): s.Tensor => {
        const y = ws.reduce((h, w) => block(h, w), v)
        return y.mul(y).sum()
      }
      const ws = Array.from({ length: depth }, () => s.spec([width, 4 * width]))
      return s.jit(s.valueAndGrad(loss, { argnums: [0, 1] })).explain(s.spec([rows, width]), ws)
    }
    const [kept, again] = [report(plain), report(s.checkpoint)]
    expect(again.passes?.savedBytes).toBeLessThanOrEqual(depth * rows * width * 4)
    expect(again.memory.arenaBytes).toBeLessThan(kept.memory.arenaBytes / 4)
    expect(again.totals.modelledMs).toBeLessThan(1.5 * kept.totals.modelledMs)
  })
})

describe('what is kept', () => {
  const residuals = (wrap: Wrap): number => {
    const f = wrap((v: s.Tensor) => s.tanh(s.exp(s.sin(v))))
    const { graph } = traceFunction((v: s.Tensor) => f(f(v)).mul(3), [s.spec([4])])
    return withContext(() => linearizeGraph(graph, [true])).residuals
  }
  it('a linearised function keeps what enters its regions', () => {
    expect(residuals(plain)).toBeGreaterThan(2)
    // The argument, and what goes from one region to the next.
    expect(residuals(s.checkpoint)).toBe(2)
  })
  it('between the passes of a program what is inside a region is computed again', () => {
    const rows = 256
    const bytes = rows * 64 * 4
    const block = (v: s.Tensor, w: s.Tensor): s.Tensor => s.tanh(v.matmul(w)).matmul(w.T).add(v)
    const run = (wrap: Wrap) => {
      const f = wrap(block)
      const loss = (w: s.Tensor, v: s.Tensor): s.Tensor => s.square(f(f(f(v, w), w), w)).sum()
      return s.jit(s.valueAndGrad(loss)).explain(s.spec([64, 256]), s.spec([rows, 64])).passes
    }
    const [all, less] = [run(plain), run(s.checkpoint)]
    // Each tanh is four times as wide as what goes from block to block.
    expect(all?.savedBytes).toBe(15 * bytes)
    expect(less?.savedBytes).toBeLessThanOrEqual(3 * bytes)
    expect(less?.liveBytes).toBeLessThan(all?.liveBytes ?? 0)
  })
})
