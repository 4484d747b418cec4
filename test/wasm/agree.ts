/** Programs of tensors on WebAssembly, in both modes, against the reference: bit for bit. */
import { expect } from 'vitest'
import * as s from '../../src/index.ts'

export type F = (...args: s.Tensor[]) => s.Tensor

/** Expects a function to give what the reference gives, whole numbers mostly, whose sums are exact in any order. */
export function agree(f: F, args: readonly s.Tensor[], threads = 1, what = ''): void {
  s.setDevice('wasm', { threads })
  const want = s
    .jit(f, { device: 'reference' })(...args)
    .dataSync()
  for (const mode of ['fast', 'strict'] as const)
    expect(
      s
        .jit(f, { mode })(...args)
        .dataSync(),
      `${what}, ${mode}`,
    ).toEqual(want)
}
