/** How many programs cut reductions leave on a GPU. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import { cudaTarget, type TargetInfo, webgpuTarget } from '../../src/plan/target.ts'
import { trace } from '../compile/support.ts'

/** Programs of the main kernel of the sums of columns of relu(x), stored too. */
function columnSums(rows: number, columns: number, target: TargetInfo): number {
  const graph = trace([{ shape: [rows, columns], dtype: 'bf16' }], ([x]) => {
    if (x === undefined) throw new Error('no input')
    const y = c.relu(x)
    return [y, c.sum(c.cast(y, 'f32'), [0])]
  })
  const { program } = compileGraph(graph, { target, mode: 'fast' })
  const [main] = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? [s.kernel] : []))
  return main?.parts.reduce((n, p) => n + gridSize(p), 0) ?? 0
}

test.each([
  ['cuda', cudaTarget],
  ['webgpu', webgpuTarget(16)],
] as const)(
  'sums of columns on %s: several rounds of what runs at once, of which the last is nearly full',
  (_, target) => {
    for (const rows of [16384, 10007]) {
      const programs = columnSums(rows, 4096, target)
      expect(programs).toBeLessThanOrEqual(4 * target.minPrograms)
      expect(programs).toBeGreaterThan(3.5 * target.minPrograms)
    }
  },
)
