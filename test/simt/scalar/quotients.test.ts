/** Quotients in CUDA sources, on the host: of zeros by what is zero, subnormal, infinite or NaN, and with every sign. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { at, trace } from '../../compile/support.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

const numbers = [0, -0, 1, -3, 2 ** -149, -(2 ** -149), 2 ** -126, 3e38, -3e38, Infinity, -Infinity, Number.NaN]

test.skipIf(!hasCompiler())('quotients (skipped where g++ is missing)', { timeout: 60_000 }, async () => {
  const pairs = numbers.flatMap((a) => numbers.map((b) => [a, b] as const))
  const graph = trace([{ shape: [pairs.length] }, { shape: [pairs.length] }], (p) => c.div(at(p, 0), at(p, 1)))
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const emulated = new Emulated(kernels)
  const inputs = [0, 1].map((i) => Float32Array.from(pairs, (p) => p[i as 0 | 1]))
  const [got] = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
  emulated.dispose()
  expect(Array.from(got as Float32Array)).toEqual(pairs.map(([a, b]) => Math.fround(Math.fround(a) / Math.fround(b))))
})
