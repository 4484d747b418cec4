/** Tensors on the host: drawn at random, and described by their statistics. */
import type { HostTensor } from '../onnx/index.ts'
import { readElement, toHost } from '../scalar/host.ts'
import type { Scalar } from '../scalar/ops.ts'
import { randomElement } from '../scalar/threefry.ts'
import { type DType, isFloat, isWide } from '../types/dtype.ts'
import { type Shape, showShape, sizeOf } from '../types/shape.ts'

/** Integers are drawn below this: small enough to be indices of any embedding. */
const integerRange = 8

/**
 * A seeded random tensor: floats standard normal (Box and Muller), integers uniform in [0, 8), booleans fair. `stream`
 * separates the tensors of one seed.
 */
export function drawTensor(shape: Shape, dtype: DType, seed: number, stream: number): HostTensor {
  const n = sizeOf(shape)
  const unit = (i: number): number => (randomElement('u32', seed >>> 0, stream, i) + 0.5) / 4294967296
  const draw = (i: number): Scalar => {
    if (dtype === 'bool') return unit(i) < 0.5
    if (isFloat(dtype)) return Math.sqrt(-2 * Math.log(unit(2 * i))) * Math.cos(2 * Math.PI * unit(2 * i + 1))
    const v = Math.floor(unit(i) * integerRange)
    return isWide(dtype) ? BigInt(v) : v
  }
  const values: Scalar[] = new Array<Scalar>(n)
  for (let i = 0; i < n; i++) values[i] = draw(i)
  return { data: toHost(values, dtype), shape, dtype }
}

export interface Statistics {
  readonly min: number
  readonly max: number
  readonly mean: number
  readonly std: number
  readonly nan: number
  readonly infinite: number
}

/** Statistics over the finite elements; undefined where there are none. */
export function statisticsOf(t: HostTensor): Statistics | undefined {
  let [n, nan, infinite, sum, min, max] = [0, 0, 0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const each = (visit: (v: number) => void): void => {
    for (let i = 0; i < t.data.length; i++) visit(Number(readElement(t.data, t.dtype, i)))
  }
  each((v) => {
    if (Number.isNaN(v)) nan++
    else if (!Number.isFinite(v)) infinite++
    else {
      n++
      sum += v
      min = Math.min(min, v)
      max = Math.max(max, v)
    }
  })
  if (n === 0) return nan + infinite === 0 ? undefined : { min: NaN, max: NaN, mean: NaN, std: NaN, nan, infinite }
  const mean = sum / n
  let squares = 0
  each((v) => {
    if (Number.isFinite(v)) squares += (v - mean) ** 2
  })
  return { min, max, mean, std: Math.sqrt(squares / n), nan, infinite }
}

/** A number in few characters: whole ones below a million as they are, others to four digits, which read back to those. */
export function showNumber(v: number): string {
  if (Object.is(v, -0)) return '-0'
  if (!Number.isFinite(v) || (Number.isInteger(v) && Math.abs(v) < 1e6)) return String(v)
  const [mantissa = '', ...exponent] = v.toPrecision(4).split('e')
  // Zeros are dropped behind a point alone.
  const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa
  return [short, ...exponent].join('e')
}

/** `f32[2, 10]`. */
export const showType = (t: { readonly shape: Shape; readonly dtype: DType }): string =>
  `${t.dtype}${showShape(t.shape)}`

/** One line of statistics. */
export function showStatistics(t: HostTensor): string {
  const s = statisticsOf(t)
  if (s === undefined) return 'empty'
  const odd = [s.nan > 0 ? `${s.nan} NaN` : '', s.infinite > 0 ? `${s.infinite} infinite` : ''].filter((x) => x !== '')
  const line = `min ${showNumber(s.min)}  mean ${showNumber(s.mean)}  max ${showNumber(s.max)}  std ${showNumber(s.std)}`
  return odd.length === 0 ? line : `${line}  (${odd.join(', ')})`
}

/** The first elements as text. */
export function showHead(t: HostTensor, count = 6): string {
  const shown = Math.min(count, t.data.length)
  const values = Array.from({ length: shown }, (_, i) => {
    const v = readElement(t.data, t.dtype, i)
    return typeof v === 'number' ? showNumber(v) : String(v)
  })
  return `[${values.join(', ')}${t.data.length > shown ? ', ...' : ''}]`
}

/** How far a result may be from what is expected: a float agrees if |got - want| <= atol + rtol |want|, an integer if it is at most `atol` away. */
export interface Tolerance {
  readonly rtol: number
  readonly atol: number
  /** Share of a tensor's elements that may differ at all, NaN and infinities too; all of them unless given. */
  readonly maxDifferentFraction?: number
}

/** The tolerance of ONNX's backend tests. */
export const defaultTolerance: Tolerance = { rtol: 1e-3, atol: 1e-4 }

/** The first difference between a result and what was expected; undefined if they agree. NaN agrees with NaN. */
export function difference(got: HostTensor, want: HostTensor, tolerance: Tolerance): string | undefined {
  if (got.dtype !== want.dtype) return `dtype ${got.dtype} where ${want.dtype} is expected`
  if (showShape(got.shape) !== showShape(want.shape))
    return `shape ${showShape(got.shape)} where ${showShape(want.shape)} is expected`
  let [different, wrong, first, worst] = [0, 0, -1, 0]
  for (let i = 0; i < want.data.length; i++) {
    const a = readElement(got.data, got.dtype, i)
    const b = readElement(want.data, want.dtype, i)
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue
    different++
    if (near(a, b, tolerance, isFloat(want.dtype) ? tolerance.rtol : 0)) continue
    if (first < 0) first = i
    wrong++
    const d = Math.abs(Number(a) - Number(b))
    worst = Number.isNaN(d) ? Number.POSITIVE_INFINITY : Math.max(worst, d)
  }
  const most = tolerance.maxDifferentFraction ?? 1
  if (first < 0 && different <= most * want.data.length) return undefined
  if (first < 0)
    return `${different} of ${want.data.length} elements differ, where at most ${showNumber(most)} of them may`
  const [a, b] = [readElement(got.data, got.dtype, first), readElement(want.data, want.dtype, first)]
  return `${wrong} of ${want.data.length} elements differ: element ${first} is ${a} where ${b} is expected, largest difference ${showNumber(worst)}`
}

function near(a: Scalar, b: Scalar, { atol }: Tolerance, rtol: number): boolean {
  // Whole numbers of 64 bits are subtracted as they are.
  if (typeof a === 'bigint' && typeof b === 'bigint') return Math.abs(Number(a - b)) <= atol
  const [x, y] = [Number(a), Number(b)]
  return Number.isFinite(x) && Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y)
}

/** The largest absolute difference of two results. */
export function largestDifference(a: HostTensor, b: HostTensor): number {
  let worst = 0
  for (let i = 0; i < a.data.length; i++) {
    const d = Math.abs(Number(readElement(a.data, a.dtype, i)) - Number(readElement(b.data, b.dtype, i)))
    if (Number.isNaN(d)) return Number.POSITIVE_INFINITY
    worst = Math.max(worst, d)
  }
  return worst
}
