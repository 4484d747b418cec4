/** What derivative rules that do not fit give: errors that name the function and the user's call. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { messageOf } from './messages.ts'
import { cube, x } from './ruled.ts'

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

/** In this file, whose lines the errors name. */
const total = (f: (v: s.Tensor) => s.Tensor) => (v: s.Tensor) => f(v).sum()

describe('errors name the function and its call', () => {
  const ct = <T>(rule: () => T) =>
    s.customVjp(
      function area(a: s.Tensor, b: { readonly c: s.Tensor }): s.Tensor {
        return a.mul(b.c)
      },
      (a, b) => [a.mul(b.c), null],
      rule as never,
    )
  const loss = (f: (a: s.Tensor, b: { readonly c: s.Tensor }) => s.Tensor) => () =>
    s.grad((a: s.Tensor) => f(a, { c: x }).sum())(x)
  it('a gradient of the wrong structure, shape, dtype', () => {
    expect(messageOf(loss(ct(() => [x])))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] area: its backward function gives 1 gradients for 2 arguments
        at test/api/customErrors.test.ts
        help: return a list with a gradient for each argument; null stands for zeros"
    `)
    expect(messageOf(loss(ct(() => x)))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] area: its backward function gives no list for 2 arguments
        at test/api/customErrors.test.ts
        help: return a list with a gradient for each argument; null stands for zeros"
    `)
    expect(messageOf(loss(ct(() => [x, x])))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] area: the gradient its backward function gives does not have the structure of the values: argument 1 is a tensor, not an object of c
        at test/api/customErrors.test.ts
        help: give a tree of the same structure; null stands for zeros"
    `)
    expect(messageOf(loss(ct(() => [x.slice([0, 2]), null])))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] area: the gradient its backward function gives: argument 0 is f64[2], the value f64[3]
        at test/api/customErrors.test.ts
        help: it has the shape and dtype of the value; null stands for zeros"
    `)
    expect(messageOf(loss(ct(() => [x.astype('f32'), { c: null }])))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] area: the gradient its backward function gives: argument 0 is f32[3], the value f64[3]
        at test/api/customErrors.test.ts
        help: it has the shape and dtype of the value; null stands for zeros"
    `)
  })
  it('a forward function that gives no pair, or another value', () => {
    const f = (forward: unknown) =>
      s.customVjp(
        (v: s.Tensor) => v.mul(2),
        forward as never,
        (_: unknown, g: s.Tensor) => [g],
      )
    expect(messageOf(() => s.grad(total(f((v: s.Tensor) => v)))(x))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] customVjp: its forward function gives no pair
        at test/api/customErrors.test.ts
        help: return [value, residuals]"
    `)
    expect(messageOf(() => s.grad(total(f((v: s.Tensor) => [v.sum(), v])))(x))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] customVjp: its forward function gives f64[] for the value, the function f64[3]
        at test/api/customErrors.test.ts
        help: shapes are fixed: pad, or reduce, to one shape"
    `)
  })
  it('a rule that gives another value or tangent', () => {
    const f = (rule: unknown) => s.customJvp((v: s.Tensor) => ({ y: v.mul(2) }), rule as never)
    const run = (rule: unknown) => messageOf(() => s.jvp((v: s.Tensor) => f(rule)(v).y, [x], [x]))
    expect(run(() => x)).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] customJvp: its rule gives no pair
        at test/api/customErrors.test.ts
        help: return [value, tangent]"
    `)
    expect(run(() => [{ z: x }, null])).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] customJvp: its rule gives an object with z for the value, the function an object with y
        at test/api/customErrors.test.ts
        help: give the same structure"
    `)
    expect(run(() => [{ y: x }, { y: x.sum() }])).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] customJvp: the tangent its rule gives: the result.y is f64[], the value f64[3]
        at test/api/customErrors.test.ts
        help: it has the shape and dtype of the value; null stands for zeros"
    `)
    expect(run(() => [{ y: x }, { y: 3 }])).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] customJvp: the tangent its rule gives does not have the structure of the values: the result.y is a number, not a tensor
        at test/api/customErrors.test.ts
        help: give a tree of the same structure; null stands for zeros"
    `)
  })
  it('forward mode through a rule for reverse mode', () => {
    expect(messageOf(() => s.jvp(cube, [x], [x])[1].dataSync())).toMatchInlineSnapshot(`
      "UserError: [E_UNSUPPORTED] forward mode through cube, which has a rule for reverse mode alone
        at test/api/customErrors.test.ts
        help: differentiate it in reverse mode, or give it a rule for forward mode (customJvp)"
    `)
    expect(messageOf(() => s.jit((v: s.Tensor) => s.jvp(cube, [v], [v])[1])(x))).toMatchInlineSnapshot(`
      "UserError: [E_UNSUPPORTED] forward mode through cube, which has a rule for reverse mode alone
        at test/api/customErrors.test.ts
        help: differentiate it in reverse mode, or give it a rule for forward mode (customJvp)"
    `)
    expect(messageOf(() => s.hessian(total(cube))(x).dataSync())).toBe('no error')
  })
  it('an effect in the function', () => {
    const f = s.customJvp(
      (v: s.Tensor) => s.inspect(v, () => {}),
      ([v], [t]) => [v, t],
    )
    expect(messageOf(() => s.grad(total(f))(x))).toMatchInlineSnapshot(`
      "UserError: [E_UNSUPPORTED] customJvp: its function has an effect
        at test/api/customErrors.test.ts
        help: return the value and inspect it outside"
    `)
  })
})
