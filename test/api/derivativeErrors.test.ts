/** What derivatives refuse, and what they say: losses, arguments, tangents, traces that ended. */
import { beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { messageOf } from './messages.ts'

const { grad, tensor, valueAndGrad } = s

describe('errors', () => {
  beforeAll(() => s.setDevice('reference'))
  const v = tensor([1, 2])
  const total = (u: s.Tensor): s.Tensor => u.sum()

  it('losses that are none', () => {
    expect(messageOf(() => grad((u: s.Tensor) => u.mul(2))(v))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] grad: the loss has shape [2]
        at test/api/derivativeErrors.test.ts
        help: reduce it to a scalar, as with sum or mean; jacrev, jacfwd and vjp take other results"
    `)
    expect(messageOf(() => grad((u: s.Tensor) => u.sum().astype('i32'))(v))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] grad: the loss is i32
        at test/api/derivativeErrors.test.ts
        help: a loss is a float: cast it with astype"
    `)
    expect(messageOf(() => valueAndGrad((_: s.Tensor) => 3 as unknown as s.Tensor)(v))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] valueAndGrad: the function gives a number, not a scalar tensor
        at test/api/derivativeErrors.test.ts
        help: return the loss alone, or [loss, aux] with hasAux"
    `)
    expect(
      messageOf(() => grad(total as unknown as (u: s.Tensor) => [s.Tensor, number], { hasAux: true })(v)),
    ).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] grad: with hasAux the function gives a list [loss, aux]
        at test/api/derivativeErrors.test.ts
        help: return [loss, aux], or leave hasAux out"
    `)
    expect(messageOf(() => grad((async () => v) as unknown as typeof total)(v))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] grad: the function given to grad is async
        at test/api/derivativeErrors.test.ts
        help: give it a synchronous function; await its result outside"
    `)
    expect(messageOf(() => grad((() => new Map()) as unknown as typeof total)(v))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] grad: result is a Map
        at test/api/derivativeErrors.test.ts
        help: pass tensors, numbers, strings, booleans, and arrays or plain objects of them"
    `)
  })
  it('arguments without derivative', () => {
    const i = tensor([1, 2], { dtype: 'i32' })
    expect(messageOf(() => grad((p: { a: s.Tensor[] }) => total(p.a[0] ?? v))({ a: [v, i] }))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] grad: a derivative in argument 0.a[1], which is i32[2]
        at test/api/derivativeErrors.test.ts
        help: pass it as another argument, or choose arguments with argnums"
    `)
    expect(messageOf(() => grad((k: number) => v.mul(k).sum())(3))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] grad: argument 0 holds no tensor to differentiate in
        at test/api/derivativeErrors.test.ts
        help: numbers are static: pass tensor(x) instead"
    `)
    expect(messageOf(() => grad(total, { argnums: 1 as 0 })(v))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] grad: argnums names argument 1 of 1
        at test/api/derivativeErrors.test.ts
        help: positions count from 0"
    `)
    expect(messageOf(() => grad(total, { argnums: [0, 0] })(v))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] grad: argnums names argument 0 twice
        at test/api/derivativeErrors.test.ts
        help: name each position once"
    `)
    expect(messageOf(() => s.jacrev((u: s.Tensor) => s.argmax(u))(v))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] jacrev: the derivative of the result, which is i32[]
        at test/api/derivativeErrors.test.ts
        help: return float tensors only, or cast with astype"
    `)
  })
  it('operations without derivative', () => {
    const kernel: s.OpaqueKernel = {
      name: 'mystery',
      shapeRule: ([a]) => ({ shape: a?.shape ?? [], dtype: 'f32' }),
      run: () => {},
    }
    expect(messageOf(() => grad((u: s.Tensor) => s.opaque(kernel, u).sum())(v))).toMatchInlineSnapshot(`
      "UserError: [E_UNSUPPORTED] the derivative of mystery (opaque): a kernel of the user has no derivative of its own
        at test/api/derivativeErrors.test.ts
        help: give it a rule (customJvp, customVjp), or stop the gradient before it (stopGradient)"
    `)
  })
  it('tangents of another structure or type', () => {
    const f = (p: { a: s.Tensor; b: [s.Tensor] }): s.Tensor => p.a.mul(p.b[0])
    const p: { a: s.Tensor; b: [s.Tensor] } = { a: v, b: [v] }
    expect(messageOf(() => s.jvp(f, [p], [{ a: v } as unknown as typeof p]))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] jvp: a tangent does not have the structure of the values: argument 0.b is missing, not a list of 1
        at test/api/derivativeErrors.test.ts
        help: give a tree of the same structure; null stands for zeros"
    `)
    expect(messageOf(() => s.jvp(f, [p], [{ ...p, c: v } as typeof p]))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] jvp: a tangent does not have the structure of the values: argument 0.c is there, not in the values
        at test/api/derivativeErrors.test.ts
        help: give a tree of the same structure; null stands for zeros"
    `)
    expect(messageOf(() => s.jvp(f, [p], [] as unknown as [typeof p]))).toMatchInlineSnapshot(`
      "UserError: [E_ARGUMENT] jvp: 0 tangents for 1 arguments
        at test/api/derivativeErrors.test.ts
        help: give one for each argument; null stands for zeros"
    `)
    expect(messageOf(() => s.jvp(f, [p], [{ a: tensor([1, 2, 3]), b: [null] }]))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] jvp: a tangent: argument 0.a is f32[3], the value f32[2]
        at test/api/derivativeErrors.test.ts
        help: it has the shape and dtype of the value; null stands for zeros"
    `)
    const [, pull] = s.vjp(f, p)
    expect(messageOf(() => pull(v.astype('f64')))).toMatchInlineSnapshot(`
      "UserError: [E_DTYPE] vjp: the cotangent: the result is f64[2], the value f32[2]
        at test/api/derivativeErrors.test.ts
        help: it has the shape and dtype of the value; null stands for zeros"
    `)
    const [, push] = s.linearize(f, p)
    expect(messageOf(() => push([v] as unknown as typeof p))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] linearize: a tangent does not have the structure of the values: argument 0 is a list of 1, not an object of a, b
        at test/api/derivativeErrors.test.ts
        help: give a tree of the same structure; null stands for zeros"
    `)
  })
  it('leaked tracers and values read too early', () => {
    let leak = v
    grad((u: s.Tensor) => {
      leak = u.mul(2)
      return leak.sum()
    })(v)
    expect(messageOf(() => leak.dataSync())).toMatchInlineSnapshot(`
      "UserError: [E_LEAKED_TRACER] dataSync() of a tensor that belongs to a finished grad trace
        at test/api/derivativeErrors.test.ts
        help: return it from the function given to grad instead of storing it outside"
    `)
    expect(messageOf(() => leak.add(1))).toMatchInlineSnapshot(`
      "UserError: [E_LEAKED_TRACER] add of a tensor that belongs to a finished grad trace
        at test/api/derivativeErrors.test.ts
        help: return it from the function given to grad instead of storing it outside"
    `)
    expect(messageOf(() => grad((u: s.Tensor) => u.mul(leak).sum())(v))).toMatchInlineSnapshot(`
      "UserError: [E_LEAKED_TRACER] mul of a tensor that belongs to a finished grad trace
        at test/api/derivativeErrors.test.ts
        help: return it from the function given to grad instead of storing it outside"
    `)
    expect(messageOf(() => grad((u: s.Tensor) => u.mul(Number(u.sum().item())).sum())(v))).toMatchInlineSnapshot(`
      "UserError: [E_NOT_CONCRETE] item() of a tensor inside grad: f32[] has no value while the function is traced
        at test/api/derivativeErrors.test.ts
        help: return it, look at it with inspect(x, callback), or compute with where instead of branching on it"
    `)
    expect(String(leak)).toBe('Tensor(f32[2], inside grad)')
    expect(grad(total)(v).tolist()).toEqual([1, 1])
  })
  it('errors of the function itself say the operation and its place', () => {
    expect(messageOf(() => grad((u: s.Tensor) => u.add(tensor([1, 2, 3])).sum())(v))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0
        at test/api/derivativeErrors.test.ts
        help: each pair of trailing extents must be equal, or one of them 1"
    `)
  })
})
