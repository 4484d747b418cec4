/**
 * Programs with open extents as CUDA sources on the host (emulator/): one code for many shapes gives what the static kernels of each
 * shape give, in strict mode bit for bit. Random ones have code through WebGPU as well.
 */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { UserError } from '../../../src/diagnostics/errors.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Extents } from '../../../src/runtime/extents.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { kernelsOf } from '../../../src/runtime/region.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { openCases, others } from '../../compile/openCases.ts'
import { numbersAt, type OpenCase, openProgram } from '../../compile/openSupport.ts'
import { expectClose, inputsOf } from '../../compile/support.ts'
import { others as randomExtents, randomOpen } from '../../random/openPrograms.ts'
import { some, turn } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from './programs.ts'

const kernelsIn = (p: Program) => kernelsOf(p).map(({ step }) => step.kernel)

/** Compares a program of a range with static ones at some extents: their bits in strict mode, in fast mode with the reference. */
async function check(made: OpenCase, mode: 'fast' | 'strict', extents: readonly Extents[]): Promise<void> {
  const { program } = openProgram(made, mode, cudaTarget)
  const shapes = extents.map((at) => ({ at, graph: made.trace(at) }))
  const fixed =
    mode === 'fast' ? [] : shapes.map(({ graph }) => compileGraph(graph, { mode, target: cudaTarget }).program)
  const kernels = [program, ...fixed].flatMap(kernelsIn)
  const emulated = new Emulated(kernels)
  const run = (of: Program, inputs: readonly HostArray[]): Promise<HostArray[]> =>
    execute(of, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
  try {
    for (const [i, { at, graph }] of shapes.entries()) {
      const inputs = inputsOf(graph)
      const whole = await run(program, [...inputs, ...numbersAt(program, at)])
      const got = graph.outputs.map((o, n) => whole[n]?.subarray(0, sizeOf(o.shape)) ?? new Float32Array())
      const alone = fixed[i]
      if (alone !== undefined) expect(got, `at ${at.join(' by ')}`).toEqual(await run(alone, inputs))
      else expectClose(got, evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), graph, at.join())
    }
  } finally {
    emulated.dispose()
  }
}

for (const [i, { name, ...made }] of some(openCases, 4).entries())
  for (const mode of turn(['fast', 'strict'] as const, i))
    test(`${name}, ${mode}`, async ({ skip }) => {
      skip(!hasCompiler(), 'no C++ compiler')
      await check(made, mode, some(others.slice(1), 3))
    }, 60_000)

// Of those, sums over several open extents have more than a chunk of strict mode; the last one sums what is normalised along an axis that the sum takes first.
for (const seed of some([1, 2, 3, 5, 82], 3))
  test(`random program ${seed}, strict`, async ({ skip }) => {
    skip(!hasCompiler(), 'no C++ compiler')
    await check(randomOpen(seed), 'strict', some(randomExtents, 2))
  }, 60_000)

// Loops over chunks of one axis inside those of another, which load early through WebGPU.
test.each(some([63, 66, 70], 2))('random program %i has code through WebGPU, strict', { timeout: 60_000 }, (seed) => {
  const target = webgpuTarget()
  let made: ReturnType<typeof openProgram> | undefined
  try {
    made = openProgram(randomOpen(seed), 'strict', target)
  } catch (e) {
    if (!(e instanceof UserError) || e.code !== 'E_UNSUPPORTED') throw e
  }
  for (const s of made?.program.steps ?? []) if (s.kind === 'kernel') emitKernel(s.kernel, target.simt)
})
