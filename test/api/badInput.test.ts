/**
 * Bad input on the device: indices out of range, shapes that overflow, derivatives and batches that cannot be. Errors have a
 * code and name the user's call; the library works on afterwards.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'
import { cuda } from '../../src/cuda.ts'
import * as s from '../../src/index.ts'
import { jit, ones, type Tensor, take, tensor, UserError, zeros } from '../../src/index.ts'
import { webgpu } from '../../src/webgpu.ts'
import { codeOf } from './messages.ts'

test('gathered indices out of range clamp, also fused and inside jit', () => {
  const table = tensor([10, 20, 30], { dtype: 'f32' })
  const indices = tensor([0, 2, 3, 1000000, -1, -4, -2000000], { dtype: 'i32' })
  const expected = [10, 30, 30, 30, 30, 10, 10]
  expect([...take(table, indices, 0).dataSync()]).toEqual(expected)
  const f = jit((t: Tensor, i: Tensor) => take(t.mul(2), i.add(0), 0).sub(0))
  expect([...f(table, indices).dataSync()]).toEqual(expected.map((x) => 2 * x))
})

test('shapes that overflow, and what follows them', () => {
  expect(codeOf(() => zeros([100_000_000, 100_000_000]))).toBe('E_OVERFLOW')
  expect(codeOf(() => zeros([65536, 65536, 2]).add(1).dataSync())).toBe('E_OVERFLOW')
  expect(codeOf(() => zeros([2, -1]))).toBe('E_SHAPE')
  expect(codeOf(() => ones([60000, 60000]).add(1).dataSync())).toBe('E_OVERFLOW')
  expect([...ones([3]).add(1).dataSync()]).toEqual([2, 2, 2])
})

test('what is no device, or no combiner', () => {
  const before = s.getDevice()
  const promise = Promise.resolve() as never
  expect(codeOf(() => s.setDevice(promise))).toBe('E_ARGUMENT')
  expect(codeOf(() => s.setDevice({} as never))).toBe('E_ARGUMENT')
  expect(codeOf(() => jit((x: Tensor) => x.add(1), { device: promise })(ones([2])))).toBe('E_ARGUMENT')
  expect(s.getDevice()).toBe(before)
  const at = tensor([[0]], { dtype: 'i32' })
  expect(codeOf(() => s.scatterND(ones([3]), at, ones([1]), 'add' as 'sum'))).toBe('E_ARGUMENT')
  expect(codeOf(() => s.scatterAlongAxis(ones([3, 1]), at, ones([1, 1]), 0, 'mul' as 'prod'))).toBe('E_ARGUMENT')
})

test('what is no function, and options that are none', () => {
  const none = null as never
  const x = ones([2])
  const calls: (() => unknown)[] = [
    () => jit(none),
    () => jit(ones([2]) as never),
    () => jit((y: Tensor) => y, none),
    () => s.program(none, {}),
    () => s.grad(none)(x),
    () => s.vmap(none)(x),
    () => s.vjp(none, x),
    () => s.checkpoint(none),
    () => s.customJvp((y: Tensor) => y, none),
    () => s.customVjp(none, none, none),
  ]
  for (const call of calls) expect(codeOf(call)).toBe('E_ARGUMENT')
})

test('slices, axes and reshapes out of range', () => {
  const x = ones([4, 5])
  expect(codeOf(() => x.sum(2))).toBe('E_AXIS')
  expect(codeOf(() => x.reshape([3, 7]))).toBe('E_SHAPE')
  expect(codeOf(() => x.matmul(ones([4, 5])))).toBe('E_SHAPE')
})

const raise = (error: unknown): never => {
  throw error
}

/** Code and summary of the error of a call, which has a remedy. */
function codeAndSummary(f: () => unknown): string {
  try {
    f()
  } catch (e) {
    if (!(e instanceof UserError)) throw e
    expect(e.help).toBeDefined()
    return `${e.code} ${e.summary}`
  }
  return 'no error'
}

const source = readFileSync(new URL(import.meta.url), 'utf8').split('\n')

/** The error of a call that must fail at the line of this file that says so. */
function failure(f: () => unknown): string {
  try {
    f()
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    const line = /badInput\.test\.ts:(\d+):\d+$/.exec(error.where ?? '')?.[1]
    expect(source[Number(line) - 1] ?? error.where).toContain('/* here */')
    expect(error.help ?? error.summary).not.toBe('')
    return `${error.code} ${error.summary}`
  }
  return 'no error'
}

const v = tensor([1, 2])
const total = (x: Tensor): Tensor => x.sum()
const kernel: s.OpaqueKernel = {
  name: 'mystery',
  shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
  run: () => {},
}

/** A tensor that outlives the trace of a function. */
function leakedFrom(run: (f: (x: Tensor) => Tensor) => unknown): Tensor {
  let leak = v
  run((x) => {
    leak = x.mul(2)
    return leak
  })
  return leak
}

describe('derivatives and batches that cannot be', () => {
  const cases: readonly (readonly [what: string, message: string, call: () => unknown])[] = [
    [
      'through a kernel of the user',
      'E_UNSUPPORTED the derivative of mystery (opaque): a kernel of the user has no derivative of its own',
      () => s.grad((x: Tensor) => total(s.opaque(kernel, x)))(v) /* here */,
    ],
    [
      'in reverse through a loop of unknown length',
      'E_UNSUPPORTED the gradient of whileLoop (while): reverse mode keeps the values of every step, and the number of steps is not known',
      () => {
        const [small, twice] = [(c: Tensor) => c.sum().less(9), (c: Tensor) => c.mul(2)]
        return s.grad((x: Tensor) => total(s.whileLoop(small, twice, x) /* here */))(v)
      },
    ],
    [
      'in an integer',
      'E_DTYPE grad: a derivative in argument 0.n, which is i32[]',
      () => s.grad((p: { n: Tensor }) => p.n.astype('f32'))({ n: tensor(3, { dtype: 'i32' }) }) /* here */,
    ],
    [
      'of an integer',
      'E_DTYPE grad: the loss is i32',
      () => s.grad((x: Tensor) => s.argmax(x).astype('i32'))(v) /* here */,
    ],
    ['of a vector', 'E_SHAPE grad: the loss has shape [2]', () => s.grad((x: Tensor) => x.mul(2))(v) /* here */],
    [
      'a tangent of another structure',
      'E_STRUCTURE jvp: a tangent does not have the structure of the values: argument 0.w is missing, not a tensor',
      () => s.jvp((p: { w: Tensor }) => p.w, [{ w: v }], [{} as { w: Tensor }]) /* here */,
    ],
    [
      'a cotangent of another structure',
      'E_STRUCTURE vjp: the cotangent does not have the structure of the values: the result is a tensor, not a list of 2',
      () => s.vjp((x: Tensor) => [x, x] as const, v)[1](v as never) /* here */,
    ],
    [
      'branches of different structure',
      'E_STRUCTURE cond: the second branch gives f32[2] for the result, the first an object with a',
      () => s.cond(v.sum().less(0), (x) => ({ a: x }), ((x: Tensor) => x) as never, v) /* here */,
    ],
    [
      'a carry that changes its shape',
      'E_SHAPE scan: the function gives f32[] for the carry, where it takes f32[2]',
      () => s.scan((c: Tensor) => [c.sum(), null], v, null, { length: 3 }) /* here */,
    ],
    [
      'batches of different sizes',
      'E_SHAPE vmap: batches of different sizes: argument 0 has 2 along axis 0, argument 1.b has 3 along axis 0',
      () => s.vmap((a: Tensor, p: { b: Tensor }) => a.add(p.b))(v, { b: ones([3]) }) /* here */,
    ],
    [
      'a rule whose gradient has another shape',
      'E_SHAPE twice: the gradient its backward function gives: argument 0 is f32[], the value f32[2]',
      () => {
        const twice = s.customVjp(
          function twice(x: Tensor): Tensor {
            return x.mul(2)
          },
          (x) => [x.mul(2), null],
          (_, ct) => [ct.sum()],
        )
        return s.grad((x: Tensor) => total(twice(x) /* here */))(v)
      },
    ],
    [
      'forward mode through a rule for reverse mode',
      'E_UNSUPPORTED forward mode through same, which has a rule for reverse mode alone',
      () => {
        const same = s.customVjp(
          function same(x: Tensor): Tensor {
            return x
          },
          (x) => [x, null],
          (_, ct) => [ct],
        )
        return s.jvp((x: Tensor) => same(x) /* here */, [v], [v])[1].dataSync()
      },
    ],
    [
      'a tensor leaked from grad',
      'E_LEAKED_TRACER add of a tensor that belongs to a finished grad trace',
      () => leakedFrom((f) => s.grad((x: Tensor) => total(f(x)))(v)).add(1) /* here */,
    ],
    [
      'a tensor leaked from a checkpointed function',
      'E_LEAKED_TRACER add of a tensor that belongs to a finished vjp trace',
      () => leakedFrom((f) => s.vjp(s.checkpoint(f), v)).add(1) /* here */,
    ],
    [
      'a tensor leaked from a rule',
      'E_LEAKED_TRACER add of a tensor that belongs to a finished customJvp trace',
      () =>
        leakedFrom((f) =>
          jit(
            s.customJvp(
              (x: Tensor) => x,
              ([x], [t]) => [x, f(t)],
            ),
          )(v),
        ).add(1) /* here */,
    ],
    [
      'a tensor leaked from a step of a scan, into the next',
      'E_LEAKED_TRACER mul of a tensor that belongs to a finished scan trace',
      () => {
        const leak = leakedFrom((f) => s.scan((c: Tensor) => [f(c), null], v, null, { length: 2 }))
        return jit((x: Tensor) => x.mul(leak) /* here */)(v)
      },
    ],
  ]
  it.each(cases)('%s', (_, message, call) => {
    expect(failure(call)).toBe(message)
    expect(
      s
        .grad((x: Tensor) => s.square(x).sum())(v)
        .tolist(),
    ).toEqual([2, 4])
  })
})

describe('kernels of the user that are none', () => {
  const shapeRule = kernel.shapeRule
  const giving = (result: unknown): s.OpaqueKernel => ({ name: 'odd', shapeRule: () => result as never, run: () => {} })
  const cases: readonly (readonly [what: string, message: string, kernel: unknown])[] = [
    ['null', 'E_ARGUMENT opaque: the kernel is null', null],
    ['nothing', 'E_ARGUMENT opaque: the kernel is undefined', undefined],
    ['a function', 'E_ARGUMENT opaque: the kernel is a function', () => {}],
    ['without a name', 'E_ARGUMENT opaque: the kernel has no name', { shapeRule, run: () => {} }],
    [
      'without a shape rule',
      'E_ARGUMENT opaque: the kernel "odd" has no function shapeRule',
      { name: 'odd', run: () => {} },
    ],
    ['without code', 'E_ARGUMENT opaque: the kernel "odd" has no function run', { name: 'odd', shapeRule, run: 3 }],
    [
      'whose shape rule gives nothing',
      'E_ARGUMENT odd: the shape rule of the kernel "odd" gives no shape',
      giving(undefined),
    ],
    [
      'whose shape rule gives a size',
      'E_ARGUMENT odd: the shape rule of the kernel "odd" gives no shape',
      giving({ shape: 2, dtype: 'f32' }),
    ],
    [
      'whose shape rule gives no dtype',
      'E_DTYPE odd: the shape rule of the kernel "odd" gives the dtype undefined',
      giving({ shape: [2] }),
    ],
    [
      'whose shape rule gives a fraction',
      'E_SHAPE odd: extent 0.5 in shape [0.5] is not a whole number',
      giving({ shape: [0.5], dtype: 'f32' }),
    ],
  ]
  it.each(cases)('%s', (_, message, odd) => {
    expect(failure(() => s.opaque(odd as s.OpaqueKernel, v) /* here */)).toBe(message)
    expect(failure(() => jit((x: Tensor) => s.opaque(odd as s.OpaqueKernel, x) /* here */)(v))).toBe(message)
  })
})

describe('options of a GPU that are none', () => {
  it.each([
    ['null', null],
    ['a number', 3],
    ['an array', []],
    ['a string', 'fast'],
  ])('%s', async (what, options) => {
    expect(codeAndSummary(() => cuda(options as never))).toBe(`E_ARGUMENT the options of cuda are ${what}`)
    const error = await webgpu(options as never).catch((e: unknown) => e)
    expect(codeAndSummary(() => raise(error))).toBe(`E_ARGUMENT the options of webgpu are ${what}`)
  })
  it('a cache folder that is no path', () => {
    expect(codeAndSummary(() => cuda({ cacheFolder: 3 as never }))).toBe(
      'E_ARGUMENT cacheFolder is 3, which is no path',
    )
  })
})
