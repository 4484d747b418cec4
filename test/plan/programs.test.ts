/** How many programs the kernels of reductions have on a GPU. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { cudaSimt, webgpuSimt } from '../../src/target/simt.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { type Input, trace } from '../compile/support.ts'

/** Programs of a kernel of the sums of columns of relu(x), stored too: the main one, or the one that adds partial sums. */
function columnSums(rows: number, columns: number, target: Machine, stage: 'main' | 'finishing' = 'main'): number {
  const graph = trace([{ shape: [rows, columns], dtype: 'bf16' }], ([x]) => {
    if (x === undefined) throw new Error('no input')
    const y = c.relu(x)
    return [y, c.sum(c.cast(y, 'f32'), [0])]
  })
  const { program } = compileGraph(graph, { target, mode: 'fast' })
  const [main] = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === stage ? [s.kernel] : []))
  return main?.parts.reduce((n, p) => n + gridSize(p), 0) ?? 0
}

test.each([
  ['cuda', cudaTarget],
  ['webgpu', webgpuTarget({ storageBuffers: 16 })],
] as const)('sums of columns on %s: several rounds of what runs at once', (_, target) => {
  for (const rows of [16384, 10007]) {
    const programs = columnSums(rows, 4096, target)
    expect(programs).toBeLessThanOrEqual(4 * target.minPrograms)
    expect(programs).toBeGreaterThan(3 * target.minPrograms)
  }
})

test('partial sums of columns are added by programs of 16 columns where one program cannot use all of a cache', () => {
  expect(columnSums(16384, 4096, cudaTarget, 'finishing')).toBe(4096 / 16)
  expect(columnSums(16384, 4096, webgpuTarget({ storageBuffers: 16 }), 'finishing')).toBe(4096 / 16)
  expect(columnSums(16384, 65536, cudaTarget, 'finishing')).toBeLessThanOrEqual(2 * cudaTarget.minPrograms)
})

/** Programs of every main kernel; every kernel must have code. */
function programsOf(target: Machine, inputs: readonly Input[], build: (x: Node) => Node): number[] {
  const graph = trace(inputs, ([x]) => {
    if (x === undefined) throw new Error('no input')
    return build(x)
  })
  const { program } = compileGraph(graph, { target, mode: 'fast' })
  return program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    if (target.name === 'cuda') emitKernel(s.kernel, cudaSimt)
    else emitKernel(s.kernel, webgpuSimt)
    return s.stage === 'main' ? [s.kernel.parts.reduce((n, p) => n + gridSize(p), 0)] : []
  })
}

const targets = [
  ['cuda', cudaTarget],
  ['webgpu', webgpuTarget({ storageBuffers: 16 })],
] as const

describe.each(targets)('rows of few programs on %s', (_, target) => {
  const centred = (x: Node): Node => c.tanh(c.sub(x, c.sum(x)))

  test('a small tensor over its own sum is one program', () => {
    expect(programsOf(target, [{ shape: [1000] }], (x) => centred(centred(x)))).toEqual([1])
  })

  test('a large one is not: its sum is a kernel of many programs', () => {
    const all = programsOf(target, [{ shape: [1 << 20] }], (x) => centred(centred(x)))
    expect(all).toHaveLength(3)
    for (const n of all) expect(n).toBeGreaterThan(128)
  })

  test('long rows: one kernel where there are many, cut where there are few', () => {
    const softmax = (x: Node): Node => c.softmax(x, 1)
    expect(programsOf(target, [{ shape: [256, 1 << 17] }], softmax)).toEqual([256])
    for (const n of programsOf(target, [{ shape: [2, 1 << 22] }], softmax)) expect(n).toBeGreaterThan(500)
  })

  test.each([64, 181, 300, 700, 2048])('normalising along alternating axes of %i squared has code', (n) => {
    const all = programsOf(target, [{ shape: [n, n] }], (x) => {
      let y = x
      for (let i = 0; i < 6; i++) y = c.softmax(y, i % 2)
      return y
    })
    expect(all).toHaveLength(n === 64 || (target.name === 'cuda' && n <= 300) ? 1 : 6)
  })
})
