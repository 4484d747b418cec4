/** The depth of a product that is cut: parts are as even as whole steps are, since all wait for the longest. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, trace } from '../compile/support.ts'

/** Depth and parts of the first product of a program that is cut. */
function cutDepth(m: number, k: number, n: number) {
  const graph = trace([{ shape: [k, m] }, { shape: [k, n] }], (p) => c.matmul(c.permute(at(p, 0), [1, 0]), at(p, 1)))
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32x3' })
  for (const s of program.steps) {
    const axes = s.kind === 'kernel' && s.stage === 'main' ? (s.kernel.parts[0]?.axes ?? []) : []
    const inner = axes.find((a) => a.name.endsWith('_inner'))
    const outer = axes.find((a) => a.name.endsWith('_outer'))
    if (inner !== undefined && outer !== undefined) return { length: inner.extent, parts: outer.extent }
  }
  return undefined
}

test.each([
  [1501, 3001, 2001],
  [1000, 5003, 1100],
  [130, 200001, 130],
  [500, 9999, 300],
])('%i x %i x %i', (m, k, n) => {
  const cut = cutDepth(m, k, n)
  expect(cut).toBeDefined()
  if (cut === undefined) return
  const { length, parts } = cut
  expect(length * parts).toBeGreaterThanOrEqual(k)
  // The last part lacks less than a step of each.
  expect(length * parts - k).toBeLessThan(64 * parts)
})
