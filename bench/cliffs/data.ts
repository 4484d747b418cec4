/** Data of inputs: equal in the printed text of a program and in what is measured. */
import { numberToBf16, numberToF16 } from '../../src/scalar/half.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { type Shape, sizeOf } from '../../src/types/shape.ts'

/** An input of a program: numbers between bounds, whole ones of integer dtypes. */
export interface InputData {
  readonly name: string
  readonly shape: Shape
  readonly dtype: DType
  readonly lo: number
  readonly hi: number
  /** Whole numbers in a float dtype. */
  readonly whole: boolean
}

/** The text of the function that makes data; `n` numbers of stream `k`. */
export const prelude = `const data = (n, k, lo, hi, whole) => {
  let state = Math.imul(k, 0x9e3779b9) >>> 0
  return Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const u = (state >>> 8) / 16777216
    return whole ? lo + Math.floor((hi - lo + 1) * u) : lo + (hi - lo) * u
  })
}`

/** A number of roundoffs by which an input is moved, to see how much its rounding matters. */
const roundoff = (dtype: DType): number => (dtype === 'f16' ? 2 ** -10 : dtype === 'bf16' ? 2 ** -7 : 2 ** -22)

/** The data of input number `k` (from 1). `moved`: floats moved by a roundoff of `by`, up and down. */
export function dataOf(input: InputData, k: number, by?: DType): HostArray {
  const { dtype, lo, hi } = input
  const out = hostArray(dtype, sizeOf(input.shape))
  const whole = input.whole || !isFloat(dtype)
  const wide = dtype === 'i64' || dtype === 'u64'
  const move = by === undefined || whole ? 0 : Math.max(roundoff(by), roundoff(dtype))
  let state = Math.imul(k, 0x9e3779b9) >>> 0
  for (let i = 0; i < out.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const u = (state >>> 8) / 16777216
    const exact = whole ? lo + Math.floor((hi - lo + 1) * u) : lo + (hi - lo) * u
    const x = move === 0 ? exact : exact * (1 + ((state & 1) === 0 ? move : -move))
    if (wide) out[i] = BigInt(exact) as never
    else out[i] = (dtype === 'f16' ? numberToF16(x) : dtype === 'bf16' ? numberToBf16(x) : x) as never
  }
  return out
}

/** The expression that makes input number `k` in a program's text. */
export function inputText({ shape, dtype, lo, hi, whole }: InputData, k: number): string {
  const flag = whole || !isFloat(dtype)
  return `s.tensor(data(${sizeOf(shape)}, ${k}, ${lo}, ${hi}, ${flag}), { shape: ${JSON.stringify(shape)}, dtype: '${dtype}' })`
}
