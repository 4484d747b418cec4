/** Running a graph everywhere that a test can: the interpreter of kernels and WebAssembly, against the reference. */
import { expect } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Program } from '../../src/runtime/program.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at } from '../compile/support.ts'
import { dataOf, expectAlike } from './alike.ts'
import { interpretProgram } from './interpretProgram.ts'

const backend = createWasmBackend({ threads: 1 })

/** Compiles and runs a graph in the interpreter and in WebAssembly; both agree with the reference, and a second run with the first. */
export function runGraph(graph: Graph, seed: number, target: Machine): ReturnType<typeof compileGraph> {
  const compiled = compileGraph(graph, { mode: 'fast', target, verify: true })
  const inputs = dataOf(graph, seed)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  expectAlike(interpretProgram(compiled.program, inputs, 'dtype', graph.outputs), want, graph, 'interpreted')
  const [got, again] = onWasm(compiled.program, inputs, graph, 2)
  expectAlike(got ?? [], want, graph, 'in WebAssembly')
  expect(again).toEqual(got)
  return compiled
}

/** Results of a graph's program in WebAssembly, of so many runs. */
export function onWasm(program: Program, inputs: readonly HostArray[], graph: Graph, runs: number): HostArray[][] {
  const executable = backend.prepare(program)
  const bound = inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  const results = Array.from({ length: runs }, () =>
    executable
      .run(bound)
      .map((b, i) => backend.readSync(b, at(graph.outputs, i).dtype, sizeOf(at(graph.outputs, i).shape))),
  )
  executable.dispose()
  return results
}
