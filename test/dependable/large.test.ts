/**
 * Issue: programs of thousands of operations compile in near-linear time and overflow no stack. Here: many parts, outputs and steps.
 * Sites looked at: concatenations (`boundOperands`), `segmentsOf`, splitting of axes (`checkSplits`), siblings, recomputation
 * (`tryRecompute`), the order of kernels (`orderGroups`), the memory plan (`firstFit`, `kernelHost`), WebAssembly's scheduling.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { concat, jit, setDevice, stack, type Tensor, tensor } from '../../src/index.ts'
import { wasmTarget } from '../../src/plan/target.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

beforeAll(() => setDevice('wasm', { threads: 1 }))
afterAll(() => setDevice('reference'))

describe('concatenations of many parts', () => {
  test('3,000 parts, in pieces that keep to the target', () => {
    const f = jit((x: Tensor) =>
      concat(
        range(3000).map((i) => x.mul(i)),
        0,
      ),
    )
    const x = tensor([1, 2, 3, 4])
    const got = f(x).dataSync()
    expect(got.length).toBe(12_000)
    expect(range(12_000).every((i) => got[i] === ((i % 4) + 1) * (i >> 2))).toBe(true)
    const { kernels, refused } = f.explain(x)
    expect(kernels.length).toBeLessThan(8)
    expect(refused.some((r) => r.code === 'too-many-live-values' || r.code === 'too-many-buffers')).toBe(true)
    expect(wasmTarget.maxStatements).toBeLessThan(3000)
  })
  test('stack of 2,000 parts that are read, not computed', () => {
    const f = jit((xs: readonly Tensor[]) => stack(xs, 1))
    const got = f(range(2000).map((i) => tensor([i, -i]))).dataSync()
    expect(range(2000).every((i) => got[i] === i && got[2000 + i] === 0 - i)).toBe(true)
  })
})
