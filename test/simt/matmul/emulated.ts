/** Programs for CUDA on the emulator. */
import type { Graph } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { expectClose, inputsOf } from '../../compile/support.ts'
import { Emulated } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

/** Holds what a graph's program gives on the emulator against the reference. */
export async function expectEmulated(graph: Graph, program: Program, inputs = inputsOf(graph)): Promise<void> {
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const emulated = new Emulated(kernels)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  const got = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
  emulated.dispose()
  expectClose(
    got.flatMap((y) => y ?? []),
    want,
    graph,
    'emulated',
  )
}
