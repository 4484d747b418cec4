/** Scalar semantics: every operation on every dtype it is defined on, against docs/numerics.md. */
import { describe, expect, it } from 'vitest'
import { InternalError } from '../../src/diagnostics/errors.ts'
import { erf, evalScalar, roundTo } from '../../src/scalar/eval.ts'
import { floatUnary } from '../../src/scalar/float.ts'
import { extreme, type Scalar, type ScalarOp, scalarInfo, scalarOps } from '../../src/scalar/ops.ts'
import { allDTypes, type DType, dtypeBits, dtypeClass, isFloat, isInteger, isWide } from '../../src/types/dtype.ts'

const inf = Number.POSITIVE_INFINITY
const nan = Number.NaN
const ops = Object.keys(scalarOps) as ScalarOp[]
const integers = allDTypes.filter(isInteger)
const floats = allDTypes.filter(isFloat)

/** Telling values of a dtype. */
function samples(dtype: DType): Scalar[] {
  if (dtype === 'bool') return [false, true]
  if (isFloat(dtype)) return [-inf, -2.5, -1.5, -1, -0.5, -0, 0, 0.25, 0.5, 1, 1.5, 2.5, 3, 100, inf, nan]
  const least = BigInt(extreme(dtype, 'least'))
  const greatest = BigInt(extreme(dtype, 'greatest'))
  const bits = BigInt(dtypeBits(dtype))
  const small = [-128n, -9n, -8n, -3n, -2n, -1n, 0n, 1n, 2n, 3n, 7n, 8n, 9n, 100n, 127n]
  const all = [least, least + 1n, ...small, bits - 1n, bits, greatest / 3n, greatest - 1n, greatest]
  const kept = [...new Set(all.filter((v) => v >= least && v <= greatest))]
  return isWide(dtype) ? kept : kept.map(Number)
}

const wrap = (dtype: DType, v: bigint): bigint =>
  dtypeClass(dtype) === 'unsigned' ? BigInt.asUintN(dtypeBits(dtype), v) : BigInt.asIntN(dtypeBits(dtype), v)

const kindOf = (dtype: DType): string => (dtype === 'bool' ? 'boolean' : isWide(dtype) ? 'bigint' : 'number')
const resultOf = (op: ScalarOp, dtype: DType): DType => (scalarInfo(op).result === 'bool' ? 'bool' : dtype)

describe('every operation on every dtype', () => {
  it.each(ops.filter((op) => op !== 'cast' && op !== 'bitcast'))('%s gives its result type, or refuses', (op) => {
    const { arity, on } = scalarInfo(op)
    for (const dtype of allDTypes) {
      const values = samples(dtype)
      const [a = 0] = values
      const args: Scalar[] = op === 'select' ? [true, a, a] : new Array<Scalar>(arity).fill(a)
      if (!on.includes(dtypeClass(dtype))) {
        expect(() => evalScalar(op, dtype, dtype, args), dtype).toThrow(InternalError)
        continue
      }
      const result = resultOf(op, dtype)
      for (const x of values)
        for (const y of arity === 1 ? [x] : values) {
          const r = evalScalar(op, dtype, result, op === 'select' ? [true, x, y] : [x, y].slice(0, arity))
          expect(typeof r, `${op} ${dtype} ${x} ${y}`).toBe(kindOf(result))
          if (isInteger(result)) expect(roundTo(result, r), `${op} ${dtype} ${x} ${y}`).toBe(r)
        }
    }
  })

  it('has the algebra the table claims', () => {
    for (const op of ops) {
      const info = scalarInfo(op)
      for (const dtype of allDTypes) {
        if (!info.on.includes(dtypeClass(dtype)) || info.result === 'attr') continue
        const values = samples(dtype)
        const of = (...args: Scalar[]): Scalar => evalScalar(op, dtype, resultOf(op, dtype), args)
        if (info.commutative) for (const x of values) for (const y of values) expect(of(x, y)).toEqual(of(y, x))
        if (info.idempotent) for (const x of values) expect(of(of(x))).toEqual(of(x))
        if (info.odd)
          for (const x of values) {
            const minus = evalScalar('neg', dtype, dtype, [x])
            expect(of(minus), `${op} ${dtype} ${x}`).toEqual(evalScalar('neg', dtype, dtype, [of(x)]))
          }
        if (!info.monotone) continue
        const ordered = values
          .filter((v) => !Number.isNaN(Number(v)) && !Number.isNaN(Number(of(v))))
          .sort((x, y) => (x < y ? -1 : x > y ? 1 : 0))
        ordered.slice(1).forEach((x, i) => {
          const before = ordered[i] ?? x
          expect(of(x) >= of(before), `${op} ${dtype} ${before} ${x}`).toBe(true)
        })
      }
    }
  })
})

/** Integer meaning in exact arithmetic, wrapped at the end. */
const exactInteger: Partial<Record<ScalarOp, (a: bigint, b: bigint, dtype: DType) => bigint>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => (b === 0n ? 0n : a / b),
  rem: (a, b) => (b === 0n ? a : a % b),
  max: (a, b) => (a > b ? a : b),
  min: (a, b) => (a < b ? a : b),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  pow: (a, b) => {
    if (b < 0n) return a === 1n ? 1n : a === -1n ? (b % 2n === 0n ? 1n : -1n) : 0n
    let r = 1n
    for (let e = b > 300n ? 300n + (b % 2n) : b; e > 0n; e--) r *= a
    return r
  },
  shl: (a, b, d) => {
    const count = BigInt.asUintN(dtypeBits(d), b)
    return count >= BigInt(dtypeBits(d)) ? 0n : a << count
  },
  shr: (a, b, d) => {
    const count = BigInt.asUintN(dtypeBits(d), b)
    return count >= BigInt(dtypeBits(d)) ? (a < 0n ? -1n : 0n) : a >> count
  },
  neg: (a) => -a,
  abs: (a) => (a < 0n ? -a : a),
  sign: (a) => (a > 0n ? 1n : a < 0n ? -1n : 0n),
  not: (a) => ~a,
  floor: (a) => a,
  ceil: (a) => a,
  round: (a) => a,
  trunc: (a) => a,
}

describe('integers', () => {
  const defined = ops.filter(
    (op) => scalarInfo(op).on.includes('signed') && scalarInfo(op).result === 'same' && op !== 'select',
  )
  it.each(defined)('%s is exact and wraps', (op) => {
    const exact = exactInteger[op]
    if (exact === undefined) throw new Error(`no meaning for ${op}`)
    for (const dtype of integers)
      for (const x of samples(dtype))
        for (const y of samples(dtype)) {
          // The exact power of a large exponent is out of reach; bases 0, 1, -1 and 2 tell the wraparound.
          if (op === 'pow' && BigInt(y) > 300n && !['0', '1', '-1'].includes(String(x))) continue
          const r = evalScalar(op, dtype, dtype, scalarInfo(op).arity === 1 ? [x] : [x, y])
          const want = wrap(dtype, exact(BigInt(x), BigInt(y), dtype))
          expect(BigInt(r), `${op} ${dtype} ${x} ${y}`).toBe(want)
          expect(Object.is(r, -0)).toBe(false)
        }
  })

  it('powers wrap for large exponents', () => {
    expect(evalScalar('pow', 'i32', 'i32', [3, 1000])).toBe(Number(BigInt.asIntN(32, 3n ** 1000n)))
    expect(evalScalar('pow', 'u64', 'u64', [3n, 1000n])).toBe(BigInt.asUintN(64, 3n ** 1000n))
    expect(evalScalar('pow', 'u32', 'u32', [4294967295, 4294967295])).toBe(4294967295)
  })

  it('least by -1', () => {
    for (const dtype of integers.filter((d) => dtypeClass(d) === 'signed')) {
      const least = extreme(dtype, 'least')
      const minusOne = isWide(dtype) ? -1n : -1
      expect(evalScalar('div', dtype, dtype, [least, minusOne])).toBe(least)
      expect(Number(evalScalar('rem', dtype, dtype, [least, minusOne]))).toBe(0)
      expect(evalScalar('abs', dtype, dtype, [least])).toBe(least)
    }
  })
})

describe('comparisons', () => {
  it.each(allDTypes)('of %s agree with order', (dtype) => {
    for (const x of samples(dtype))
      for (const y of samples(dtype)) {
        const of = (op: ScalarOp): Scalar => evalScalar(op, dtype, 'bool', [x, y])
        expect([of('lt'), of('le'), of('gt'), of('ge'), of('eq'), of('ne')]).toEqual([
          x < y,
          x <= y,
          x > y,
          x >= y,
          x === y,
          x !== y,
        ])
      }
  })
})

describe('floats', () => {
  const of = (op: ScalarOp, ...args: number[]): Scalar => evalScalar(op, 'f32', resultOf(op, 'f32'), args)
  it.each<[ScalarOp, number[], Scalar]>([
    ['max', [nan, 1], nan],
    ['max', [1, nan], nan],
    ['min', [nan, 1], nan],
    ['max', [-0, 0], 0],
    ['max', [0, -0], 0],
    ['min', [0, -0], -0],
    ['min', [-0, 0], -0],
    ['sign', [nan], nan],
    ['sign', [-0], -0],
    ['sign', [-inf], -1],
    ['round', [0.5], 0],
    ['round', [1.5], 2],
    ['round', [2.5], 2],
    ['round', [-0.5], -0],
    ['round', [-1.5], -2],
    ['round', [-0], -0],
    ['round', [0.49999999999999994], 0],
    ['round', [2251799813685248.5], 2251799813685248],
    ['round', [-inf], -inf],
    ['floor', [-0.5], -1],
    ['ceil', [-0.5], -0],
    ['trunc', [-1.5], -1],
    ['rem', [-7, 3], -1],
    ['rem', [7, -3], 1],
    ['rem', [-6, 3], -0],
    ['rem', [1, 0], nan],
    ['rem', [5, inf], 5],
    ['div', [1, 0], inf],
    ['div', [-1, 0], -inf],
    ['div', [0, 0], nan],
    ['pow', [nan, 0], 1],
    ['pow', [1, nan], 1],
    ['pow', [1, inf], 1],
    ['pow', [-1, inf], 1],
    ['pow', [-1, -inf], 1],
    ['pow', [-8, 1 / 3], nan],
    ['pow', [-2, 3], -8],
    ['pow', [-0, -3], -inf],
    ['pow', [0, -2], inf],
    ['sqrt', [-1], nan],
    ['sqrt', [-0], -0],
    ['rsqrt', [0], inf],
    ['log', [0], -inf],
    ['log', [-1], nan],
    ['exp', [-inf], 0],
    ['expm1', [-0], -0],
    ['log1p', [-1], -inf],
    ['tanh', [inf], 1],
    ['sigmoid', [-inf], 0],
    ['sigmoid', [inf], 1],
    ['sigmoid', [0], 0.5],
    ['sigmoid', [nan], nan],
    ['erf', [inf], 1],
    ['erf', [-inf], -1],
    ['erf', [-0], -0],
    ['erf', [nan], nan],
    ['atan2', [0, -0], Math.PI],
    ['atanh', [1], inf],
    ['isnan', [nan], true],
    ['isnan', [inf], false],
    ['isinf', [-inf], true],
    ['isinf', [nan], false],
  ])('%s of %j is %s', (op, args, expected) => {
    expect(of(op, ...args)).toBe(expected)
  })

  it('does not round', () => {
    for (const dtype of floats) expect(evalScalar('div', dtype, dtype, [1, 3])).toBe(1 / 3)
  })

  it('sigmoid is accurate in both tails', () => {
    expect(of('sigmoid', -700)).toBeCloseTo(Math.exp(-700), 320)
    expect(Number(of('sigmoid', -40)) / Math.exp(-40)).toBeCloseTo(1, 14)
  })
})

it.each([
  [1e-300, 1.1283791670955126e-300, 1],
  [1e-8, 1.1283791670955126e-8, 0.9999999887162083],
  [0.1, 0.1124629160182849, 0.8875370839817152],
  [0.5, 0.5204998778130465, 0.4795001221869535],
  [1, 0.8427007929497149, 0.15729920705028513],
  [1.5, 0.9661051464753108, 0.033894853524689274],
  [2, 0.9953222650189527, 0.004677734981047266],
  [2.5, 0.999593047982555, 0.00040695201744495897],
  [3, 0.9999779095030014, 2.2090496998585445e-5],
  [5, 0.9999999999984626, 1.5374597944280347e-12],
  [10, 1, 2.088487583762545e-45],
  [26, 1, 5.663192408856143e-296],
])('erf(%d) and erfc to a few ulp', (x, e, c) => {
  expect(Math.abs(erf(x) / e - 1)).toBeLessThan(1e-15)
  expect(Math.abs(erf(-x) / -e - 1)).toBeLessThan(1e-15)
  expect(Math.abs(floatUnary.erfc(x) / c - 1)).toBeLessThan(2e-14)
  expect(Math.abs(floatUnary.erfc(-x) / (1 + e) - 1)).toBeLessThan(1e-15)
})

describe('casts', () => {
  const cast = (value: Scalar, from: DType, to: DType): Scalar => roundTo(to, evalScalar('cast', from, to, [value]))
  it.each<[Scalar, DType, DType, Scalar]>([
    [1.9, 'f32', 'i32', 1],
    [-1.9, 'f32', 'i32', -1],
    [-0.5, 'f32', 'i32', 0],
    [nan, 'f32', 'i32', 0],
    [inf, 'f32', 'i32', 2147483647],
    [-inf, 'f64', 'i32', -2147483648],
    [300, 'f32', 'u8', 255],
    [-5, 'f32', 'u8', 0],
    [200, 'f32', 'i8', 127],
    [3e9, 'f64', 'u32', 3000000000],
    [1e20, 'f64', 'i64', 2n ** 63n - 1n],
    [-1e20, 'f64', 'i64', -(2n ** 63n)],
    [-1, 'f64', 'u64', 0n],
    [1e30, 'f64', 'u64', 2n ** 64n - 1n],
    [nan, 'f64', 'u64', 0n],
    [1e15 + 0.5, 'f64', 'i64', 10n ** 15n],
    [300, 'i32', 'u8', 44],
    [-1, 'i8', 'u32', 4294967295],
    [255, 'u8', 'i8', -1],
    [-1, 'i32', 'u64', 2n ** 64n - 1n],
    [2n ** 32n + 5n, 'i64', 'i32', 5],
    [-1n, 'i64', 'u64', 2n ** 64n - 1n],
    [0, 'f32', 'bool', false],
    [-0, 'f32', 'bool', false],
    [nan, 'f32', 'bool', true],
    [0.1, 'f32', 'bool', true],
    [256n, 'i64', 'bool', true],
    [true, 'bool', 'f32', 1],
    [true, 'bool', 'i64', 1n],
    [false, 'bool', 'u8', 0],
    [16777217, 'i32', 'f32', 16777216],
    [65520, 'f32', 'f16', inf],
    [2049, 'i32', 'f16', 2048],
    [257, 'i32', 'bf16', 256],
    // One rounding from 64 bits: through f64 this would tie to even at 2^60.
    [2n ** 60n + 2n ** 36n + 1n, 'i64', 'f32', 2 ** 60 + 2 ** 37],
    [-(2n ** 60n + 2n ** 36n + 1n), 'i64', 'f32', -(2 ** 60 + 2 ** 37)],
    [2n ** 60n + 2n ** 36n, 'u64', 'f32', 2 ** 60],
    [2n ** 63n - 1n, 'i64', 'f32', 2 ** 63],
  ])('%s %s -> %s is %s', (value, from, to, expected) => {
    expect(cast(value, from, to)).toBe(expected)
  })

  it('wraps between integers of every pair', () => {
    for (const from of integers)
      for (const to of integers)
        for (const x of samples(from)) expect(BigInt(cast(x, from, to))).toBe(wrap(to, BigInt(x)))
  })

  it('is the identity on its own dtype', () => {
    for (const d of allDTypes) for (const x of samples(d)) expect(cast(x, d, d)).toBe(x)
  })
})

it.each<[Scalar, DType, DType, Scalar]>([
  [1, 'f32', 'i32', 0x3f800000],
  [-0, 'f32', 'u32', 0x80000000],
  [0x7f800000, 'i32', 'f32', inf],
  [1, 'f64', 'i64', 0x3ff0000000000000n],
  [0x3c00, 'u16', 'f16', 1],
  [1, 'bf16', 'i16', 0x3f80],
  [-1, 'i8', 'u8', 255],
  [true, 'bool', 'u8', 1],
  [2, 'u8', 'bool', true],
  [-1n, 'i64', 'u64', 2n ** 64n - 1n],
])('bitcast of %s %s to %s is %s', (value, from, to, expected) => {
  expect(evalScalar('bitcast', from, to, [value])).toBe(expected)
})

it('roundTo rounds, wraps and normalises', () => {
  expect(roundTo('f32', 0.1)).toBe(Math.fround(0.1))
  expect(roundTo('i8', 200)).toBe(-56)
  expect(roundTo('u64', -1n)).toBe(2n ** 64n - 1n)
  expect(roundTo('u8', -1n)).toBe(255)
  expect(roundTo('bool', 3)).toBe(true)
  expect(roundTo('bool', nan)).toBe(true)
})
