/** Pieces of a joined tensor that programs store across it: sectors of memory are written whole. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, trace } from '../compile/support.ts'

/** Two normalised images of 256 channels each, joined with channels last. */
const joined = (perm: readonly number[], axis: number): string[] => {
  const shape = [8, 256, 65, 65]
  const graph = trace([{ shape }, { shape }], (p) => {
    const normalised = [at(p, 0), at(p, 1)].map((x) => {
      const d = c.sub(x, c.mean(x, [0, 2, 3], true))
      return c.permute(c.mul(d, c.unary('rsqrt', c.mean(c.mul(d, d), [0, 2, 3], true))), perm)
    })
    return c.cast(c.concat(normalised, axis), 'f16')
  })
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  return program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? [printKernel(s.kernel)] : []))
}

test('a program of one channel does not store it among others', () => {
  const kernels = joined([0, 2, 3, 1], 3)
  const stores = kernels.filter((k) => /store y0\[.*\+ 256\]/.test(k))
  expect(stores.length).toBe(1)
  expect(stores.join()).not.toMatch(/reduce/)
})

test('channels that stand apart are stored by the kernel that normalises them', () => {
  expect(joined([0, 1, 2, 3], 1).every((k) => /reduce/.test(k))).toBe(true)
})
