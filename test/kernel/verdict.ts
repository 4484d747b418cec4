/** Kernels for the verifier's tests. */
import type { Kernel, Stmt } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'

const params = `
  param x: f32[6, 10] read
  param y: f32[6, 10] write
  param u: f32[10] update
  param n: i32[6] read
  param z: i32[6] write
  param bits: bool[10] read bits`

/** The verdict on a part of axes r: 6, c: 10, k: 4 (k local unless looped over), grid r. */
export const verdict = (body: string, grid = 'r'): (() => void) => {
  const kernel = parseKernel(`kernel bad {${params}\n axes r: 6, c: 10, k: 4\n grid ${grid}\n${body}\n}`)
  return () => verifyKernel(kernel)
}

export const base = parseKernel(
  `kernel base {${params}\n axes r: 6, c: 10, k: 4\n grid r\n %0 f32{r, c} = load x[r, c]\n}`,
)
export const [basePart] = base.parts
export const withBody = (...body: readonly Stmt[]): Kernel => ({
  ...base,
  parts: basePart === undefined ? [] : [{ ...basePart, body }],
})
export const changed = (change: Partial<NonNullable<typeof basePart>>): (() => void) => {
  const parts = basePart === undefined ? [] : [{ ...basePart, ...change }]
  return () => verifyKernel({ ...base, parts })
}
