/** Products whose blocks are no power of two: threads that reach beyond a tile leave its neighbours alone. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { at, expectClose, type Input, inputsOf, trace } from '../../compile/support.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

const halves = (...shape: number[]): Input => ({ shape, dtype: 'bf16' })

test.skipIf(!hasCompiler()).each([
  [65, 47, 83],
  [33, 40, 200],
  [70, 47, 40],
])('%i x %i x %i', { timeout: 60_000 }, async (m, k, n) => {
  const graph = trace([halves(m, k), halves(k, n)], (p) => c.matmul(at(p, 0), at(p, 1)))
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const emulated = new Emulated(kernels)
  const inputs = inputsOf(graph)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  const got = await execute(program, inputs, (kernel, buffers) => emulated.run(kernels.indexOf(kernel), buffers))
  emulated.dispose()
  const results = got.flatMap((x) => x ?? [])
  expect(results.length).toBe(want.length)
  expectClose(results, want, graph, 'emulated')
})
