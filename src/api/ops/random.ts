/** Random tensors: pure functions of a key, the same on every device and under every schedule (docs/numerics.md, "Random bits"). */
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { RandomDType } from '../../scalar/threefry.ts'
import type { FloatDType } from '../../types/dtype.ts'
import { extentsOf, type Shape } from '../../types/shape.ts'
import { real, whole } from '../calls/options.ts'
import type { Excess } from '../calls/slicing.ts'
import { named, recordMany } from '../tensor/core.ts'
import { one, type Tensor, two, wrap } from '../tensor/tensor.ts'
import { tensor } from './creation.ts'

export * from './distributions.ts'

/** The 64 bits of a whole number, high word first; those of a negative one in two's complement. Throws E_ARGUMENT for more bits. */
function words(seed: number | bigint, what: string): Uint32Array {
  if (typeof seed !== 'bigint' && !Number.isInteger(seed))
    throw new UserError('E_ARGUMENT', `${what} is ${typeof seed === 'number' ? String(seed) : kindOf(seed)}`, {
      help: 'give a whole number',
    })
  if (typeof seed === 'number' && !Number.isSafeInteger(seed))
    throw new UserError('E_ARGUMENT', `${what} is ${seed}, which stands for several whole numbers`, {
      help: 'give a number of at most 2 ** 53 - 1 in magnitude, or a bigint: 123n',
    })
  if (typeof seed === 'bigint' && (seed >= 1n << 64n || seed < -(1n << 63n)))
    throw new UserError('E_ARGUMENT', `${what} has more than 64 bits`, {
      help: 'give a bigint from -(2n ** 63n) to 2n ** 64n - 1n: BigInt.asUintN(64, n) has the low bits of one',
    })
  const bits = BigInt.asUintN(64, BigInt(seed))
  return Uint32Array.from([Number(bits >> 32n), Number(bits & 0xffffffffn)])
}

/**
 * A key (u32[2]) from a seed of 64 bits: a whole number to 2^53 - 1 in magnitude, or a bigint from -2^63 to 2^64 - 1. A
 * negative seed is its two's complement, so -1 is 2^64 - 1.
 * @throws E_ARGUMENT for a seed that is no whole number, or needs more bits
 * @example random.key(7) // [0, 7]
 */
export const key = (seed: number | bigint): Tensor => named('random.key', () => tensor(words(seed, 'the seed')))

/**
 * Keys (u32[2]) independent of each other and of later uses; `k` itself should not be used again.
 * @throws E_ARGUMENT for a key that is none and a number that is not whole, E_SHAPE for a negative one
 * @example
 * const [a, b] = random.split(random.key(0))
 * a?.equal(b ?? 0).any() // false
 */
export const split = (k: Tensor, count = 2): Tensor[] =>
  recordMany('random.split', [k], ([a]) => c.splitKey(c.asNode(a ?? 0), whole(count, 'the number of keys'))).map(wrap)

/**
 * A key (u32[2]) that also depends on a whole number, such as a step; which numbers, `key` says.
 * @throws E_ARGUMENT for a key that is none and what is no whole number
 * @example random.foldIn(random.key(0), 1) // u32[2]
 */
export const foldIn = (k: Tensor, data: number | bigint): Tensor =>
  named('random.foldIn', () =>
    two('random.foldIn', k, tensor(words(data, 'the number')), (a, b) => c.foldIn(c.asNode(a), c.asNode(b))),
  )

/**
 * Uniform bits: u32, or u16 and u8, which cost half and a quarter.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none, E_DTYPE for another dtype
 * @example
 * random.bits(random.key(0), [2]) // u32[2]
 * random.bits(random.key(0), [2], 'f32' as 'u8') // throws E_DTYPE
 */
export const bits = (k: Tensor, shape: Shape, dtype: RandomDType = 'u32', ...rest: Excess): Tensor =>
  one('random.bits', k, (a) => c.randomBits(a, extentsOf(shape, dtype, ...rest), dtype))

/**
 * Uniform on [0, 1), of 24 random bits (f16: 11, bf16: 8); f32 unless given.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none, E_DTYPE for what is no float
 * @example random.uniform(random.key(0), [2]) // [0.418457, 0.600499]: on every device
 */
export const uniform = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32', ...rest: Excess): Tensor =>
  one('random.uniform', k, (a) => c.randomUniform(a, extentsOf(shape, dtype, ...rest), dtype))

/**
 * Standard normal (mean 0, variance 1), by the transform of Box and Muller (1958); f32 unless given.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none, E_DTYPE for what is no float
 * @example random.normal(random.key(0), [2]) // [0.216009, 1.581679]
 */
export const normal = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32', ...rest: Excess): Tensor =>
  one('random.normal', k, (a) => c.randomNormal(a, extentsOf(shape, dtype, ...rest), dtype))

/**
 * true with probability `p`, rounded to a multiple of 2^-16 (0 and 1 are exact). Bool.
 * @throws E_ARGUMENT unless 0 <= p <= 1, and for a key that is none; E_SHAPE for a shape that is none
 * @example random.bernoulli(random.key(0), 1, [2]) // [true, true]
 */
export const bernoulli = (k: Tensor, p: number, shape: Shape): Tensor =>
  one('random.bernoulli', k, (a) => c.bernoulli(a, real(p, 'the probability'), extentsOf(shape)))

/**
 * Whole numbers from low to high, high excluded, each with a probability within 2^-32 of the others'. i32.
 * @throws E_ARGUMENT for an empty range, bounds that are not whole or not i32, and a key that is none; E_SHAPE for a shape that
 * is none
 * @example random.integers(random.key(0), [3], 5, 6) // [5, 5, 5]
 */
export const integers = (k: Tensor, shape: Shape, low: number, high: number): Tensor =>
  one('random.integers', k, (a) =>
    c.randomInteger(a, extentsOf(shape), whole(low, 'the least'), whole(high, 'the bound')),
  )
