/** Repeatable tensors of f32, which no program makes. */
import { type Tensor, tensor } from '../../src/index.ts'

/** Numbers in [least, least + 1). */
export function uniform(seed: number, shape: readonly number[], least = 0): Tensor {
  let s = seed
  const next = (): number => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32 + least
  }
  return tensor(Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, next), { shape })
}

/** Numbers in [-1/2, 1/2). */
export const centred = (seed: number, shape: readonly number[]): Tensor => uniform(seed + 1, shape, -0.5)
