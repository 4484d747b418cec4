/**
 * Random values of distributions: moments and distribution functions of many draws from fixed seeds, within bounds that fail by chance with a
 * probability below 1e-6 (5 standard errors; Kolmogorov and Smirnov's 2.7 / sqrt(n)); what does not depend on chance exactly.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { atNight, nightly } from '../support/nightly.ts'

const t = s.tensor
const n = nightly ? 20_000 : 5000
const numbers = (x: s.Tensor): number[] => Array.from<number | bigint, number>(x.dataSync(), Number)
const inf = Number.POSITIVE_INFINITY

/** Greatest distance of the draws' distribution function from F. */
function distance(draws: readonly number[], F: (v: number) => number): number {
  const sorted = draws.toSorted((a, b) => a - b)
  return sorted.reduce((most, v, i) => {
    const at = F(v)
    return Math.max(most, Math.abs(at - i / sorted.length), Math.abs(at - (i + 1) / sorted.length))
  }, 0)
}
const bound = 2.7 / Math.sqrt(n)

/** The integral of a density from a to v, by Simpson's rule. */
function integral(f: (v: number) => number, a: number, v: number, steps = 400): number {
  const h = (v - a) / steps
  let sum = f(a) + f(v)
  for (let i = 1; i < steps; i++) sum += f(a + i * h) * (i % 2 === 1 ? 4 : 2)
  return (sum * h) / 3
}

/** Shares of the draws. */
const shares = (draws: readonly number[], count: number): number[] =>
  Array.from({ length: count }, (_, i) => draws.filter((v) => v === i).length / draws.length)
/** Each share within 5 standard errors of its probability. */
function expectShares(draws: readonly number[], p: readonly number[]): void {
  shares(draws, p.length).forEach((share, i) => {
    const want = p[i] ?? 0
    expect(Math.abs(share - want)).toBeLessThanOrEqual(5 * Math.sqrt((want * (1 - want)) / draws.length))
  })
}

describe.each(nightly ? (['reference', 'wasm'] as const) : (['wasm'] as const))('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  const key = s.random.key

  it('exponential', () => {
    const x = numbers(s.random.exponential(key(1), [n]))
    expect(distance(x, (v) => 1 - Math.exp(-v))).toBeLessThan(bound)
    expect(Math.min(...x)).toBeGreaterThanOrEqual(0)
    expect(s.random.exponential(key(1), [2], 'bf16').dtype).toBe('bf16')
    expect(s.random.exponential(key(1), [0]).shape).toEqual([0])
  })

  it('gumbel', () => {
    const x = numbers(s.random.gumbel(key(2), [n]))
    expect(distance(x, (v) => Math.exp(-Math.exp(-v)))).toBeLessThan(bound)
    expect(distance(numbers(s.random.gumbel(key(3), [n], 'f64')), (v) => Math.exp(-Math.exp(-v)))).toBeLessThan(bound)
    expect(x.every(Number.isFinite)).toBe(true)
  })

  it('categorical', () => {
    const p = [0.1, 0.2, 0.05, 0.65]
    const logits = t(p).log().add(3)
    expectShares(numbers(s.random.categorical(key(4), logits, { shape: [n] })), p)
    const rows = s.stack([t([0, -inf, -inf]), t([-inf, -inf, 2])])
    expect(s.random.categorical(key(4), rows).tolist()).toEqual([0, 2])
    expect(s.random.categorical(key(4), rows.T, { axis: 0, shape: [3, 2] }).tolist()).toEqual([
      [0, 2],
      [0, 2],
      [0, 2],
    ])
    expect(s.random.categorical(key(4), rows).dtype).toBe('i32')
  })

  it('permutation', () => {
    for (const size of nightly ? [0, 1, 2, 7, 100, 2000] : [0, 1, 100]) {
      const order = numbers(s.random.permutation(key(5), size))
      expect(order.toSorted((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i))
    }
    // Each of the 6 orders of 3.
    const orders = s.vmap((k: s.Tensor) => s.random.permutation(k, 3))(
      s.random.bits(key(6), [nightly ? 3000 : 1000, 2]),
    )
    const codes = numbers(orders.at(null, 0).get().mul(3).add(orders.at(null, 1).get()))
    const names = [1, 2, 3, 5, 6, 7]
    expectShares(
      codes.map((v) => names.indexOf(v)),
      new Array<number>(6).fill(1 / 6),
    )
    const x = s.arange(0, 12, 1, 'i32').reshape([3, 4])
    const rows = s.random.permutation(key(7), x, 1).tolist() as number[][]
    expect(rows.map((row) => row.map((v) => v % 4))).toEqual(rows.map(() => rows[0]))
  })

  it('choice', () => {
    expectShares(numbers(s.random.choice(key(8), 5, [n])), new Array<number>(5).fill(0.2))
    const p = [0.5, 0, 0.1, 0.4]
    expectShares(numbers(s.random.choice(key(9), 4, [n], { p: t(p) })), p)
    const x = t([
      [1, 2, 3],
      [4, 5, 6],
    ])
    expect(s.random.choice(key(1), x, [2, 5], { axis: 1 }).shape).toEqual([2, 2, 5])
    const all = s.random.choice(key(1), x, [3], { axis: 1, replace: false })
    expect(s.sort(all).tolist()).toEqual(x.tolist())
    expect(new Set(numbers(s.random.choice(key(2), 500, [499], { replace: false }))).size).toBe(499)
    // Without replacement the first is drawn by p; what has none is never drawn while others are left.
    const weights = t([1, 0, 3, 4])
    const draw = (k: s.Tensor): s.Tensor => s.random.choice(k, 4, [3], { replace: false, p: weights })
    const triples = s.vmap(draw)(s.random.bits(key(3), [nightly ? 4000 : 1000, 2]))
    expectShares(numbers(triples.at(null, 0).get()), [0.125, 0, 0.375, 0.5])
    expect(triples.equal(1).any().item()).toBe(false)
    expect(s.random.choice(key(1), 3, [0]).shape).toEqual([0])
    expect(s.random.choice(key(1), 0, [0]).shape).toEqual([0])
  })

  describe('gamma', () => {
    // Distribution functions by integration of the density, in the square root of the value, where it has no pole.
    const Gamma: Readonly<Record<number, number>> = {
      0.5: Math.sqrt(Math.PI),
      1: 1,
      2.5: 1.329340388,
      30: 8.841761993739702e30,
    }
    it.each([0.5, 1, 2.5, 30])('of %f', (alpha) => {
      const x = numbers(s.random.gamma(key(11), alpha, [n]))
      const density = (r: number): number => (2 * r ** (2 * alpha - 1) * Math.exp(-r * r)) / (Gamma[alpha] ?? 1)
      expect(
        distance(
          x.filter((_, i) => i % 10 === 0),
          (v) => integral(density, 0, Math.sqrt(v)),
        ),
      ).toBeLessThan(2.7 / Math.sqrt(n / 10))
      const mean = x.reduce((a, b) => a + b, 0) / n
      expect(Math.abs(mean - alpha)).toBeLessThan(5 * Math.sqrt(alpha / n))
    })
    it('of tensors, dtypes and very small parameters', () => {
      const x = s.random
        .gamma(key(12), t([1, 100]), [n, 2])
        .mean(0)
        .tolist() as number[]
      expect(Math.abs((x[0] ?? 0) - 1)).toBeLessThan(5 / Math.sqrt(n))
      expect(Math.abs((x[1] ?? 0) - 100)).toBeLessThan(50 / Math.sqrt(n))
      expect(s.random.gamma(key(1), t([1, 2, 3]), undefined, 'f64').dtype).toBe('f64')
      expect(s.random.gamma(key(1), 1e-3, [100]).isfinite().all().item()).toBe(true)
    })
    it('has no derivative in its parameter, and says so', () => {
      const f = (a: s.Tensor): s.Tensor => s.random.gamma(key(1), a).sum()
      expect(() => s.grad(f)(t([1, 2]))).toThrow('E_UNSUPPORTED')
      const g = (a: s.Tensor): s.Tensor => s.random.gamma(key(1), s.stopGradient(a)).mul(a).sum()
      expect(
        s
          .grad(g)(t([1, 2]))
          .tolist(),
      ).toEqual(s.random.gamma(key(1), t([1, 2])).tolist())
    })
    atNight('in batches: each key draws its own', () => {
      const keys = s.random.bits(key(4), [3, 2])
      const batch = s.vmap((k: s.Tensor) => s.random.gamma(k, t([0.5, 4])))(keys)
      const alone = [0, 1, 2].map((i) => s.random.gamma(keys.at(i).get(), t([0.5, 4])).tolist())
      expect(s.allclose(batch, t(alone as number[][]), { rtol: 1e-5 }).item()).toBe(true)
    })
  })

  it('beta', () => {
    const x = numbers(s.random.beta(key(13), 2, 3, [n]))
    expect(distance(x, (v) => v * v * (6 - 8 * v + 3 * v * v))).toBeLessThan(bound)
    // Where the gamma values underflow there are shares all the same.
    const odd = numbers(s.random.beta(key(14), 1e-3, 1e-3, [2000]))
    expect(odd.every((v) => v >= 0 && v <= 1)).toBe(true)
    expect(Math.abs(odd.reduce((a, b) => a + b, 0) / 2000 - 0.5)).toBeLessThan(5 * Math.sqrt(0.25 / 2000))
    expect(s.random.beta(key(1), t([1, 2]), t([[1], [2], [3]])).shape).toEqual([3, 2])
  })

  it('truncatedNormal', () => {
    const density = (v: number): number => Math.exp(-0.5 * v * v)
    for (const [low, high] of [
      [-1, 2],
      [0.5, inf],
      [-3.5, -2],
    ] as const) {
      const x = numbers(s.random.truncatedNormal(key(15), low, high, [n / 10]))
      const [a, b] = [Math.max(low, -9), Math.min(high, 9)]
      const all = integral(density, a, b, 2000)
      expect(distance(x, (v) => integral(density, a, v) / all)).toBeLessThan(2.7 / Math.sqrt(n / 10))
      expect(x.every((v) => v >= low && v <= high)).toBe(true)
    }
    const f = (low: s.Tensor): s.Tensor => s.random.truncatedNormal(key(1), low, 2, [4], 'f64').sum()
    const [at, h] = [t(-1, { dtype: 'f64' }), 1e-6]
    const difference = (f(at.add(h)).item() as number) - (f(at.sub(h)).item() as number)
    expect(s.grad(f)(at).item()).toBeCloseTo(difference / (2 * h), 4)
  })
})
