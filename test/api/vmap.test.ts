/** vmap as users call it: against a loop, nested, over trees, among the other transforms. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { messageOf } from './messages.ts'
import { f64, numbers } from './tensors.ts'

const { grad, jit, tensor, vmap } = s

const grid = (...shape: number[]): s.Tensor =>
  s.sin(s.arange(shape.reduce((n, k) => n * k, 1)).astype('f64')).reshape(shape)

function expectSame(got: s.Tensor, want: s.Tensor): void {
  expect(got.shape).toEqual(want.shape)
  const expected = numbers(want)
  numbers(got).forEach((v, i) => {
    expect(v).toBeCloseTo(expected[i] ?? Number.NaN, 10)
  })
}

/** Each example by itself, stacked. */
const looped = (n: number, f: (i: number) => s.Tensor, axis = 0): s.Tensor =>
  s.stack(
    Array.from({ length: n }, (_, i) => f(i)),
    axis,
  )

describe.each(['wasm', 'reference'] as const)('vmap on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  it('is a loop over examples, lazily and jitted', () => {
    const f = (v: s.Tensor, w: s.Tensor): s.Tensor => s.softmax(v.matmul(w)).add(v.sum())
    const [v, w] = [grid(5, 3), grid(3, 4)]
    const want = looped(5, (i) => f(v.slice(i), w))
    expectSame(vmap(f, { inAxes: [0, null] })(v, w), want)
    expectSame(jit(vmap(f, { inAxes: [0, null] }))(v, w), want)
    const ws = grid(3, 4, 5)
    expectSame(
      vmap(f, { inAxes: [0, -1], outAxes: 1 })(v, ws),
      looped(5, (i) => f(v.slice(i), ws.slice(null, null, i)), 1),
    )
  })

  it('nests', () => {
    const dot = (a: s.Tensor, b: s.Tensor): s.Tensor => s.dot(a, b)
    const [a, b] = [grid(4, 3), grid(3, 5)]
    const product = vmap(vmap(dot, { inAxes: [null, 1] }), { inAxes: [0, null] })
    expectSame(product(a, b), a.matmul(b))
    const transposed = vmap(vmap(dot, { inAxes: [null, 1] }), { inAxes: [0, null], outAxes: -1 })
    expectSame(jit(transposed)(a, b), a.matmul(b).T)
    const outer = vmap((x: s.Tensor) => vmap((y: s.Tensor) => x.mul(y).sum())(b.T))(a)
    expectSame(outer, a.matmul(b))
  })

  it('takes trees, axes for their parts, static values, and gives trees', () => {
    const f = (p: { w: s.Tensor; rest: [s.Tensor, s.Tensor] }, k: number, v: s.Tensor) => ({
      y: v.matmul(p.w).mul(k).add(p.rest[0]),
      parts: [p.rest[1].mul(2), v.sum()] as const,
      k,
    })
    const p: Parameters<typeof f>[0] = { w: grid(2, 3), rest: [grid(6, 3), f64(4)] }
    const v = grid(2, 6)
    const r = vmap(f, {
      inAxes: [{ w: null, rest: [0, null] }, null, 1],
      outAxes: { y: 1, parts: [null, 0], k: null },
    })(p, 3, v)
    expectTypeOf(r).toEqualTypeOf<ReturnType<typeof f>>()
    const at = (i: number) => f({ w: p.w, rest: [p.rest[0].slice(i), p.rest[1]] }, 3, v.slice(null, i))
    expectSame(
      r.y,
      looped(6, (i) => at(i).y, 1),
    )
    expect(r.parts[0].tolist()).toBe(8)
    expectSame(
      r.parts[1],
      looped(6, (i) => at(i).parts[1]),
    )
    expect(r.k).toBe(3)
  })

  it('repeats what does not depend on the batch', () => {
    const c = f64([1, 2])
    const r = vmap((x: s.Tensor) => [x.add(1), c, s.zeros([1])] as const, { outAxes: [0, 1, null] })(f64([5, 6, 7]))
    expect(r.map((t) => t.tolist())).toEqual([
      [6, 7, 8],
      [
        [1, 1, 1],
        [2, 2, 2],
      ],
      [0],
    ])
  })

  it('of grad: gradients of each example', () => {
    const loss = (w: s.Tensor, v: s.Tensor, y: s.Tensor): s.Tensor => s.square(s.tanh(v.matmul(w)).sub(y)).sum()
    const [w, v, y] = [grid(3, 2), grid(7, 3), grid(7, 2)]
    const each = vmap(grad(loss), { inAxes: [null, 0, 0] })
    const want = looped(7, (i) => grad(loss)(w, v.slice(i), y.slice(i)))
    expectSame(each(w, v, y), want)
    expectSame(jit(each)(w, v, y), want)
    // The gradient of the sum is the sum of the gradients.
    const all = (u: s.Tensor): s.Tensor => vmap(loss, { inAxes: [null, 0, 0] })(u, v, y).sum()
    expectSame(grad(all)(w), want.sum(0))
    expectSame(jit(grad(jit(all)))(w), want.sum(0))
  })

  it('of a pullback and of a linear map', () => {
    const f = (x: s.Tensor): s.Tensor => s.exp(x).mul(x.slice([0, 1]))
    const x = f64([0.1, 0.7, -0.3])
    const jacobian = s.jacrev(f)(x)
    const [, pull] = s.vjp(f, x)
    expectSame(vmap((ct: s.Tensor) => pull(ct)[0])(s.eye(3, 3, 0, 'f64')), jacobian)
    const [, push] = s.linearize(f, x)
    expectSame(vmap((t: s.Tensor) => push(t), { outAxes: 1 })(s.eye(3, 3, 0, 'f64')), jacobian)
    expectSame(vmap((t: s.Tensor) => s.jvp(f, [x], [t])[1], { outAxes: 1 })(s.eye(3, 3, 0, 'f64')), jacobian)
    expectSame(
      vmap(s.jacfwd(f))(grid(2, 3)),
      looped(2, (i) => s.jacrev(f)(grid(2, 3).slice(i))),
    )
    expectSame(
      vmap(s.hessian((u: s.Tensor) => f(u).sum()))(grid(2, 3)),
      looped(2, (i) => s.hessian((u: s.Tensor) => f(u).sum())(grid(2, 3).slice(i))),
    )
  })

  it('over variables of an outer derivative', () => {
    const xs = grid(4)
    const f = (a: s.Tensor): s.Tensor => vmap((x: s.Tensor) => s.sin(x.mul(a)))(xs).sum()
    const want = s.cos(xs.mul(0.5)).mul(xs).sum()
    expectSame(grad(f)(f64(0.5)), want)
    expectSame(jit(grad(f))(f64(0.5)), want)
    // A derivative inside vmap, in what vmap batches, closing over both.
    const g = (a: s.Tensor): s.Tensor =>
      vmap((x: s.Tensor) => grad((u: s.Tensor) => u.mul(u).mul(x).mul(a))(x))(xs).sum()
    expectSame(grad(g)(f64(3)), xs.mul(xs).mul(2).sum())
  })

  it('over integers and empty batches', () => {
    const table = grid(5, 2)
    const rows = tensor([4, 0, 4], { dtype: 'i32' })
    expectSame(vmap((i: s.Tensor) => table.take(i))(rows), table.take(rows))
    expect(vmap((x: s.Tensor) => x.sum())(s.zeros([0, 3])).shape).toEqual([0])
  })
})

describe('errors', () => {
  beforeAll(() => s.setDevice('reference'))
  const [v, m] = [tensor([1, 2]), s.zeros([3, 2])]
  const f = (a: s.Tensor, b: { c: s.Tensor }): s.Tensor => a.add(b.c)

  it('batches of different sizes, or none', () => {
    expect(messageOf(() => vmap(f)(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] vmap: batches of different sizes: argument 0 has 2 along axis 0, argument 1.c has 3 along axis 0
        at test/api/vmap.test.ts
        help: batched tensors share one batch size; null in inAxes marks those without a batch"
    `)
    expect(messageOf(() => vmap(f, { inAxes: null })(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] vmap: no argument is batched
        at test/api/vmap.test.ts
        help: give at least one tensor an axis in inAxes"
    `)
  })
  it('axes that do not fit', () => {
    expect(messageOf(() => vmap(f, { inAxes: [2, 0] })(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_AXIS] vmap: inAxes 2 for argument 0 of shape [2]
        at test/api/vmap.test.ts
        help: axes go from -1 to 0"
    `)
    expect(messageOf(() => vmap((a: s.Tensor) => a)(tensor(1)))).toMatchInlineSnapshot(`
      "UserError: [E_AXIS] vmap: inAxes 0 for argument 0 of shape []
        at test/api/vmap.test.ts
        help: a scalar has no axis to batch: use null"
    `)
    expect(messageOf(() => vmap((a: s.Tensor) => a, { outAxes: 1 })(v))).toMatchInlineSnapshot(`
      "UserError: [E_AXIS] vmap: outAxes 1 for the result of shape []
        at test/api/vmap.test.ts
        help: axes go from -1 to 0"
    `)
    expect(messageOf(() => vmap((a: s.Tensor) => a, { outAxes: null })(v))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] vmap: the result depends on the batch, but its axis is null
        at test/api/vmap.test.ts
        help: give the axis the batch shall have in it"
    `)
  })
  it('axes of another structure', () => {
    expect(messageOf(() => vmap(f, { inAxes: [0] as unknown as [0, 0] })(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] vmap: inAxes has 1 entries for 2 arguments
        at test/api/vmap.test.ts
        help: give one for each argument; null marks those without a batch"
    `)
    expect(messageOf(() => vmap(f, { inAxes: [0, [0] as unknown as 0] })(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] vmap: inAxes does not have the structure of argument 1: it has an entry 0
        at test/api/vmap.test.ts
        help: give one axis (or null) for the whole, or a tree of axes of the same structure"
    `)
    expect(messageOf(() => vmap(f, { inAxes: [0, { d: 0 } as unknown as 0] })(v, { c: m }))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] vmap: inAxes does not have the structure of argument 1: it has an entry d
        at test/api/vmap.test.ts
        help: give one axis (or null) for the whole, or a tree of axes of the same structure"
    `)
    expect(messageOf(() => vmap(f, { outAxes: [0] as unknown as 0 })(v, { c: tensor([1, 2]) }))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] vmap: outAxes does not have the structure of the result: a list of 1 for a tensor
        at test/api/vmap.test.ts
        help: give one axis (or null) for the whole, or a tree of axes of the same structure"
    `)
    expect(messageOf(() => vmap(f)(v, { c: s.spec([2]) as unknown as s.Tensor }))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] vmap: argument 1 holds a tensor spec
        at test/api/vmap.test.ts
        help: specs are for explain and compile"
    `)
  })
  it('a leaked tracer', () => {
    let leak = v
    vmap((a: s.Tensor) => {
      leak = a
      return a
    })(v)
    expect(messageOf(() => leak.item())).toMatchInlineSnapshot(`
      "UserError: [E_LEAKED_TRACER] item() of a tensor that belongs to a finished vmap trace
        at test/api/vmap.test.ts
        help: return it from the function given to vmap instead of storing it outside"
    `)
  })
})
