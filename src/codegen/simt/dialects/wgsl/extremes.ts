/**
 * The greater and the lesser of floats in WGSL, which may assume that there are no NaN and leaves open which of two zeros it takes:
 * functions, and their shorter forms.
 */
import type { Ex } from '../../ir/ir.ts'
import { fn, type Library } from '../shared/print.ts'

/** NaN shows in the sum (as infinities of both signs do); what needs care then, and zeros, goes the long way. */
const extreme = (name: 'max' | 'min'): Library => ({
  [`f32_${name}`]: fn(
    `fn f32_${name}(a: f32, b: f32) -> f32 {
  let m = ${name}(a, b);
  if (f32_isnan(a + b) | (m == 0.0)) { return special_${name}(a, b); }
  return m;
}`,
    ['f32_isnan', `special_${name}`],
  ),
  [`special_${name}`]: fn(
    `fn special_${name}(a: f32, b: f32) -> f32 {
  let zero = bitcast<f32>(bitcast<u32>(a) ${name === 'max' ? '&' : '|'} bitcast<u32>(b));
  let m = select(${name}(a, b), zero, (a == 0.0) & (b == 0.0));
  return select(select(m, b, f32_isnan(b)), a, f32_isnan(a));
}`,
    ['f32_isnan'],
  ),
})

const key = (what: string, name: 'max' | 'min', nan: string): Library[string] =>
  fn(
    `// ${what}
fn f32_${name}_key(a: f32) -> i32 {
  let b = bitcast<i32>(a);
  return select(b ^ ((b >> 31u) & 0x7fffffff), ${nan}, f32_isnan(a));
}`,
    ['f32_isnan'],
  )

/** With a number on one side that is not zero, only NaN needs care. */
const beside = (name: 'max' | 'min'): Library[string] =>
  fn(`fn f32_${name}_number(a: f32, number: f32) -> f32 {\n  return select(${name}(a, number), a, f32_isnan(a));\n}`, [
    'f32_isnan',
  ])

export const wgslExtremes: Library = {
  ...extreme('max'),
  ...extreme('min'),
  f32_max_number: beside('max'),
  f32_min_number: beside('min'),
  f32_max_zero: fn(
    `// The order of floats above zero is that of their bits.
fn f32_max_zero(a: f32) -> f32 {
  return select(bitcast<f32>(max(bitcast<i32>(a), 0)), a, f32_isnan(a));
}`,
    ['f32_isnan'],
  ),
  f32_max_key: key('Integers in the order of floats; NaN is above all.', 'max', '0x7fffffff'),
  f32_min_key: key('Integers in the order of floats; NaN is below all.', 'min', 'i32(-2147483648)'),
  f32_of_key: fn('fn f32_of_key(k: i32) -> f32 {\n  return bitcast<f32>(k ^ ((k >> 31u) & 0x7fffffff));\n}'),
}

/** A shorter function for the greater or lesser of a value and a literal, with its arguments. */
export function extremeOfLiteral(name: string, args: readonly Ex[]): { name: string; args: readonly Ex[] } | undefined {
  if (name !== 'f32_max' && name !== 'f32_min') return undefined
  const [a, b] = args
  if (a === undefined || b === undefined) return undefined
  const [x, number] = a.k === 'lit' ? [b, a] : [a, b]
  if (number.k !== 'lit' || x.k === 'lit' || Number.isNaN(Number(number.value))) return undefined
  if (Number(number.value) !== 0) return { name: `${name}_number`, args: [x, number] }
  return name === 'f32_max' && Object.is(number.value, 0) ? { name: 'f32_max_zero', args: [x] } : undefined
}
