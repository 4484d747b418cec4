/** Literals that may be multiplied with each other, or later than they are written. */
import type { Scalar } from './ops.ts'

/** Magnitudes whose products and reciprocals neither overflow nor lose bits, in f32 and f64. */
export const isModerate = (v: Scalar): boolean =>
  typeof v === 'number' && Math.abs(v) > 2 ** -60 && Math.abs(v) < 2 ** 60
