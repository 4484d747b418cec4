/** Control flow of the library: against plain JavaScript loops, on every device, under jit and the transforms. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { some } from '../support/nightly.ts'
import { codeOf, messageOf } from './messages.ts'

const t = (x: Parameters<typeof s.tensor>[0]): s.Tensor => s.tensor(x)
const close = (xs: readonly number[]) => xs.map((x) => expect.closeTo(x, 4))

/** The function as it is, and jitted: both must give the same. */
const ways: readonly (readonly [string, <A extends readonly unknown[], R>(f: (...a: A) => R) => (...a: A) => R])[] = [
  ['as it is', (f) => f],
  ['jitted', (f) => s.jit(f)],
]

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe.each(ways)('%s', (_, way) => {
    test('scan: a recurrence with a closure', () => {
      const w = t([0.5, -0.25])
      const run = way((h: s.Tensor, xs: s.Tensor) =>
        s.scan((c: s.Tensor, x: s.Tensor) => [c.mul(w).add(x), c.sum()] as const, h, xs),
      )
      const xs = [
        [1, 2],
        [3, 4],
        [5, 6],
      ]
      let [a, b] = [1, 1]
      const sums: number[] = []
      for (const [x = 0, y = 0] of xs) {
        sums.push(a + b)
        ;[a, b] = [a * 0.5 + x, b * -0.25 + y]
      }
      const [h, ys] = run(t([1, 1]), t(xs))
      expect(h.tolist()).toEqual(close([a, b]))
      expect(ys.tolist()).toEqual(close(sums))
    })

    test('scan: trees, reverse, no sequences, no elements', () => {
      const run = way((xs: { a: s.Tensor; b: s.Tensor[] }) =>
        s.scan(
          (c: { n: s.Tensor; fixed: string }, x: typeof xs) => [
            { n: c.n.mul(2).add(x.a), fixed: c.fixed },
            [x.b[0]?.add(c.n), null] as const,
          ],
          { n: t(1), fixed: 'kept' },
          xs,
          { reverse: true },
        ),
      )
      const [carry, [ys, nothing]] = run({ a: t([1, 2, 3]), b: [t([10, 20, 30])] })
      expect(carry.n.item()).toBe(((1 * 2 + 3) * 2 + 2) * 2 + 1)
      expect(carry.fixed).toBe('kept')
      expect(ys?.tolist()).toEqual([10 + 12, 20 + 5, 30 + 1])
      expect(nothing).toBe(null)
      const powers = way((x: s.Tensor) =>
        s.scan((c: s.Tensor, _: null) => [c.mul(2), c] as const, x, null, { length: 5 }),
      )
      const [last, all] = powers(t(1))
      expect([last.item(), all.tolist()]).toEqual([32, [1, 2, 4, 8, 16]])
      const [same, empty] = way((x: s.Tensor, xs: s.Tensor) =>
        s.scan((c: s.Tensor, y: s.Tensor) => [c.add(y.sum()), y.mul(c)] as const, x, xs),
      )(t(3), s.zeros([0, 4]))
      expect([same.item(), empty.shape]).toEqual([3, [0, 4]])
    })

    test('foriLoop: static and tensor bounds', () => {
      const sum = (lo: number | s.Tensor, hi: number | s.Tensor, x: s.Tensor) =>
        s.foriLoop(lo, hi, (i, c) => c.add(i.astype('f32')).mul(x), t(1))
      const js = (lo: number, hi: number, x: number): number => {
        let c = 1
        for (let i = lo; i < hi; i++) c = (c + i) * x
        return c
      }
      expect(way((x: s.Tensor) => sum(2, 9, x))(t(0.5)).item()).toBeCloseTo(js(2, 9, 0.5), 4)
      expect(way((x: s.Tensor) => sum(5, 5, x))(t(0.5)).item()).toBe(1)
      expect(way((x: s.Tensor) => sum(5, 2, x))(t(0.5)).item()).toBe(1)
      const i32 = (n: number) => s.tensor(n, { dtype: 'i32' })
      const dynamic = way((hi: s.Tensor, x: s.Tensor) => sum(2, hi, x))
      for (const hi of [0, 2, 3, 9]) expect(dynamic(i32(hi), t(0.5)).item()).toBeCloseTo(js(2, hi, 0.5), 4)
      const unused = way((x: s.Tensor) => s.foriLoop(0, 4, (_, c) => c.mul(2), x))
      expect(unused(t([1, 3])).tolist()).toEqual([16, 48])
    })

    test('whileLoop: collatz, and no step', () => {
      const steps = way((n: s.Tensor) => {
        const [, count] = s.whileLoop(
          ([x]) => x.notEqual(1),
          ([x, k]): [s.Tensor, s.Tensor] => [s.where(x.mod(2).equal(0), x.div(2).floor(), x.mul(3).add(1)), k.add(1)],
          [n, s.tensor(0, { dtype: 'i32' })] as [s.Tensor, s.Tensor],
        )
        return count
      })
      expect([1, 6, 27].map((n) => steps(t(n)).item())).toEqual([0, 8, 111])
    })

    test('cond: the branch taken', () => {
      const f = way((x: s.Tensor, k: s.Tensor) =>
        s.cond(
          x.sum().greater(k),
          (a: s.Tensor) => ({ y: a.mul(k), n: t([1]) }),
          (a: s.Tensor) => ({ y: a.sub(1), n: t([2]) }),
          x,
        ),
      )
      expect(f(t([1, 2]), t(2)).y.tolist()).toEqual([2, 4])
      expect(f(t([1, 2]), t(3)).y.tolist()).toEqual([0, 1])
      expect(f(t([1, 2]), t(3)).n.tolist()).toEqual([2])
      expect(
        s.cond(
          true,
          () => 1,
          () => 2,
        ),
      ).toBe(1)
    })

    test('control flow inside control flow', () => {
      const f = way((xs: s.Tensor) => {
        const [c] = s.scan(
          (c: s.Tensor, x: s.Tensor) => {
            const n = s.whileLoop(
              (v) => v.less(10),
              (v) => v.mul(2).add(x.abs()),
              x.abs().add(1),
            )
            return [
              s.cond(
                x.greater(0),
                (v: s.Tensor) => c.add(v),
                (v: s.Tensor) => c.sub(v),
                n,
              ),
              null,
            ] as const
          },
          t(0),
          xs,
        )
        return c
      })
      let want = 0
      for (const x of [3, -1, 0.5, -20]) {
        let v = Math.abs(x) + 1
        while (v < 10) v = v * 2 + Math.abs(x)
        want += x > 0 ? v : -v
      }
      expect(f(t([3, -1, 0.5, -20])).item()).toBeCloseTo(want, 3)
    })

    test.each(some([7, 1, 2, 3, 8, 13], 3))('associativeScan of %i', (n) => {
      // A linear recurrence h = a h + b as pairs.
      const a = Array.from({ length: n }, (_, i) => 0.5 + i / 20)
      const b = Array.from({ length: n }, (_, i) => i - 2)
      type Pair = { a: s.Tensor; b: s.Tensor }
      const join = (p: Pair, q: Pair): Pair => ({ a: p.a.mul(q.a), b: p.b.mul(q.a).add(q.b) })
      const f = way((p: Pair, reverse: boolean) => s.associativeScan(join, p, { axis: 1, reverse }).b)
      for (const reverse of [false, true]) {
        let h = 0
        const want: number[] = []
        for (let k = 0; k < n; k++) {
          const i = reverse ? n - 1 - k : k
          h = h * (a[i] ?? 0) + (b[i] ?? 0)
          want[i] = h
        }
        expect(f({ a: t([a]), b: t([b]) }, reverse).tolist()).toEqual([close(want)])
      }
    })

    test('random bits in a loop differ from step to step', () => {
      const f = way((key: s.Tensor) =>
        s.scan(
          (k: s.Tensor, _: null) => {
            const [next, mine] = s.random.split(k)
            if (next === undefined || mine === undefined) throw new Error('no keys')
            return [next, s.random.uniform(mine, [3])] as const
          },
          key,
          null,
          { length: 4 },
        ),
      )
      const [, ys] = f(s.random.key(7))
      expect(new Set((ys.tolist() as number[][]).flat()).size).toBe(12)
    })
  })

  test('mismatches name both sides', () => {
    const x = t([1, 2])
    const message = (f: () => unknown) => messageOf(f)
    expect(codeOf(() => s.scan((c: s.Tensor, v: s.Tensor) => [s.concat([c, c]), v] as const, x, x))).toBe('E_SHAPE')
    expect(
      message(() =>
        s.whileLoop(
          () => t(true).any(),
          (c) => s.concat([c, c]),
          x,
        ),
      ),
    ).toContain('the body gives f32[4] for the carry, where it takes f32[2]')
    expect(codeOf(() => s.foriLoop(0, 2, (_, c) => c.astype('i32'), x))).toBe('E_DTYPE')
    expect(codeOf(() => s.foriLoop(0, 2, (_, c) => ({ n: c.n + 1 }), { n: 0 }))).toBe('E_STRUCTURE')
    expect(codeOf(() => s.foriLoop(0.5, 2, (_, c) => c, x))).toBe('E_ARGUMENT')
    expect(
      codeOf(() =>
        s.cond(
          t(true),
          () => x,
          () => [x] as never,
        ),
      ),
    ).toBe('E_STRUCTURE')
    expect(
      codeOf(() =>
        s.cond(
          t(1),
          () => x,
          () => x,
        ),
      ),
    ).toBe('E_DTYPE')
    expect(
      codeOf(() =>
        s.whileLoop(
          (c) => c.less(3),
          (c) => c,
          x,
        ),
      ),
    ).toBe('E_DTYPE')
    expect(codeOf(() => s.scan((c: s.Tensor, v: s.Tensor[]) => [c, v] as const, x, [x, t([1])]))).toBe('E_SHAPE')
    expect(codeOf(() => s.scan((c: s.Tensor, v: s.Tensor) => [c, v] as const, x, t(1)))).toBe('E_SHAPE')
    expect(codeOf(() => s.scan((c: s.Tensor, v: null) => [c, v] as const, x, null))).toBe('E_ARGUMENT')
    expect(codeOf(() => s.scan((c: s.Tensor) => c as never, x, x))).toBe('E_STRUCTURE')
    expect(codeOf(() => s.foriLoop(0, 2, (_, c) => s.inspect(c, () => {}), x))).toBe('E_UNSUPPORTED')
    expect(codeOf(() => s.associativeScan((a: s.Tensor) => a.sum(), x))).toBe('E_SHAPE')
    expect(codeOf(() => s.associativeScan(([a]: s.Tensor[]) => [a] as s.Tensor[], [x, t([1])]))).toBe('E_SHAPE')
    expect(codeOf(() => s.associativeScan((a: s.Tensor) => a, x, { axis: 1 }))).toBe('E_AXIS')
    expect(codeOf(() => s.associativeScan((a: null) => a, null))).toBe('E_ARGUMENT')
    expect(message(() => s.foriLoop(0, 2, (_, c) => c.astype('i32'), x))).toMatch(/control\.test\.ts/)
  })

  test('a tracer kept from a body', () => {
    let kept: s.Tensor | undefined
    s.foriLoop(
      0,
      2,
      (_, c) => {
        kept = c
        return c
      },
      t(1),
    )
    expect(codeOf(() => kept?.add(1))).toBe('E_LEAKED_TRACER')
    expect(codeOf(() => kept?.item())).toBe('E_LEAKED_TRACER')
    expect(codeOf(() => s.foriLoop(0, 2, (_, c) => t(Number(c.item())), t(1)))).toBe('E_NOT_CONCRETE')
  })

  test('outside jit equal control flow is compiled once', () => {
    const run = (k: number): unknown => s.foriLoop(0, 3, (i, c) => c.mul(t([k, 2])).add(i), t([1, 1])).tolist()
    const want = (k: number): number[] => [((k + 0) * k + 1) * k + 2, ((2 + 0) * 2 + 1) * 2 + 2]
    const scoped = (k: number): void =>
      s.tidy(() => {
        expect(run(k)).toEqual(want(k))
      })
    scoped(2)
    const before = s.memory().used
    scoped(2)
    expect(s.memory().used).toBe(before)
    scoped(3)
  })

  test('memory comes back', () => {
    const f = s.jit((x: s.Tensor) => s.foriLoop(0, 5, (i, c) => s.matmul(c, x).add(i.astype('f32')), x))
    const x = s.ones([8, 8])
    f(x).dispose()
    const before = s.memory().used
    for (let i = 0; i < 3; i++) f(x).dispose()
    expect(s.memory().used).toBe(before)
  })
})

describe('derivatives and batches', () => {
  beforeAll(() => chooseDevice('wasm', { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  const rnn = (w: s.Tensor, xs: s.Tensor): s.Tensor => {
    const [h] = s.scan((c: s.Tensor, x: s.Tensor) => [c.mul(w).add(x).tanh(), null] as const, s.zeros([2]), xs)
    return h.sum()
  }
  const unrolled = (w: s.Tensor, xs: s.Tensor): s.Tensor => {
    let h = s.zeros([2])
    for (let i = 0; i < 3; i++) h = h.mul(w).add(xs.slice(i)).tanh()
    return h.sum()
  }
  const w = t([0.5, -0.3])
  const xs = t([
    [1, 2],
    [-1, 0.5],
    [0.25, 3],
  ])
  test.each(ways)('gradient of a scan, %s', (_, way) => {
    expect(way((a: s.Tensor) => s.grad(rnn)(a, xs))(w).tolist()).toEqual(
      close((s.grad(unrolled)(w, xs) as s.Tensor).tolist() as number[]),
    )
  })
  test.each(ways)('a batch of scans, %s', (_, way) => {
    const ws = s.stack([w, w.mul(2)])
    const each = [w, w.mul(2)].map((v) => unrolled(v, xs).item())
    expect(way((a: s.Tensor) => s.vmap((v: s.Tensor) => rnn(v, xs))(a))(ws).tolist()).toEqual(close(each as number[]))
  })
  test('donation and strict mode', () => {
    const f = s.jit((x: s.Tensor) => s.foriLoop(0, 3, (_, c) => c.mul(2), x), { donate: [0], mode: 'strict' })
    const x = t([1, 2, 3])
    expect(f(x).tolist()).toEqual([8, 16, 24])
    expect(x.disposed).toBe(true)
  })
})
