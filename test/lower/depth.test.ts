/** Products whose depth is cut into parts, a program each: partial results, a finishing stage, and products that stay whole. */
import { describe, expect, test } from 'vitest'
import { type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, check, type Input, trace } from '../compile/support.ts'

/** Small products take long. */
const target: Machine = { ...wasmTarget, matrixRate: 1e8 }

function stages(
  inputs: readonly Input[],
  build: (p: readonly Node[]) => Node | Node[],
  options: Partial<CompileOptions> = {},
) {
  const { program } = check(trace(inputs, build), { target, ...options })
  return program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [[s.stage, s.kernel.parts.reduce((n, p) => n + gridSize(p), 0)] as const] : [],
  )
}

const product = (p: readonly Node[]): Node => c.matmul(at(p, 0), at(p, 1))
const pair = (m: number, k: number, n: number): Input[] => [{ shape: [m, k] }, { shape: [k, n] }]

describe('few blocks and much depth', () => {
  test.each([
    [16, 1024, 16, 8],
    [16, 1000, 16, 8],
    [7, 999, 13, 9],
    [5, 1331, 6, 11],
  ])('%i x %i x %i: %i parts', (m, k, n, parts) => {
    expect(stages(pair(m, k, n), product)).toEqual([
      ['main', parts],
      ['finishing', expect.any(Number)],
    ])
  })

  test.each([
    [8192, 8192, 512],
    [4096, 14336, 448],
  ])('16 rows times %i x %i weights through WebGPU: programs enough', (k, n, programs) => {
    const graph = trace(
      [
        { shape: [16, k], dtype: 'bf16' },
        { shape: [k, n], dtype: 'i8' },
      ],
      (p) => c.matmul(at(p, 0), c.cast(at(p, 1), 'bf16')),
    )
    const { program } = compileGraph(graph, {
      mode: 'fast',
      target: webgpuTarget({ storageBuffers: 8, sharedBytes: 32768 }),
    })
    const sizes = program.steps.flatMap((s) =>
      s.kind === 'kernel' ? s.kernel.parts.reduce((sum, p) => sum + gridSize(p), 0) : [],
    )
    expect(sizes).toHaveLength(2)
    expect(at(sizes, 0)).toBe(programs)
  })

  test('transposed operands, and what follows in the finishing stage', () => {
    const shapes: Input[] = [{ shape: [960, 12] }, { shape: [20, 960] }, { shape: [12, 20] }, { shape: [20] }]
    const steps = stages(shapes, (p) => {
      const y = c.matmul(c.transpose(at(p, 0)), c.transpose(at(p, 1)))
      const moved = c.sub(at(p, 2), c.mul(y, 0.125))
      return [moved, c.exp(c.add(c.mul(y, 0.01), at(p, 3)))]
    })
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
    expect(at(at(steps, 0), 1)).toBe(8)
  })

  test('a prologue and a batch', () => {
    const steps = stages([{ shape: [2, 9, 640] }, { shape: [2, 640, 11] }], (p) => c.matmul(c.relu(at(p, 0)), at(p, 1)))
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
    expect(at(at(steps, 0), 1)).toBe(8)
  })

  test('windows', () => {
    const steps = stages([{ shape: [8, 3, 10, 10] }, { shape: [8, 4, 10, 10] }], (p) => {
      const padded = c.pad(at(p, 0), [
        [0, 0],
        [0, 0],
        [1, 1],
        [1, 1],
      ])
      const shifted = c.slice(padded, [{}, {}, { start: 1, stop: 11 }, { start: 2 }])
      const rows = (x: Node, channels: number): Node => c.reshape(c.permute(x, [1, 0, 2, 3]), [channels, 800])
      return c.matmul(rows(shifted, 3), c.transpose(rows(at(p, 1), 4)))
    })
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
  })
})

describe('whole', () => {
  const whole = [['main', expect.any(Number)]]
  test('in strict mode, whose sums are in order', () => {
    expect(stages(pair(16, 1024, 16), product, { mode: 'strict' })).toEqual(whole)
  })
  test('where the depth has no even parts', () => {
    expect(stages(pair(16, 1021, 16), product)).toEqual(whole)
  })
  test('where the result has blocks enough', () => {
    const inputs = pair(40, 1024, 40)
    expect(stages(inputs, product)).toHaveLength(2)
    expect(stages(inputs, product, { target: { ...target, minPrograms: 4 } })).toEqual(whole)
  })
  test('where the product is short', () => {
    expect(stages(pair(16, 1024, 16), product, { target: wasmTarget })).toEqual(whole)
  })
})
