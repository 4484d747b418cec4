/** Operand values that tests of elementwise code draw on: edges of every dtype, and seeded random ones. */

import { bitcastScalar } from '../../src/scalar/cast.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import { type DType, dtypeBits, isFloat, isWide } from '../../src/types/dtype.ts'
import { words } from './harness.ts'

const floats = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  1.5,
  -1.5,
  2.5,
  -2.5,
  2,
  -2,
  3,
  7,
  0.1,
  -0.1,
  10,
  -10,
  100,
  -100,
  1e-3,
  1e-8,
  -1e-8,
  127.5,
  128,
  255,
  256,
  -129,
  32767.5,
  65504,
  65519,
  65520,
  65535.5,
  65536,
  -65536,
  1e6,
  8388607.5,
  16777216,
  -16777216,
  2147483520,
  2147483648,
  -2147483648,
  4294967040,
  4294967296,
  9.2e18,
  2 ** 63,
  -(2 ** 63),
  1.9e19,
  1e30,
  -1e30,
  3.4e38,
  -3.4e38,
  Infinity,
  -Infinity,
  NaN,
  1.1754943508222875e-38,
  -1.1754943508222875e-38,
  1.4e-45,
  -1.4e-45,
  6e-8,
  2.9802322387695312e-8,
  2.98023242e-8,
  6.1e-5,
  88.5,
  -88.5,
  89,
  -104,
  0.9999999,
  1.0000001,
]

const integers = [0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, -100]

/** Edge values of a dtype. */
export function edges(dtype: DType): Scalar[] {
  if (dtype === 'bool') return [false, true]
  if (isFloat(dtype))
    return dtype === 'f64'
      ? [...floats, 1e-300, 1e300, 5e-324, 4503599627370495.5, 2147483647.5, -2147483648.9]
      : floats
  const bits = BigInt(dtypeBits(dtype))
  const extremes = [1n << (bits - 1n), (1n << (bits - 1n)) - 1n, (1n << bits) - 1n, 1n - (1n << (bits - 1n))]
  const all = [...integers.map(BigInt), ...extremes].map((v) =>
    dtype.startsWith('u') ? BigInt.asUintN(Number(bits), v) : BigInt.asIntN(Number(bits), v),
  )
  return isWide(dtype) ? all : all.map(Number)
}

/** `n` random values: of floats, random bit patterns and moderate ones in turn. */
export function randoms(dtype: DType, n: number, seed: number): Scalar[] {
  const next = words(seed)
  return Array.from({ length: n }, (_, i): Scalar => {
    const a = next()
    if (dtype === 'bool') return (a & 1) === 1
    const bits = dtypeBits(dtype)
    if (isFloat(dtype) && i % 2 === 1) return Math.fround((a / 2 ** 32 - 0.5) * 2 ** ((next() % 16) - 4))
    if (bits === 64) return bitcastScalar((BigInt(a) << 32n) | BigInt(next()), 'u64', dtype)
    if (bits === 32) return bitcastScalar(i % 3 === 0 ? a >>> 24 : a, 'u32', dtype)
    return bitcastScalar(a & (2 ** bits - 1), bits === 16 ? 'u16' : 'u8', dtype)
  })
}
