/** Random tensors: pure functions of a key, the same on every device and under every schedule (docs/numerics.md, "Random bits"). */
import * as c from '../compose/index.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { RandomDType } from '../scalar/threefry.ts'
import type { FloatDType } from '../types/dtype.ts'
import { extentsOf, type Shape } from '../types/shape.ts'
import { named, recordMany } from './core.ts'
import { tensor } from './creation.ts'
import { one, type Tensor, two, wrap } from './tensor.ts'

function words(seed: number | bigint, what: string): Uint32Array {
  if (typeof seed !== 'bigint' && !Number.isInteger(seed))
    throw new UserError('E_ARGUMENT', `${what} is ${String(seed)}`, { help: 'give a whole number' })
  const bits = BigInt.asUintN(64, BigInt(seed))
  return Uint32Array.from([Number(bits >> 32n), Number(bits & 0xffffffffn)])
}

/** A key (u32[2]) from a seed. Throws E_ARGUMENT for a seed that is no whole number. */
export const key = (seed: number | bigint): Tensor => named('random.key', () => tensor(words(seed, 'the seed')))

/** Keys independent of each other and of later uses; `k` itself should not be used again. */
export const split = (k: Tensor, count = 2): Tensor[] =>
  recordMany('random.split', [k], ([a]) => c.splitKey(c.asNode(a ?? 0), count)).map(wrap)

/** A key that also depends on a whole number, such as a step. */
export const foldIn = (k: Tensor, data: number | bigint): Tensor =>
  named('random.foldIn', () =>
    two('random.foldIn', k, tensor(words(data, 'the number')), (a, b) => c.foldIn(c.asNode(a), c.asNode(b))),
  )

/** Uniform bits: u32, or u16 and u8, which cost half and a quarter. */
export const bits = (k: Tensor, shape: Shape, dtype: RandomDType = 'u32'): Tensor =>
  one('random.bits', k, (a) => c.randomBits(a, extentsOf(shape), dtype))

/** Uniform on [0, 1), of 24 random bits (f16: 11, bf16: 8). */
export const uniform = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32'): Tensor =>
  one('random.uniform', k, (a) => c.randomUniform(a, extentsOf(shape), dtype))

/** Standard normal, by Box-Muller. */
export const normal = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32'): Tensor =>
  one('random.normal', k, (a) => c.randomNormal(a, extentsOf(shape), dtype))

/** true with probability `p`, rounded to a multiple of 2^-16 (0 and 1 are exact). Throws E_ARGUMENT unless 0 <= p <= 1. */
export const bernoulli = (k: Tensor, p: number, shape: Shape): Tensor =>
  one('random.bernoulli', k, (a) => c.bernoulli(a, p, extentsOf(shape)))

/** Whole numbers (i32) from low to high, high excluded. Throws E_ARGUMENT for an empty range. */
export const integers = (k: Tensor, shape: Shape, low: number, high: number): Tensor =>
  one('random.integers', k, (a) => c.randomInteger(a, extentsOf(shape), low, high))
