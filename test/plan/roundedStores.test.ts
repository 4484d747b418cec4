/** What a kernel of 16 bits stores and goes on with: rounded for both, as for kernels that read it. */
import { beforeAll, expect, test } from 'vitest'
import { full, jit, setDevice, type Tensor } from '../../src/index.ts'

beforeAll(() => setDevice('wasm', { threads: 1 }))

/** Sums of rows of 1 + 2^-12, which both half dtypes round to 1: in f32, of a sum in the dtype that is stored beside them or is not. */
async function sumsOf(dtype: 'f16' | 'bf16', isStored: boolean, mode: 'fast' | 'strict' = 'fast'): Promise<number[]> {
  const program = jit(
    (x: Tensor, y: Tensor) => {
      const sum = x.add(y)
      const total = sum.astype('f32').sum(-1)
      return isStored ? [sum, total] : [total]
    },
    { mode },
  )
  const inputs = [full([4, 64], 1, dtype), full([4, 64], 2 ** -12, dtype)] as const
  expect(program.explain(...inputs).totals.kernels).toBe(1)
  const results = program(...inputs)
  return [...((await results.at(-1)?.data()) ?? [])].map(Number)
}

test.each(['f16', 'bf16'] as const)('%s', async (dtype) => {
  expect(await sumsOf(dtype, true)).toEqual([64, 64, 64, 64])
  expect(await sumsOf(dtype, true, 'strict')).toEqual([64, 64, 64, 64])
  const more = 64 + 64 * 2 ** -12
  expect(await sumsOf(dtype, false)).toEqual([more, more, more, more])
})
