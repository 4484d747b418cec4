/** Rows that see nothing and scores that are no numbers, in chains on tensor cores, as CUDA sources on the host. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { at } from '../../compile/support.ts'
import { edgeCases, edgeData, edgeGraph, edgeProblem } from '../../support/chainEdges.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

describe.skipIf(!hasCompiler())('chains at the edges on tensor cores (skipped where g++ is missing)', () => {
  test.each(['bf16', 'f16'] as const)('%s', { timeout: 180_000 }, async (dtype) => {
    const compiled = edgeCases.map((x) => {
      const graph = edgeGraph(dtype, x)
      const { program, report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
      expect([x.name, report.kernels.map((k) => k.kind)]).toEqual([x.name, ['chain']])
      return { x, graph, program }
    })
    const kernels = compiled.flatMap(({ program }) =>
      program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])),
    )
    const emulated = new Emulated(kernels)
    for (const { x, graph, program } of compiled) {
      const inputs = edgeData(graph, x)
      const got = at(await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers)), 0)
      expect(edgeProblem(x, graph, inputs, got)).toBe(undefined)
    }
    emulated.dispose()
  })
})
