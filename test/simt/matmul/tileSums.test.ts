/** Chains of two products whose sum is folded along the columns, and that no product sums, as CUDA sources on the host. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { trace } from '../../compile/support.ts'
import { dataOf } from '../../support/alike.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

describe.skipIf(!hasCompiler())('sums of rows of two products (skipped where g++ is missing)', () => {
  test.each([
    ['f16', 48, 16, 48],
    ['bf16', 70, 32, 65],
    ['f16', 128, 64, 128],
    ['f16', 5, 8, 9],
  ] as const)('%s, %d rows, %d deep, %d columns', { timeout: 120_000 }, async (dtype, rows, depth, columns) => {
    const graph = trace(
      [
        { shape: [rows, depth], dtype },
        { shape: [depth, columns], dtype },
        { shape: [rows, depth], dtype },
        { shape: [depth, columns], dtype },
        { shape: [rows, columns] },
      ],
      ([a, b, x, y, w]) => {
        const both = c.add(c.matmul(a as Node, b as Node), c.matmul(x as Node, y as Node))
        return c.sum(c.mul(c.cast(both, 'f32'), w as Node), [1])
      },
    )
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    expect(kernels.length).toBe(1)
    const inputs = dataOf(graph, 11)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const emulated = new Emulated(kernels)
    const got = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    emulated.dispose()
    // Terms are rounded to half precision, or not.
    const scale = dtype === 'bf16' ? 2e-2 : 3e-3
    const [near, far] = [got[0] ?? [], want[0] ?? []]
    for (let i = 0; i < far.length; i++)
      expect(Math.abs(Number(near[i]) - Number(far[i])), `row ${i}`).toBeLessThan(scale * Math.sqrt(columns * depth))
  })
})
