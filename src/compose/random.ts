/** Random numbers as pure functions of a key (u32[2]) and the element's row-major index (docs/numerics.md, "Random bits"). */
import { UserError } from '../diagnostics/errors.ts'
import { shown } from '../diagnostics/shown.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { isRandomDType, type RandomDType, randomDTypes } from '../scalar/threefry.ts'
import type { FloatDType } from '../types/dtype.ts'
import type { Shape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { add, binary, cast, compare, mul, sqrt, unary } from './elementwise.ts'
import { constant, full } from './source.ts'
import { slice } from './views.ts'

/** A key from a seed: its high and low 32 bits. Throws E_ARGUMENT for a seed that is no whole number. */
export function key(seed: number | bigint): Node {
  if (typeof seed === 'number' && !Number.isSafeInteger(seed))
    throw new UserError('E_ARGUMENT', `a seed of ${seed}`, { help: 'use a whole number or a bigint' })
  const bits = BigInt.asUintN(64, BigInt(seed))
  return constant(Uint32Array.from([Number(bits >> 32n), Number(bits & 0xffffffffn)]), [2], 'u32')
}

/** Independent uniform bits over a shape: u32, or u16 and u8, which cost half and a quarter. Throws E_ARGUMENT for a key that is not u32[2], E_DTYPE for another dtype. */
export function randomBits(k: Node, shape: Shape, dtype: RandomDType = 'u32'): Node {
  if (!isRandomDType(dtype))
    throw new UserError('E_DTYPE', `random bits of ${shown(dtype)}`, { help: `use ${randomDTypes.join(', ')}` })
  return makeNode('randomBits', [k], { shape, dtype })
}

/** `count` keys, independent of each other; the old key should not be used again. */
export function splitKey(k: Node, count = 2): Node[] {
  const bits = randomBits(k, [count, 2])
  return Array.from({ length: count }, (_, i) => reshape(slice(bits, [{ start: i, stop: i + 1 }]), [2]))
}

/** A key that depends on `k` and on a whole number (a step or layer index), given itself or as a key of its own. */
export function foldIn(k: Node, data: number | bigint | Node): Node {
  const other = typeof data === 'object' ? data : key(data)
  return randomBits(binary('xor', randomBits(k, [2]), other), [2])
}

/** How many random bits a uniform value of each dtype takes, so that rounding never reaches 1. */
const uniformBits = { f32: 24, f64: 24, f16: 11, bf16: 8 } as const satisfies Record<FloatDType, number>

function uniformInteger(k: Node, shape: Shape, bits: number): Node {
  return cast(binary('shr', randomBits(k, shape), 32 - bits), 'i32')
}

function floatOnly(dtype: string): FloatDType {
  if (dtype === 'f32' || dtype === 'f64' || dtype === 'f16' || dtype === 'bf16') return dtype
  throw new UserError('E_DTYPE', `random values of ${shown(dtype)}`, {
    help: 'draw floats and cast, or use randomInteger',
  })
}

/** Uniform on [0, 1): the high 24 bits (f16: 11, bf16: 8) of the random bits, times a power of two. */
export function randomUniform(k: Node, shape: Shape, dtype: FloatDType = 'f32'): Node {
  const bits = uniformBits[floatOnly(dtype)]
  return mul(cast(uniformInteger(k, shape, bits), dtype), 2 ** -bits)
}

/**
 * Standard normal by Box-Muller: sqrt(-2 ln u) cos(2 pi v) with u in (0, 1] and v in [0, 1) of 24 bits each, from two keys
 * split off `k`. Values lie within 5.77.
 */
export function randomNormal(k: Node, shape: Shape, dtype: FloatDType = 'f32'): Node {
  const work: FloatDType = floatOnly(dtype) === 'f64' ? 'f64' : 'f32'
  const [first = k, second = k] = splitKey(k)
  const u = mul(add(cast(uniformInteger(first, shape, 24), work), 1), 2 ** -24)
  const radius = sqrt(mul(unary('log', u), -2))
  const angle = mul(randomUniform(second, shape, work), 2 * Math.PI)
  return cast(mul(radius, unary('cos', angle)), dtype)
}

/** In 65536ths, a probability between 0 and 1 that 16 random bits stand for: never 0 and never 1. */
export const sixteenBitChance = (p: number): number => Math.min(65535, Math.max(1, Math.round(p * 65536)))

/**
 * true with probability `p`. A number is rounded to a multiple of 2^-16 (0 and 1 are exact, nothing else becomes one of them) and
 * costs 8 random bits an element; of a float tensor, which broadcasts, 24 bits count. Throws E_ARGUMENT for a number outside [0, 1].
 */
export function bernoulli(k: Node, p: number | Node, shape: Shape): Node {
  if (typeof p !== 'number') return compare('lt', randomUniform(k, shape), p)
  if (!(p >= 0 && p <= 1))
    throw new UserError('E_ARGUMENT', `a probability of ${p}`, { help: 'give a number in [0, 1]' })
  if (p === 0 || p === 1) return full(shape, p === 1, 'bool')
  return makeNode('randomMask', [k], { shape, chance: sixteenBitChance(p) })
}

/** Whole numbers from low to high (exclusive), i32; the bias of reducing 32 bits modulo the range is below 2^-32 times it. Throws E_ARGUMENT on an empty range. */
export function randomInteger(k: Node, shape: Shape, low: number, high: number): Node {
  const range = high - low
  if (!Number.isInteger(low) || !Number.isInteger(high) || range < 1 || low < -(2 ** 31) || high > 2 ** 31)
    throw new UserError('E_ARGUMENT', `random whole numbers from ${low} to ${high}`, {
      help: 'give an i32 range with low < high',
    })
  const bits = randomBits(k, shape)
  const offset = range > 0xffffffff ? bits : binary('rem', bits, range)
  return add(makeNode('bitcast', [offset], { dtype: 'i32' }), low)
}
