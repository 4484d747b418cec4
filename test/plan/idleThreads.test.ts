/** Unions on GPUs: a kernel of many small programs is not launched with one whose programs have many times their threads. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { trace } from '../compile/support.ts'

/** Rows normalised beside a matrix that is turned around, of which a program has a square. */
const beside = (rows: number, side: number) =>
  trace([{ shape: [rows, 16384] }, { shape: [side, side] }], ([x, y]) => [
    c.softmax(x as Node, 1),
    c.exp(c.transpose(y as Node)),
  ])

test('a large matrix beside a few long rows: two launches', () => {
  const { report } = compileGraph(beside(8, 8192), { mode: 'fast', target: cudaTarget })
  expect(report.totals.kernels).toBe(2)
  expect(report.refused.map((r) => r.code)).toContain('idle-threads')
})

test('a small matrix beside them, or many rows beside many: one launch', () => {
  expect(compileGraph(beside(8, 256), { mode: 'fast', target: cudaTarget }).report.totals.kernels).toBe(1)
  const alike = trace([{ shape: [4096, 16384] }, { shape: [4096, 16384] }], (xs) => xs.map((x) => c.softmax(x, 1)))
  expect(compileGraph(alike, { mode: 'fast', target: cudaTarget }).report.totals.kernels).toBe(1)
})

test('where the number of multiprocessors is not known, nothing is refused for it', () => {
  const { report } = compileGraph(beside(8, 8192), { mode: 'fast', target: webgpuTarget({ storageBuffers: 12 }) })
  expect(report.refused.map((r) => r.code)).not.toContain('idle-threads')
})
