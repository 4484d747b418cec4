/** Whether results of one program computed in two ways agree. */
import { decodeHalves } from '../../src/scalar/arrays.ts'
import { type DType, isFloat, isHalf } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'

/** How far elements may be apart, of their own magnitude and of the root of the mean square. */
const tolerance = (dtype: DType): number => (dtype === 'bf16' ? 0.06 : dtype === 'f16' ? 0.015 : 1e-3)

/** What a few roundings to subnormal numbers may come to: their step, which no magnitude bounds, a few times. */
const leastStep = (dtype: DType): number => (dtype === 'f16' ? 4 * 2 ** -24 : 0)

function numbersOf(data: HostArray, dtype: DType): ArrayLike<number> {
  if (isHalf(dtype)) return decodeHalves(data as Uint16Array, dtype)
  return dtype === 'i64' || dtype === 'u64' ? Float64Array.from(data as BigInt64Array, Number) : (data as Float32Array)
}

export interface Difference {
  /** Elements that are further apart than they may be. */
  readonly count: number
  /** The first of them. */
  readonly first?: { readonly index: number; readonly got: number; readonly want: number }
}

/**
 * Compares two results. `narrowest`: the narrowest dtype that values of the program are rounded to, whose roundings fusion may leave out.
 */
export function differ(got: HostArray, want: HostArray, dtype: DType, narrowest: DType): Difference {
  const [a, b] = [numbersOf(got, dtype), numbersOf(want, dtype)]
  if (a.length !== b.length) return { count: Math.max(a.length, b.length) }
  let squares = 0
  for (let i = 0; i < b.length; i++) if (Number.isFinite(b[i])) squares += (b[i] ?? 0) ** 2
  const rms = Math.sqrt(squares / Math.max(1, b.length))
  const most = isFloat(dtype) ? Math.max(tolerance(dtype), tolerance(narrowest)) : 0
  const least = leastStep(dtype)
  let count = 0
  let first: Difference['first']
  for (let i = 0; i < b.length; i++) {
    const [x = 0, y = 0] = [a[i], b[i]]
    if (Object.is(x, y) || Math.abs(x - y) <= most * (rms + Math.abs(y)) + least) continue
    count++
    first ??= { index: i, got: x, want: y }
  }
  return first === undefined ? { count } : { count, first }
}
