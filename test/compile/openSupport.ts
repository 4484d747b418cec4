/** Programs with open extents compiled from traced functions, and run on a backend beside the static program of each shape. */

import { compileGraph } from '../../src/compile/index.ts'
import { compileOpen } from '../../src/compile/open/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { Backend, Executable } from '../../src/runtime/backend.ts'
import { type Dimension, type Extents, formulaAt, realAt } from '../../src/runtime/extents.ts'
import type { Program } from '../../src/runtime/program.ts'
import { toHost } from '../../src/scalar/host.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { inputsOf } from './support.ts'

/** What a launch at some extents hands over. */
export const numbersAt = (program: Program, at: Extents): HostArray[] =>
  (program.open?.numbers ?? []).map((n) =>
    toHost('formulas' in n ? n.formulas.map((f) => formulaAt(f, at)) : n.reals.map((f) => realAt(f, at)), n.dtype),
  )

export interface OpenCase {
  readonly dimensions: readonly Dimension[]
  readonly samples: readonly Extents[]
  readonly trace: (at: Extents) => Graph
}

export const openProgram = ({ dimensions, samples, trace }: OpenCase, mode: 'fast' | 'strict', target: Machine) =>
  compileOpen(
    samples.map((at) => ({ at, graph: trace(at) })),
    dimensions,
    { mode, target, verify: true },
  )

export function runOn(backend: Backend, executable: Executable, graph: Graph, at?: Extents): HostArray[] {
  const data = [...inputsOf(graph), ...(at === undefined ? [] : numbersAt(executable.program, at))]
  const inputs = data.map((d) => {
    const b = backend.alloc(Math.max(4, d.byteLength))
    backend.write(b, d)
    return b
  })
  const outputs = executable.run(inputs, at)
  const got = outputs.map((b, i) => {
    const node = graph.outputs[i]
    return node === undefined ? new Float32Array() : backend.readSync(b, node.dtype, sizeOf(node.shape))
  })
  for (const b of [...inputs, ...outputs]) backend.free(b)
  return got
}

/** The results of the static program of a graph. */
export function runStatic(backend: Backend, graph: Graph, mode: 'fast' | 'strict', target: Machine): HostArray[] {
  const executable = backend.prepare(compileGraph(graph, { mode, target }).program)
  const got = runOn(backend, executable, graph)
  executable.dispose()
  return got
}
