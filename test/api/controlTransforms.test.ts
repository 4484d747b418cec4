/** Control flow under transforms, jit, donation and strict mode, and in odd shapes and dtypes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

const t = (x: Parameters<typeof s.tensor>[0]): s.Tensor => s.tensor(x)

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

describe('transforms', () => {
  const doubled = (x: s.Tensor): s.Tensor =>
    s.whileLoop(
      (v) => v.less(10),
      (v) => v.mul(2),
      x,
    )
  const piece = (x: s.Tensor): s.Tensor =>
    s.cond(
      x.less(2),
      (v: s.Tensor) => v.mul(v),
      (v: s.Tensor) => v.neg(),
      x,
    )
  test('a batch of while loops, each to its own end', () => {
    expect(
      s
        .jit(s.vmap(doubled))(t([1, 3, 20]))
        .tolist(),
    ).toEqual([16, 12, 20])
  })
  test('a batch of conditions', () => {
    expect(
      s
        .jit(s.vmap(piece))(t([1.5, 3, -20]))
        .tolist(),
    ).toEqual([2.25, -3, 400])
  })
  test('derivatives of the branch taken', () => {
    expect([1.5, 3].map((x) => s.grad(piece)(t(x)).item())).toEqual([3, -1])
  })
  test('derivatives of a counted loop, once and twice', () => {
    const power = (x: s.Tensor): s.Tensor => s.foriLoop(0, 3, (_, c) => c.mul(x), x)
    expect(s.grad(power)(t(2)).item()).toBeCloseTo(32, 4)
    expect(s.grad(s.grad(power))(t(2)).item()).toBeCloseTo(48, 3)
    expect(
      s
        .jit(s.grad(s.grad(power)))(t(2))
        .item(),
    ).toBeCloseTo(48, 3)
  })
  test('the index of a loop in a derivative', () => {
    const f = (x: s.Tensor): s.Tensor => s.foriLoop(0, 4, (i, c) => c.mul(x).add(i), x)
    expect(s.grad(f)(t(1.5)).item()).toBeCloseTo(5 * 1.5 ** 4 + 2 * 1.5 + 2, 3)
  })
  test('reverse mode through a while loop is refused', () => {
    expect(() => s.grad(doubled)(t(1))).toThrow(/E_UNSUPPORTED/)
  })
  test('an associative scan has derivatives', () => {
    const product = (x: s.Tensor): s.Tensor => s.associativeScan((a, b) => a.mul(b), x).sum()
    // d/dx_i of x0 + x0 x1 + x0 x1 x2.
    expect(
      s
        .grad(product)(t([2, 3, 4]))
        .tolist(),
    ).toEqual([1 + 3 + 12, 2 + 8, 6])
  })
})

describe('programs', () => {
  test('carries that swap in a while loop', () => {
    type Carry = [s.Tensor, s.Tensor, s.Tensor]
    const [a, b, n] = s.whileLoop<Carry>(
      ([, , i]) => i.less(5),
      ([x, y, i]) => [y, x.add(y), i.add(1)],
      [t(0), t(1), t(0)],
    )
    expect([a, b, n].map((x) => x.item())).toEqual([5, 8, 5])
  })
  test('rows set in a donated table, step by step', () => {
    const f = s.jit(
      (table: s.Tensor, xs: s.Tensor) =>
        s.scan(
          (c: s.Tensor, x: s.Tensor) =>
            [s.where(s.iota([6, 2], 0).equal(x.sum().astype('i32').mod(6)), x, c), c.sum()] as const,
          table,
          xs,
        ),
      { donate: [0] },
    )
    const [table, before] = f(s.zeros([6, 2]), s.iota([4, 2], 0, 'f32'))
    expect(table.tolist()).toEqual([
      [3, 3],
      [0, 0],
      [1, 1],
      [0, 0],
      [2, 2],
      [0, 0],
    ])
    expect(before.tolist()).toEqual([0, 0, 2, 6])
  })
  test('strict mode gives the bits of the steps written out', () => {
    const step = (c: s.Tensor): s.Tensor => s.softmax(c.mul(1.1).exp())
    const written = (x: s.Tensor): s.Tensor => {
      let c = x
      for (let i = 0; i < 9; i++) c = step(c)
      return c
    }
    const x = s.random.normal(s.random.key(1), [33])
    const [loop, plain] = [(y: s.Tensor) => s.foriLoop(0, 9, (_, c) => step(c), y), written].map((f) =>
      s.jit(f, { mode: 'strict' })(x).tolist(),
    )
    expect(loop).toEqual(plain)
  })
  test('pending tensors and jitted functions inside a body', () => {
    const k = t([1, 2]).add(1)
    const inner = s.jit((a: s.Tensor) => a.mul(k))
    expect(s.foriLoop(0, 2, (_, c) => inner(c), s.ones([2])).tolist()).toEqual([4, 9])
  })
  test('nothing in a carry, bools, half precision', () => {
    expect(s.foriLoop(0, 5, (_, c) => c.add(1), s.zeros([0, 3])).shape).toEqual([0, 3])
    const flip = s.jit((b: s.Tensor) => s.foriLoop(0, 3, (_, c) => s.foriLoop(0, 3, (__, d) => s.logicalNot(d), c), b))
    expect(flip(t([true, false])).tolist()).toEqual([false, true])
    expect(s.foriLoop(0, 3, (_, c) => c.add(c), s.tensor([1, 2], { dtype: 'f16' })).tolist()).toEqual([8, 16])
  })
  test('a program with control flow explains itself', () => {
    const f = s.jit((x: s.Tensor) => s.foriLoop(0, 100, (i, c) => c.mul(0.5).add(i), x))
    const report = f.explain(s.spec([8]))
    expect(report.kernels.find((k) => k.kind === 'loop')?.inner?.[0]).toMatchObject({ role: 'body', trips: 100 })
    expect(String(report)).toContain('body, 100 steps:')
  })
})
