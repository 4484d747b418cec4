/** Input data for tests: tame values in a range, or every special value a dtype has. */

import { roundTo } from '../../src/scalar/eval.ts'
import { scalarOf, toHost } from '../../src/scalar/host.ts'
import { extreme, type Scalar } from '../../src/scalar/ops.ts'
import { type DType, dtypeClass, isFloat, isWide } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import type { Rng } from './rng.ts'

const floatSpecials: readonly number[] = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1,
  -1,
  0.5,
  -1.5,
  2,
  3,
  1e-40,
  -6e-8,
  65504,
  3e38,
]

/** One value of a dtype: often a special one. */
export function specialValue(rng: Rng, dtype: DType): Scalar {
  if (dtype === 'bool') return rng.chance(0.5)
  if (isFloat(dtype)) return roundTo(dtype, rng.chance(0.5) ? rng.pick(floatSpecials) : rng.real(-4, 4))
  if (rng.chance(0.3)) return extreme(dtype, rng.chance(0.5) ? 'least' : 'greatest')
  const lo = dtypeClass(dtype) === 'signed' ? -9 : 0
  return scalarOf(dtype, rng.int(lo, 9))
}

/** One value of a dtype in [lo, hi]; integers are whole. */
export function tameValue(rng: Rng, dtype: DType, lo: number, hi: number): Scalar {
  if (dtype === 'bool') return rng.chance(0.5)
  if (isFloat(dtype)) return roundTo(dtype, rng.real(lo, hi))
  const v = rng.int(Math.ceil(lo), Math.floor(hi))
  return isWide(dtype) ? BigInt(v) : v
}

export const specialData = (rng: Rng, dtype: DType, n: number): HostArray =>
  toHost(
    Array.from({ length: n }, () => specialValue(rng, dtype)),
    dtype,
  )

export const tameData = (rng: Rng, dtype: DType, n: number, lo: number, hi: number): HostArray =>
  toHost(
    Array.from({ length: n }, () => tameValue(rng, dtype, lo, hi)),
    dtype,
  )
