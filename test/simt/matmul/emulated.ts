/** Programs for CUDA on the emulator. */
import type { Graph } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { readElement } from '../../../src/scalar/host.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { at, expectClose, inputsOf } from '../../compile/support.ts'
import { Emulated } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

/** Holds what a graph's program gives on the emulator against the reference, in which all operations round to their dtype or none does. */
export async function expectEmulated(graph: Graph, program: Program, inputs = inputsOf(graph)): Promise<void> {
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const emulated = new Emulated(kernels)
  const got = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
  emulated.dispose()
  const made = got.flatMap((y) => y ?? [])
  const [rounded = [], exact = []] = (['dtype', 'f64'] as const).map((rounding) =>
    evaluateGraph(graph, inputs, { rounding }).map(toHostArray),
  )
  expectClose(
    made,
    made.map((y, o) => nearest(y, at(rounded, o), at(exact, o), graph.outputs[o]?.dtype ?? 'f32')),
    graph,
    'emulated',
  )
}

/** Of what every operation rounds and what none does, the elements nearer to results: what a kernel does not store it need not round. */
function nearest(got: HostArray, rounded: HostArray, exact: HostArray, dtype: DType): HostArray {
  const out = rounded.slice() as HostArray
  const off = (of: HostArray, i: number): number =>
    Math.abs(Number(readElement(of, dtype, i)) - Number(readElement(got, dtype, i)))
  for (let i = 0; i < out.length; i++) if (off(exact, i) < off(rounded, i)) out[i] = exact[i] as never
  return out
}
