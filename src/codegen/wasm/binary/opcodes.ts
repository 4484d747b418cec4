/**
 * WebAssembly opcodes by their text-format names: the core numeric and memory instructions, fixed-width SIMD, relaxed SIMD
 * and threads. Codes are `prefix << 16 | opcode` (prefix 0: a one-byte opcode).
 *
 * Source: WebAssembly Core Specification 2.0 (index of instructions), the relaxed-simd and threads proposals.
 */

/** The union of a space-separated list of names. */
type Names<S extends string, Found = never> = S extends `${infer Head} ${infer Rest}`
  ? Names<Rest, Found | Head>
  : Found | S

export const SIMD = 0xfd
const SATURATING = 0xfc
export const ATOMIC = 0xfe

const table = new Map<string, number>()

/** Enters consecutive opcodes from `first`; a `-` leaves a hole. */
function run<S extends string>(prefix: number, first: number, names: S): Exclude<Names<S>, '-'> {
  names.split(' ').forEach((name, i) => {
    if (name !== '-') table.set(name, (prefix << 16) | (first + i))
  })
  return undefined as never
}

const i32Numeric = run(
  0,
  0x45,
  'i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u f32.eq f32.ne f32.lt f32.gt f32.le f32.ge f64.eq f64.ne f64.lt f64.gt f64.le f64.ge',
)
const integer = run(
  0,
  0x67,
  'i32.clz i32.ctz i32.popcnt i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and i32.or i32.xor i32.shl i32.shr_s i32.shr_u i32.rotl i32.rotr i64.clz i64.ctz i64.popcnt i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and i64.or i64.xor i64.shl i64.shr_s i64.shr_u i64.rotl i64.rotr',
)
const float = run(
  0,
  0x8b,
  'f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt f32.add f32.sub f32.mul f32.div f32.min f32.max f32.copysign f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt f64.add f64.sub f64.mul f64.div f64.min f64.max f64.copysign',
)
const convert = run(
  0,
  0xa7,
  'i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64 f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32 i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s',
)
const saturate = run(
  SATURATING,
  0,
  'i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u i64.trunc_sat_f32_s i64.trunc_sat_f32_u i64.trunc_sat_f64_s i64.trunc_sat_f64_u',
)
const stack = run(0, 0x1a, 'drop select')
const trap = run(0, 0, 'unreachable nop')

const simdSplat = run(SIMD, 14, 'i8x16.swizzle i8x16.splat i16x8.splat i32x4.splat i64x2.splat f32x4.splat f64x2.splat')
const simdCompare = run(
  SIMD,
  35,
  'i8x16.eq i8x16.ne i8x16.lt_s i8x16.lt_u i8x16.gt_s i8x16.gt_u i8x16.le_s i8x16.le_u i8x16.ge_s i8x16.ge_u i16x8.eq i16x8.ne i16x8.lt_s i16x8.lt_u i16x8.gt_s i16x8.gt_u i16x8.le_s i16x8.le_u i16x8.ge_s i16x8.ge_u i32x4.eq i32x4.ne i32x4.lt_s i32x4.lt_u i32x4.gt_s i32x4.gt_u i32x4.le_s i32x4.le_u i32x4.ge_s i32x4.ge_u f32x4.eq f32x4.ne f32x4.lt f32x4.gt f32x4.le f32x4.ge f64x2.eq f64x2.ne f64x2.lt f64x2.gt f64x2.le f64x2.ge v128.not v128.and v128.andnot v128.or v128.xor v128.bitselect v128.any_true',
)
const simdBytes = run(
  SIMD,
  94,
  'f32x4.demote_f64x2_zero f64x2.promote_low_f32x4 i8x16.abs i8x16.neg i8x16.popcnt i8x16.all_true i8x16.bitmask i8x16.narrow_i16x8_s i8x16.narrow_i16x8_u f32x4.ceil f32x4.floor f32x4.trunc f32x4.nearest i8x16.shl i8x16.shr_s i8x16.shr_u i8x16.add i8x16.add_sat_s i8x16.add_sat_u i8x16.sub i8x16.sub_sat_s i8x16.sub_sat_u f64x2.ceil f64x2.floor i8x16.min_s i8x16.min_u i8x16.max_s i8x16.max_u f64x2.trunc i8x16.avgr_u i16x8.extadd_pairwise_i8x16_s i16x8.extadd_pairwise_i8x16_u i32x4.extadd_pairwise_i16x8_s i32x4.extadd_pairwise_i16x8_u',
)
const simdShorts = run(
  SIMD,
  128,
  'i16x8.abs i16x8.neg i16x8.q15mulr_sat_s i16x8.all_true i16x8.bitmask i16x8.narrow_i32x4_s i16x8.narrow_i32x4_u i16x8.extend_low_i8x16_s i16x8.extend_high_i8x16_s i16x8.extend_low_i8x16_u i16x8.extend_high_i8x16_u i16x8.shl i16x8.shr_s i16x8.shr_u i16x8.add i16x8.add_sat_s i16x8.add_sat_u i16x8.sub i16x8.sub_sat_s i16x8.sub_sat_u f64x2.nearest i16x8.mul i16x8.min_s i16x8.min_u i16x8.max_s i16x8.max_u - i16x8.avgr_u i16x8.extmul_low_i8x16_s i16x8.extmul_high_i8x16_s i16x8.extmul_low_i8x16_u i16x8.extmul_high_i8x16_u',
)
const simdInts = run(
  SIMD,
  160,
  'i32x4.abs i32x4.neg - i32x4.all_true i32x4.bitmask - - i32x4.extend_low_i16x8_s i32x4.extend_high_i16x8_s i32x4.extend_low_i16x8_u i32x4.extend_high_i16x8_u i32x4.shl i32x4.shr_s i32x4.shr_u i32x4.add - - i32x4.sub - - - i32x4.mul i32x4.min_s i32x4.min_u i32x4.max_s i32x4.max_u i32x4.dot_i16x8_s - i32x4.extmul_low_i16x8_s i32x4.extmul_high_i16x8_s i32x4.extmul_low_i16x8_u i32x4.extmul_high_i16x8_u',
)
const simdLongs = run(
  SIMD,
  192,
  'i64x2.abs i64x2.neg - i64x2.all_true i64x2.bitmask - - i64x2.extend_low_i32x4_s i64x2.extend_high_i32x4_s i64x2.extend_low_i32x4_u i64x2.extend_high_i32x4_u i64x2.shl i64x2.shr_s i64x2.shr_u i64x2.add - - i64x2.sub - - - i64x2.mul i64x2.eq i64x2.ne i64x2.lt_s i64x2.gt_s i64x2.le_s i64x2.ge_s i64x2.extmul_low_i32x4_s i64x2.extmul_high_i32x4_s i64x2.extmul_low_i32x4_u i64x2.extmul_high_i32x4_u',
)
const simdFloats = run(
  SIMD,
  224,
  'f32x4.abs f32x4.neg - f32x4.sqrt f32x4.add f32x4.sub f32x4.mul f32x4.div f32x4.min f32x4.max f32x4.pmin f32x4.pmax f64x2.abs f64x2.neg - f64x2.sqrt f64x2.add f64x2.sub f64x2.mul f64x2.div f64x2.min f64x2.max f64x2.pmin f64x2.pmax i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_s f32x4.convert_i32x4_u i32x4.trunc_sat_f64x2_s_zero i32x4.trunc_sat_f64x2_u_zero f64x2.convert_low_i32x4_s f64x2.convert_low_i32x4_u',
)
const relaxed = run(
  SIMD,
  0x100,
  'i8x16.relaxed_swizzle i32x4.relaxed_trunc_f32x4_s i32x4.relaxed_trunc_f32x4_u i32x4.relaxed_trunc_f64x2_s_zero i32x4.relaxed_trunc_f64x2_u_zero f32x4.relaxed_madd f32x4.relaxed_nmadd f64x2.relaxed_madd f64x2.relaxed_nmadd i8x16.relaxed_laneselect i16x8.relaxed_laneselect i32x4.relaxed_laneselect i64x2.relaxed_laneselect f32x4.relaxed_min f32x4.relaxed_max f64x2.relaxed_min f64x2.relaxed_max i16x8.relaxed_q15mulr_s i16x8.relaxed_dot_i8x16_i7x16_s i32x4.relaxed_dot_i8x16_i7x16_add_s',
)

const lanes = run(
  SIMD,
  21,
  'i8x16.extract_lane_s i8x16.extract_lane_u i8x16.replace_lane i16x8.extract_lane_s i16x8.extract_lane_u i16x8.replace_lane i32x4.extract_lane i32x4.replace_lane i64x2.extract_lane i64x2.replace_lane f32x4.extract_lane f32x4.replace_lane f64x2.extract_lane f64x2.replace_lane',
)

const loads = run(
  0,
  0x28,
  'i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u',
)
const stores = run(
  0,
  0x36,
  'i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32',
)
const simdLoads = run(
  SIMD,
  0,
  'v128.load v128.load8x8_s v128.load8x8_u v128.load16x4_s v128.load16x4_u v128.load32x2_s v128.load32x2_u v128.load8_splat v128.load16_splat v128.load32_splat v128.load64_splat',
)
const simdZeroLoads = run(SIMD, 92, 'v128.load32_zero v128.load64_zero')
const simdStores = run(SIMD, 11, 'v128.store')
const loadLanes = run(SIMD, 84, 'v128.load8_lane v128.load16_lane v128.load32_lane v128.load64_lane')
const storeLanes = run(SIMD, 88, 'v128.store8_lane v128.store16_lane v128.store32_lane v128.store64_lane')

const atomicWait = run(ATOMIC, 0, 'memory.atomic.notify memory.atomic.wait32 memory.atomic.wait64')
const atomicLoads = run(ATOMIC, 0x10, 'i32.atomic.load i64.atomic.load')
const atomicStores = run(ATOMIC, 0x17, 'i32.atomic.store i64.atomic.store')
const atomicAdd = run(ATOMIC, 0x1e, 'i32.atomic.rmw.add i64.atomic.rmw.add')
const atomicSub = run(ATOMIC, 0x25, 'i32.atomic.rmw.sub i64.atomic.rmw.sub')
const atomicExchange = run(ATOMIC, 0x41, 'i32.atomic.rmw.xchg i64.atomic.rmw.xchg')
const atomicCompare = run(ATOMIC, 0x48, 'i32.atomic.rmw.cmpxchg i64.atomic.rmw.cmpxchg')

/** Instructions without immediates. */
export type WasmOp =
  | typeof i32Numeric
  | typeof integer
  | typeof float
  | typeof convert
  | typeof saturate
  | typeof stack
  | typeof trap
  | typeof simdSplat
  | typeof simdCompare
  | typeof simdBytes
  | typeof simdShorts
  | typeof simdInts
  | typeof simdLongs
  | typeof simdFloats
  | typeof relaxed

/** Instructions with a lane index. */
export type LaneOp = typeof lanes

export type LoadOp = typeof loads | typeof simdLoads | typeof simdZeroLoads
export type StoreOp = typeof stores | typeof simdStores
export type LoadLaneOp = typeof loadLanes
export type StoreLaneOp = typeof storeLanes
/** Atomic instructions; their alignment is always natural. */
export type AtomicOp =
  | typeof atomicWait
  | typeof atomicLoads
  | typeof atomicStores
  | typeof atomicAdd
  | typeof atomicSub
  | typeof atomicExchange
  | typeof atomicCompare

/** `prefix << 16 | opcode` of an instruction. */
export const opcodes: ReadonlyMap<string, number> = table
