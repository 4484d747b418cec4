/**
 * Issue: programs of thousands of operations compile in near-linear time and overflow no stack. Here: many parts, outputs and steps.
 * Sites looked at: concatenations (`boundOperands`), `segmentsOf`, splitting of axes (`checkSplits`), siblings, recomputation
 * (`tryRecompute`), the order of kernels (`orderGroups`), the memory plan (`firstFit`, `kernelHost`), WebAssembly's scheduling.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { associativeScan, concat, jit, setDevice, stack, type Tensor, tensor } from '../../src/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { nightly } from '../support/nightly.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

beforeAll(() => setDevice('wasm', { threads: 1 }))
afterAll(() => setDevice('reference'))

describe('concatenations of many parts', () => {
  const parts = nightly ? 3000 : 700
  test(`${parts} parts, in pieces that keep to the target`, () => {
    const f = jit((x: Tensor) =>
      concat(
        range(parts).map((i) => x.mul(i)),
        0,
      ),
    )
    const x = tensor([1, 2, 3, 4])
    const got = f(x).dataSync()
    expect(got.length).toBe(4 * parts)
    expect(range(4 * parts).every((i) => got[i] === ((i % 4) + 1) * (i >> 2))).toBe(true)
    const { kernels, refused } = f.explain(x)
    expect(kernels.length).toBeLessThan(8)
    expect(refused.some((r) => r.code === 'too-many-live-values' || r.code === 'too-many-buffers')).toBe(true)
    expect(wasmTarget.maxStatements).toBeLessThan(parts)
  })
  const read = nightly ? 2000 : 400
  test(`stack of ${read} parts that are read, not computed`, () => {
    const f = jit((xs: readonly Tensor[]) => stack(xs, 1))
    const got = f(range(read).map((i) => tensor([i, -i]))).dataSync()
    expect(range(read).every((i) => got[i] === i && got[read + i] === 0 - i)).toBe(true)
  })
})

describe('chains of views', () => {
  test('300 rotations by concatenation compile as few branches, not 2^300', () => {
    const f = jit((x: Tensor) => {
      let y = x
      for (let i = 0; i < 300; i++) y = concat([y.slice([1, 8]), y.slice([0, 1])], 0)
      return y
    })
    expect([...f(tensor(range(8))).dataSync()]).toEqual(range(8).map((i) => (i + 300) % 8))
  })
  test('40 interleavings are cut into kernels of the size that the target takes', () => {
    const shuffled = (v: readonly number[]): number[] => range(8).map((i) => v[(i >> 1) + 4 * (i & 1)] ?? 0)
    const f = jit((x: Tensor) => {
      let y = x
      for (let i = 0; i < 40; i++) y = stack([y.slice([0, 4]), y.slice([4, 8])], 1).reshape([8])
      return y
    })
    let want = range(8)
    for (let i = 0; i < 40; i++) want = shuffled(want)
    expect([...f(tensor(range(8))).dataSync()]).toEqual(want)
  })
})

describe('associativeScan', () => {
  test('its views compose to maps without quotients', () => {
    const f = jit((x: Tensor) => associativeScan((a: Tensor, b: Tensor) => a.add(b), x))
    const n = nightly ? 2048 : 64
    const x = tensor(range(n).map(() => 1))
    expect([...f(x).dataSync()]).toEqual(range(n).map((i) => i + 1))
    expect(f.explain(x).totals.kernels).toBeLessThan(20)
  })
})
