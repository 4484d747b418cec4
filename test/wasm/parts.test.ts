/** Kernels of several parts: values of different parts may have the same names. */
import { expect, test } from 'vitest'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { runKernels } from './run.ts'

test('parts that name different values alike', () => {
  const kernel = parseKernel(`kernel interleave {
    param x: f32[7] read
    param y: f32[14] write
    part {
      axes j: 7
      grid j/7
      %0 f32{j} = load x[j]
      %1 i32 = index 0
      %2 f32 = cast %1
      %3 f32{j} = add %0, %2
      store y[2*j] = %3
    }
    part {
      axes j: 7
      grid j/7
      %0 f32{j} = load x[j]
      %1 i32 = index 1
      %2 f32 = cast %1
      %3 f32{j} = add %0, %2
      store y[2*j + 1] = %3
    }
  }`)
  const buffers = () => ({ x: Float32Array.from({ length: 7 }, (_, i) => i + 1), y: new Float32Array(14) })
  const compiled = buffers()
  const interpreted = buffers()
  runKernels([kernel], compiled)
  interpretKernel(kernel, interpreted)
  expect(compiled.y).toEqual(interpreted.y)
  expect([...compiled.y.slice(0, 4)]).toEqual([1, 2, 2, 3])
})
