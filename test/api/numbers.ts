/** Repeatable tensors, which no program makes: f32 unless said. */
import { type Tensor, tensor } from '../../src/index.ts'

/** Numbers in [0, 1), one after another. */
function random(seed: number): () => number {
  let s = seed
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32
  }
}

const elements = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1)

/** Numbers in [least, least + 1). */
export function uniform(seed: number, shape: readonly number[], least = 0): Tensor {
  const next = random(seed)
  return tensor(
    Float32Array.from({ length: elements(shape) }, () => next() + least),
    { shape },
  )
}

/** Numbers in [-1/2, 1/2). */
export const centred = (seed: number, shape: readonly number[]): Tensor => uniform(seed + 1, shape, -0.5)

/** Whole numbers in [0, below), i32. */
export function whole(seed: number, shape: readonly number[], below: number): Tensor {
  const next = random(seed + 1)
  return tensor(
    Int32Array.from({ length: elements(shape) }, () => Math.floor(next() * below)),
    { shape },
  )
}
