/** A kernel that stores one result before it makes the other of what it read: whether x may stand where y does decides when x is read. */
import { parseKernel } from '../../src/kernel/parse.ts'

export const storedFirst = parseKernel(`kernel twice {
  param x: f32[] read
  param y: f32[8] write
  param z: f32[8] write
  axes i: 8
  grid i/8
  %0 f32 = load x[]
  %1 f32{i} = index i
  store y[i] = %1
  %2 f32{i} = mul %1, %0
  store z[i] = %2
}`)
