/** Special functions of f64 in fast mode: vector formulas over all magnitudes, held to their bounds; one element gives the same bits as four. */
import { expect, test } from 'vitest'
import { boundOf, ulpOf, withinBound } from '../../src/scalar/bounds.ts'
import { floatBinary, floatUnary } from '../../src/scalar/float.ts'
import { runOp } from './harness.ts'

const functions = [
  ...(['exp', 'expm1', 'log', 'log1p', 'sigmoid', 'sinh', 'cosh', 'tanh', 'erf', 'asinh', 'acosh', 'atanh'] as const),
  ...(['cbrt', 'erfc', 'erfinv', 'lgamma', 'digamma', 'trigamma'] as const),
]

/** Bit patterns far apart, both signs, and numbers where the functions bend. */
function operands(): Float64Array {
  const patterns = new BigUint64Array(16384)
  for (let i = 0; i < patterns.length; i++) patterns[i] = BigInt.asUintN(64, BigInt(i) * 0x0003fffb1d2c3a57n)
  const bends = Array.from({ length: 12288 }, (_, i) => ((i - 6144) / 6144) ** 3 * ([2, 30, 760][i % 3] ?? 1))
  const edges = [0, -0, 1, -1, 0.5, 709.782712893384, 709.7827128933841, -708.4, -745.2, 2 ** -1030, Number.NaN]
  const all = [
    ...new Float64Array(patterns.buffer),
    ...bends,
    ...edges,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ]
  return new Float64Array(all.slice(0, all.length & ~3).concat(all.slice(-4)))
}

const x = operands()

test.each(functions)('%s', (op) => {
  for (const relaxed of [true, false]) {
    const spec = { op, operand: 'f64', result: 'f64', mode: 'fast', relaxed } as const
    const got = runOp({ ...spec, lanes: 4 }, [x]) as Float64Array
    let worst = 0
    let at = 0
    for (let i = 0; i < x.length; i++) {
      const [v = 0, g = 0] = [x[i], got[i]]
      const e = floatUnary[op](v)
      if (!withinBound(op, 'f64', g, e)) expect.fail(`${op}(${v}) = ${g}, not ${e}`)
      if (!Number.isFinite(e) || Math.abs(e) < 2 ** -1022 || Math.abs(g - e) <= (boundOf(op).absolute ?? 0)) continue
      const units = Math.abs(g - e) / ulpOf('f64', e)
      if (units > worst) [worst, at] = [units, v]
    }
    console.log(`${op}: worst ${worst.toFixed(3)} ulp at ${at}`)
    const single = runOp({ ...spec, lanes: 1 }, [x.subarray(0, 4096)])
    expect(new BigUint64Array(single.buffer)).toEqual(new BigUint64Array(got.buffer.slice(0, 8 * 4096)))
  }
})

test('pow', () => {
  // Bases and exponents of all magnitudes; results of all magnitudes, of bases beside one too; the special cases of C99.
  const special = [
    0,
    -0,
    1,
    -1,
    2,
    -2,
    0.5,
    3,
    -3,
    2 ** 53,
    -1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ]
  const bases: number[] = special.flatMap((a) => special.map(() => a))
  const exponents: number[] = special.flatMap(() => special)
  for (let i = 0; i < 8192; i++) {
    const [u, w] = [((i * 0.6180339887498949) % 1) - 0.5, ((i * 0.7548776662466927) % 1) - 0.5]
    const base = [2 ** (2100 * u), 1 + u * 2 ** -(i % 40), 4 * u, 10 ** (6 * u)][i % 4] ?? 1
    const reach = Math.log(Math.abs(base)) || 1
    bases.push(base)
    exponents.push(
      [(1500 * w) / reach, Math.round((1500 * w) / reach), 6 * w, Math.round(9 * w) / 2][(i >> 2) % 4] ?? 1,
    )
  }
  const length = bases.length & ~3
  const [a, b] = [new Float64Array(bases.slice(0, length)), new Float64Array(exponents.slice(0, length))]
  for (const relaxed of [true, false]) {
    const spec = { op: 'pow', operand: 'f64', result: 'f64', mode: 'fast', relaxed } as const
    const got = runOp({ ...spec, lanes: 4 }, [a, b]) as Float64Array
    let worst = 0
    for (let i = 0; i < length; i++) {
      const [p = 0, q = 0, g = 0] = [a[i], b[i], got[i]]
      const e = floatBinary.pow(p, q)
      if (!withinBound('pow', 'f64', g, e)) expect.fail(`pow(${p}, ${q}) = ${g}, not ${e}`)
      if (Number.isFinite(e) && Math.abs(e) >= 2 ** -1022) worst = Math.max(worst, Math.abs(g - e) / ulpOf('f64', e))
    }
    console.log(`pow: worst ${worst.toFixed(3)} ulp`)
    // Powers that are whole numbers are exact.
    const whole = Float64Array.from({ length: 400 }, (_, i) => (i % 20) - 9)
    const count = Float64Array.from({ length: 400 }, (_, i) => Math.floor(i / 20) % 16)
    expect(runOp({ ...spec, lanes: 4 }, [whole, count])).toEqual(whole.map((w, i) => w ** (count[i] ?? 0)))
  }
})
