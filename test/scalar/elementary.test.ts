/**
 * Elementary functions of doubles against sums in whole numbers of 1,300 bits: within 0.6 units in the last place over all magnitudes, at
 * the edges of each reduction too; special values as C99 has them; and the very bits of some, which every engine must give.
 */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import * as exponential from '../../src/scalar/exponential.ts'
import * as trigonometric from '../../src/scalar/trigonometric.ts'
import { makeRng } from '../random/rng.ts'

const functions = { ...exponential, ...trigonometric }
type Name = keyof typeof functions

const P = 1300n
const one = 1n << P
const mul = (a: bigint, b: bigint): bigint => (a * b) >> P
const div = (a: bigint, b: bigint): bigint => (a << P) / b
const abs = (a: bigint): bigint => (a < 0n ? -a : a)

/** A double, exactly (above 2^-1074). */
function fixed(x: number): bigint {
  const v = new DataView(new ArrayBuffer(8))
  v.setFloat64(0, Math.abs(x))
  const word = v.getBigUint64(0)
  const e = word >> 52n
  const m = (word & ((1n << 52n) - 1n)) | (e > 0n ? 1n << 52n : 0n)
  const shift = P + (e > 0n ? e : 1n) - 1075n
  return (x < 0 ? -1n : 1n) * (m << shift)
}

function sqrt(x: bigint): bigint {
  if (x === 0n) return 0n
  let y = 1n << (BigInt((x << P).toString(2).length + 1) / 2n)
  for (;;) {
    const next = (y + (x << P) / y) >> 1n
    if (next >= y) return y
    y = next
  }
}

const seriesOf = (first: bigint, ratio: (term: bigint, n: bigint) => bigint): bigint => {
  let sum = 0n
  for (let term = first, n = 1n; term !== 0n && term !== -1n; n++) {
    sum += term
    term = ratio(term, n)
  }
  return sum
}
/** artanh of a small number, and arctan. */
const artanhSeries = (s: bigint, sign: bigint): bigint => {
  const z = mul(s, s) * sign
  let power = s
  let sum = 0n
  for (let n = 1n; abs(power) > 1n; n += 2n) {
    sum += power / n
    power = mul(power, z)
  }
  return sum
}
const ln2 = 2n * artanhSeries(one / 3n, 1n)
const pi = 16n * artanhSeries(one / 5n, -1n) - 4n * artanhSeries(one / 239n, -1n)

function exp(x: bigint): bigint {
  const n = x / ln2
  const r = (x - n * ln2) >> 30n
  let y = seriesOf(one, (t, k) => mul(t, r) / k)
  for (let i = 0; i < 30; i++) y = mul(y, y)
  return n < 0n ? y >> -n : y << n
}
function log(x: bigint): bigint {
  const k = BigInt(x.toString(2).length) - P
  const m = k < 0n ? x << -k : x >> k
  let root = m
  let doubled = 1n
  for (let i = 0; i < 12; i++) {
    root = sqrt(root)
    doubled *= 2n
  }
  return k * ln2 + 2n * doubled * artanhSeries(div(root - one, root + one), 1n)
}
function sinCos(x: bigint): readonly [bigint, bigint] {
  const q = (2n * x + (x < 0n ? -pi / 2n : pi / 2n)) / pi
  const r = x - (q * pi) / 2n
  const z = mul(r, r)
  const s = seriesOf(r, (t, k) => -mul(t, z) / (2n * k * (2n * k + 1n)))
  const c = seriesOf(one, (t, k) => -mul(t, z) / (2n * k * (2n * k - 1n)))
  const turn = ((q % 4n) + 4n) % 4n
  return turn === 0n ? [s, c] : turn === 1n ? [c, -s] : turn === 2n ? [-s, -c] : [-c, s]
}
function atan(x: bigint): bigint {
  if (x < 0n) return -atan(-x)
  if (x > one) return pi / 2n - atan(div(one, x))
  let y = x
  for (let i = 0; i < 8; i++) y = div(y, one + sqrt(one + mul(y, y)))
  return artanhSeries(y, -1n) << 8n
}

const exact: Readonly<Record<Name, (x: bigint, y: bigint) => bigint>> = {
  exp,
  expm1: (x) => exp(x) - one,
  sinh: (x) => (exp(x) - exp(-x)) / 2n,
  cosh: (x) => (exp(x) + exp(-x)) / 2n,
  tanh: (x) => one - div(2n * one, exp(2n * x) + one),
  log,
  log1p: (x) => log(one + x),
  asinh: (x) => (x < 0n ? -1n : 1n) * log(abs(x) + sqrt(mul(x, x) + one)),
  acosh: (x) => log(x + sqrt(mul(x, x) - one)),
  atanh: (x) => log(div(one + x, one - x)) / 2n,
  pow: (x, y) => exp(mul(log(x), y)),
  sin: (x) => sinCos(x)[0],
  cos: (x) => sinCos(x)[1],
  tan: (x) => div(...sinCos(x)),
  atan,
  asin: (x) => (abs(x) === one ? (x * (pi / 2n)) / one : atan(div(x, sqrt(one - mul(x, x))))),
  acos: (x) => pi / 2n - exact.asin(x, x),
  atan2: (y, x) => (x < 0n ? (y < 0n ? -pi : pi) + atan(div(y, x)) : atan(div(y, x))),
}

/** Distance of a double from the exact value, in units of its last place (2^-1074 at least). */
function ulps(found: number, x: bigint): number {
  const size = Math.abs(found)
  const exponent = size < 2 ** -1022 ? -1022 : Math.floor(Math.log2(size))
  const step = 52 - exponent < 0 ? one << BigInt(exponent - 52) : one >> BigInt(52 - exponent)
  return Number((abs(fixed(found) - x) * 1000n) / step) / 1000
}

const signs = (xs: readonly number[]): number[] => xs.flatMap((x) => [x, -x])
/** Numbers of magnitudes 2^from to 2^to. */
const spread = (rng: () => number, n: number, from: number, to: number): number[] =>
  Array.from({ length: n }, () => (1 + rng() + rng() * 2 ** -28) * 2 ** Math.floor(from + rng() * (to - from)))

const operands: Readonly<Record<Name, (rng: () => number) => number[]>> = {
  exp: (r) => signs([...spread(r, 100, -60, 9), 0.34657, 0.3466, 1.0397, 709.78, 700.5]).concat(-744.9, -720.3),
  expm1: (r) => signs([...spread(r, 100, -60, 5), 0.34657, 0.3466, 39.99]).concat(40.1, 300),
  sinh: (r) => signs([...spread(r, 80, -40, 9), 39.99, 40.01, 710.4]),
  cosh: (r) => signs([...spread(r, 80, -40, 9), 39.99, 40.01, 710.4]),
  tanh: (r) => signs([...spread(r, 80, -40, 4.5), 21.9]),
  log: (r) => [
    ...spread(r, 100, -1, 1),
    ...spread(r, 60, -1000, 1000),
    1 + 2 ** -52,
    1 - 2 ** -53,
    Math.SQRT2,
    5e-324,
    3e-310,
  ],
  log1p: (r) => signs([...spread(r, 100, -60, -1.1), 0.99, 0.41421]).concat(spread(r, 40, 0, 900), -1 + 2 ** -53),
  asinh: (r) => signs([...spread(r, 80, -40, 40), 2 ** 28, 2 ** 28 + 1]),
  acosh: (r) =>
    [...spread(r, 60, 0, 40), ...spread(r, 40, -52, 0).map((x) => 1 + x), 1 + 2 ** -52].filter((x) => x > 1),
  atanh: (r) => signs([...spread(r, 80, -40, -1.01), 1 - 2 ** -53, 0.9999, 0.5]),
  pow: (r) => [...spread(r, 60, -20, 20), ...spread(r, 40, -0.1, 0.1), 3, 10, 0.1],
  sin: (r) =>
    signs([
      ...spread(r, 80, -30, 19),
      ...spread(r, 40, 19, 1000),
      0.785,
      0.7854,
      2 ** 19,
      Math.PI,
      6381956970095103 * 2 ** 797,
    ]),
  cos: (r) =>
    signs([...spread(r, 80, -30, 19), ...spread(r, 40, 19, 1000), Math.PI / 2, 1e22, 6381956970095103 * 2 ** 797]),
  tan: (r) => signs([...spread(r, 80, -30, 19), ...spread(r, 20, 19, 1000), Math.PI / 2, 11, 355, 52174]),
  atan: (r) => signs([...spread(r, 100, -40, 40), 1, 0.0625, 0.9375, 1.0625]),
  asin: (r) => signs([...spread(r, 100, -40, -1.01), 1, 0.5, 1 - 2 ** -53, 0.99999]),
  acos: (r) => signs([...spread(r, 100, -20, -1.01), 0.5, 1 - 2 ** -53, 0.99999]),
  atan2: (r) => signs([...spread(r, 40, -8, 8), ...spread(r, 20, -500, 500)]),
}
const seconds: Readonly<Partial<Record<Name, (rng: () => number, x: number) => number>>> = {
  pow: (r, x) => (r() * 2 - 1) * Math.min(1000, Math.abs(690 / functions.log(x))),
  atan2: (r, x) => (r() < 0.5 ? -1 : 1) * Math.abs(x) * 2 ** Math.floor(r() * 20 - 10),
}

describe('doubles', () => {
  it.each(Object.keys(exact) as Name[])('%s is within 0.6 units in the last place', (name) => {
    const rng = makeRng(91).unit
    const second = seconds[name]
    let worst = 0
    let at = ''
    for (const x of operands[name](rng)) {
      const y = second === undefined ? x : second(rng, x)
      const found = functions[name](x, y)
      const off = ulps(found, exact[name](fixed(x), fixed(y)))
      if (off > worst) {
        worst = off
        at = `${name}(${x}, ${y}) = ${found}`
      }
    }
    expect(worst, at).toBeLessThan(0.6)
    expect(worst).toBeGreaterThan(0)
  })

  const inf = Number.POSITIVE_INFINITY
  const special: readonly (readonly [Name, readonly number[], number])[] = [
    ['exp', [inf], inf],
    ['exp', [-inf], 0],
    ['exp', [710], inf],
    ['exp', [-746], 0],
    ['exp', [0], 1],
    ['expm1', [-0], -0],
    ['expm1', [-inf], -1],
    ['expm1', [inf], inf],
    ['log', [0], -inf],
    ['log', [-0], -inf],
    ['log', [-1], Number.NaN],
    ['log', [1], 0],
    ['log', [inf], inf],
    ['log1p', [-1], -inf],
    ['log1p', [-0], -0],
    ['log1p', [-2], Number.NaN],
    ['sinh', [-0], -0],
    ['sinh', [-inf], -inf],
    ['sinh', [720], inf],
    ['cosh', [-inf], inf],
    ['cosh', [0], 1],
    ['tanh', [-inf], -1],
    ['tanh', [-0], -0],
    ['asinh', [-inf], -inf],
    ['asinh', [-0], -0],
    ['acosh', [1], 0],
    ['acosh', [0.5], Number.NaN],
    ['acosh', [inf], inf],
    ['atanh', [1], inf],
    ['atanh', [-1], -inf],
    ['atanh', [-0], -0],
    ['atanh', [2], Number.NaN],
    ['sin', [inf], Number.NaN],
    ['sin', [-0], -0],
    ['cos', [0], 1],
    ['cos', [-inf], Number.NaN],
    ['tan', [-0], -0],
    ['tan', [inf], Number.NaN],
    ['asin', [1], Math.PI / 2],
    ['asin', [-0], -0],
    ['asin', [1.1], Number.NaN],
    ['acos', [1], 0],
    ['acos', [-1], Math.PI],
    ['acos', [0], Math.PI / 2],
    ['acos', [2], Number.NaN],
    ['atan', [inf], Math.PI / 2],
    ['atan', [-inf], -Math.PI / 2],
    ['atan', [-0], -0],
    ['atan2', [0, -0], Math.PI],
    ['atan2', [-0, -0], -Math.PI],
    ['atan2', [-0, 3], -0],
    ['atan2', [2, -0], Math.PI / 2],
    ['atan2', [-inf, -inf], (-3 * Math.PI) / 4],
    ['atan2', [inf, inf], Math.PI / 4],
    ['atan2', [1, -inf], Math.PI],
    ['atan2', [-1, inf], -0],
    ['atan2', [5e-324, 5e-324], Math.PI / 4],
    ['atan2', [1e308, -1e308], (3 * Math.PI) / 4],
    ['pow', [1, Number.NaN], 1],
    ['pow', [Number.NaN, 0], 1],
    ['pow', [-1, inf], 1],
    ['pow', [-1, 1e300], 1],
    ['pow', [-1, 3], -1],
    ['pow', [-2, 3], -8],
    ['pow', [-2, 0.5], Number.NaN],
    ['pow', [-0, -3], -inf],
    ['pow', [0, 2], 0],
    ['pow', [10, 308], 1e308],
    ['pow', [10, 309], inf],
    ['pow', [2, -1074], 5e-324],
    ['pow', [2, 1023], 2 ** 1023],
    ['pow', [3, 30], 205891132094649],
    ['pow', [1 + 2 ** -52, -1e300], 0],
  ]
  it.each(special)('%s(%j) = %d', (name, args, result) => {
    const [x = 0, y = x] = args
    expect(functions[name](x, y)).toBe(result)
  })
  it.each(Object.keys(exact) as Name[])('%s of NaN is NaN', (name) => {
    expect(functions[name](Number.NaN, 2)).toBeNaN()
  })

  it('these are the bits of every engine', () => {
    const rng = makeRng(7).unit
    const hash = createHash('sha256')
    for (const name of Object.keys(exact) as Name[])
      for (const x of operands[name](rng)) {
        const y = seconds[name]?.(rng, x) ?? x
        hash.update(Float64Array.of(functions[name](x, Math.fround(y))))
      }
    expect(hash.digest('hex').slice(0, 12)).toBe('1d874d6f78f2')
  })
})
