/** Tensors of tests: made in float64, and read as plain numbers. */
import * as s from '../../src/index.ts'

export const f64 = (data: s.TensorData): s.Tensor => s.tensor(data, { dtype: 'f64' })

export const numbers = (x: s.Tensor): number[] => Array.from<number | bigint, number>(x.dataSync(), Number)
