/** CUDA sources in strict mode, run on the host: programs give the bits that each operation alone gives. SINTER_SIMT_PROGRAMS and SINTER_SIMT_FIRST as in `emulated`. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { inputsOf, trace } from '../../compile/support.ts'
import { randomGraph } from '../../random/graphs.ts'
import { seedsOf, some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from './programs.ts'

const { library: _, ...target } = cudaTarget

/** Results of each program, fused and operation by operation. */
async function both(all: readonly { readonly graph: Graph; readonly inputs: readonly HostArray[] }[]) {
  const made = all.flatMap(({ graph, inputs }) =>
    [true, false].map((fuse) => ({ inputs, program: compileGraph(graph, { mode: 'strict', target, fuse }).program })),
  )
  const kernels = made.flatMap(({ program }) => program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])))
  const emulated = new Emulated(kernels)
  const out: HostArray[][] = []
  for (const { program, inputs } of made)
    out.push(await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers)))
  emulated.dispose()
  return out
}

const sums: Record<string, { readonly shape: readonly number[]; readonly build: (x: Node) => Node }> = {
  'rows that are normalised down columns': { shape: [11, 246], build: (x) => c.mean(c.softmax(x, 0)) },
  'the same of few': { shape: [4, 16, 6], build: (x) => c.sum(c.softmax(x, 0)) },
  'deviations from the middle axis': {
    shape: [3, 40, 25],
    build: (x) => c.sum(c.square(c.sub(x, c.mean(x, 1, true)))),
  },
  'deviations from rows, in order': { shape: [37, 90], build: (x) => c.sum(c.square(c.sub(x, c.mean(x, 1, true)))) },
  'running sums down columns': { shape: [30, 70], build: (x) => c.sum(c.scan('sum', x, 0)) },
}

describe.skipIf(!hasCompiler())('strict sums', () => {
  test('of what folds along another axis leave', async () => {
    const tried = some(Object.entries(sums), 2)
    const all = tried.map(([, { shape, build }]) => {
      const graph = trace([{ shape: [...shape] }], ([x]) => build(x as Node))
      return { graph, inputs: inputsOf(graph) }
    })
    const results = await both(all)
    tried.forEach(([name], i) => {
      expect([name, results[2 * i]]).toEqual([name, results[2 * i + 1]])
    })
  })

  test('in random programs', { timeout: 240_000 }, async () => {
    const count = seedsOf('SINTER_SIMT_PROGRAMS', 4, 10)
    const first = Number(process.env.SINTER_SIMT_FIRST ?? 0)
    const all = Array.from({ length: count }, (_, i) => randomGraph(first + i, { maxElements: 300 }))
    const results = await both(all)
    all.forEach((_, i) => {
      expect([first + i, results[2 * i]]).toEqual([first + i, results[2 * i + 1]])
    })
  })
})
