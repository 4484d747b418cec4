/** Which WebAssembly instruction an operation of the vector IR is: tables by operation and type, made once of the opcodes' names. */
import { InternalError } from '../../diagnostics/errors.ts'
import type { BinaryOp, CompareOp, LoadForm, StoreForm, UnaryOp } from '../vector/ir/ir.ts'
import type { Type } from '../vector/ir/types.ts'
import * as T from '../vector/ir/types.ts'
import { opcodes } from './binary/opcodes.ts'

const scalars = [T.i32, T.i64, T.f32, T.f64]
const vectors = [T.i8x16, T.i16x8, T.i32x4, T.i64x2, T.f32x4, T.f64x2]
const masks = [T.m8x16, T.m16x8, T.m32x4, T.m64x2]

type Codes = ReadonlyMap<string, number>

/** The instructions of operations, each by the name of its type; `nameOf` gives instructions' names, existing or not. */
function tableOf<Op extends string>(
  ops: readonly Op[],
  types: readonly Type[],
  nameOf: (op: Op, type: Type) => string,
): Readonly<Record<Op, Codes>> {
  const made = ops.map((op): [Op, Codes] => {
    const codes = types.flatMap((t): [string, number][] => {
      const code = opcodes.get(nameOf(op, t))
      return code === undefined ? [] : [[t.name, code]]
    })
    return [op, new Map(codes)]
  })
  return Object.fromEntries(made) as Record<Op, Codes>
}

function missing(what: string, type?: Type): never {
  throw new InternalError(`WebAssembly has no instruction for ${what}${type === undefined ? '' : ` of ${type.name}`}`)
}

const all = [...scalars, ...vectors, ...masks]
const isBitwise = (op: string): boolean => ['and', 'or', 'xor', 'andnot', 'not'].includes(op)
const extensions: Readonly<Record<string, string>> = { extend8: 'extend8_s', extend16: 'extend16_s' }
const named = (op: string, t: Type): string =>
  `${t.bank === 'vector' && isBitwise(op) ? 'v128' : t.name}.${extensions[op] ?? op}`

const unary = tableOf<UnaryOp>(
  ['neg', 'abs', 'ceil', 'floor', 'trunc', 'nearest', 'sqrt', 'not', 'extend8', 'extend16'],
  all,
  named,
)
const binary = tableOf<BinaryOp>(
  [
    ...(['add', 'sub', 'mul', 'div', 'min', 'max', 'pmin', 'pmax', 'div_s', 'div_u', 'rem_s', 'rem_u'] as const),
    ...(['min_s', 'min_u', 'max_s', 'max_u', 'and', 'or', 'xor', 'andnot', 'shl', 'shr_s', 'shr_u', 'rotl'] as const),
  ],
  all,
  named,
)
const compare = tableOf<CompareOp>(
  ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lt_s', 'lt_u', 'le_s', 'le_u', 'gt_s', 'gt_u', 'ge_s', 'ge_u'],
  all,
  named,
)
const shift = tableOf(['shl', 'shr_s', 'shr_u'], vectors, named)
const integers = [T.i32, T.i64]
const zero = tableOf(['eqz'], integers, named)
const fused = tableOf(['relaxed_madd', 'relaxed_nmadd'], vectors, named)
const splat = tableOf(['splat'], vectors, named)
const lane = tableOf(['extract_lane', 'replace_lane'], vectors, named)
const bits = tableOf(['bitmask'], masks, (op, t) => `${t.element}x${t.lanes}.${op}`)

export const unaryCode = (op: UnaryOp, t: Type): number => unary[op].get(t.name) ?? missing(op, t)
export const binaryCode = (op: BinaryOp, t: Type): number => binary[op].get(t.name) ?? missing(op, t)
export const compareCode = (op: CompareOp, t: Type): number => compare[op].get(t.name) ?? missing(op, t)
export const shiftCode = (op: 'shl' | 'shr_s' | 'shr_u', t: Type): number => shift[op].get(t.name) ?? missing(op, t)
export const zeroCode = (t: Type): number => zero.eqz.get(t.name) ?? missing('a test', t)
export const fusedCode = (negated: boolean, t: Type): number =>
  fused[negated ? 'relaxed_nmadd' : 'relaxed_madd'].get(t.name) ?? missing('fma', t)
export const splatCode = (t: Type): number => splat.splat.get(t.name) ?? missing('splat', t)
export const laneCode = (op: 'extract_lane' | 'replace_lane', t: Type): number => lane[op].get(t.name) ?? missing(op, t)
export const bitsCode = (t: Type): number => bits.bitmask.get(t.name) ?? missing('bits', t)

/** Instructions by name. */
const code = (name: string): number => opcodes.get(name) ?? missing(name)

export const anyCode = code('v128.any_true')
export const lookupCode = code('i8x16.swizzle')
export const selectCode = (t: Type): number => (t.bank === 'vector' ? bitselect : choose)
const bitselect = code('v128.bitselect')
const choose = code('select')

const packs: Codes = new Map([
  [T.m16x8.name, code('i16x8.narrow_i32x4_s')],
  [T.m8x16.name, code('i8x16.narrow_i16x8_s')],
])
export const packCode = (t: Type): number => packs.get(t.name) ?? missing('a pack', t)

export const dotPairsCode = code('i32x4.dot_i16x8_s')

/** `target from source`, then `signed` and `high`. */
const conversions: Codes = new Map([
  ...pairs(T.i32, T.i64, () => 'i32.wrap_i64'),
  ...pairs(T.i64, T.i32, (s) => `i64.extend_i32_${s}`),
  ...pairs(T.f32, T.f64, () => 'f32.demote_f64'),
  ...pairs(T.f64, T.f32, () => 'f64.promote_f32'),
  ...[T.f32, T.f64].flatMap((f) =>
    integers.flatMap((i) => [
      ...pairs(f, i, (s) => `${f.name}.convert_${i.name}_${s}`),
      ...pairs(i, f, (s) => `${i.name}.trunc_sat_${f.name}_${s}`),
    ]),
  ),
  ...pairs(T.f32x4, T.i32x4, (s) => `f32x4.convert_i32x4_${s}`),
  ...pairs(T.i32x4, T.f32x4, (s) => `i32x4.trunc_sat_f32x4_${s}`),
  ...pairs(T.f32x4, T.f64x2, () => 'f32x4.demote_f64x2_zero'),
  ...pairs(T.f64x2, T.f32x4, () => 'f64x2.promote_low_f32x4'),
  ...pairs(T.f64x2, T.i32x4, (s) => `f64x2.convert_low_i32x4_${s}`),
  ...pairs(T.i32x4, T.f64x2, (s) => `i32x4.trunc_sat_f64x2_${s}_zero`),
  ...[[T.i16x8, T.i8x16] as const, [T.i32x4, T.i16x8] as const, [T.i64x2, T.i32x4] as const].flatMap(([to, from]) => [
    ...pairs(to, from, (s) => `${to.name}.extend_low_${from.name}_${s}`),
    ...pairs(to, from, (s) => `${to.name}.extend_high_${from.name}_${s}`, true),
  ]),
])

function pairs(to: Type, from: Type, nameOf: (s: 's' | 'u') => string, high = false): [string, number][] {
  return [true, false].map((signed) => [conversionKey(to, from, signed, high), code(nameOf(signed ? 's' : 'u'))])
}

function conversionKey(to: Type, from: Type, signed: boolean, high: boolean): string {
  return `${to.name} from ${from.name} ${signed} ${high}`
}

export const convertCode = (to: Type, from: Type, signed: boolean, high: boolean): number =>
  conversions.get(conversionKey(to, from, signed, high)) ?? missing(`${to.name} of ${from.name}`)

/** Scalars' views have instructions, vectors' have none. */
const views: Codes = new Map(
  [[T.i32, T.f32] as const, [T.f32, T.i32] as const, [T.i64, T.f64] as const, [T.f64, T.i64] as const].map(
    ([to, from]) => [`${to.name} ${from.name}`, code(`${to.name}.reinterpret_${from.name}`)],
  ),
)
export const viewCode = (to: Type, from: Type): number | undefined =>
  to.bank === 'vector'
    ? undefined
    : (views.get(`${to.name} ${from.name}`) ?? missing(`${from.name} seen as ${to.name}`))

const whole = (t: Type): string => (t.bank === 'vector' ? 'v128' : t.name)

const forms: Readonly<Record<LoadForm, (t: Type) => string>> = {
  plain: (t) => `${whole(t)}.load`,
  '8_s': (t) => (t.lanes === 1 ? `${t.name}.load8_s` : t.lanes === 8 ? 'v128.load8x8_s' : ''),
  '8_u': (t) => (t.lanes === 1 ? `${t.name}.load8_u` : t.lanes === 8 ? 'v128.load8x8_u' : ''),
  '16_s': (t) => (t.lanes === 1 ? `${t.name}.load16_s` : t.lanes === 4 ? 'v128.load16x4_s' : ''),
  '16_u': (t) => (t.lanes === 1 ? `${t.name}.load16_u` : t.lanes === 4 ? 'v128.load16x4_u' : ''),
  splat: (t) => `v128.load${8 * T.elementBytes[t.element]}_splat`,
  low: () => 'v128.load32_zero',
}
const loads = tableOf<LoadForm>(
  ['plain', '8_s', '8_u', '16_s', '16_u', 'splat', 'low'],
  [...scalars, ...vectors],
  (form, t) => forms[form](t),
)
export const loadCode = (form: LoadForm, t: Type): number => loads[form].get(t.name) ?? missing('a load', t)

const stores = tableOf<StoreForm>(['plain', '8', '16'], all, (form, t) =>
  form === 'plain' ? `${whole(t)}.store` : `${t.name}.store${form}`,
)
export const storeCode = (form: StoreForm, t: Type): number => stores[form].get(t.name) ?? missing('a store', t)

const laneMoves = tableOf(['load', 'store'], vectors, (op, t) => `v128.${op}${8 * T.elementBytes[t.element]}_lane`)
export const laneMoveCode = (op: 'load' | 'store', t: Type): number => laneMoves[op].get(t.name) ?? missing('a lane', t)
