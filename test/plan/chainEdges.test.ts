/** Rows that see nothing and scores that are no numbers, in chains: in the interpreter and in WebAssembly. */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at } from '../compile/support.ts'
import { edgeCases, edgeData, edgeGraph, edgeProblem } from '../support/chainEdges.ts'
import { interpretProgram } from '../support/interpretProgram.ts'

/** Blocks so small that a row is several. */
const small: Machine = { ...wasmTarget, minPrograms: 1, chains: { rows: 16, shared: 16, width: 64 } }
/** The same where a program is a small share of the machine: keys are cut into parts. */
const cut: Machine = { ...small, minPrograms: 64, launch: 1e-12, programShare: { moving: 1 / 64, computing: 1 / 64 } }
const backend = createWasmBackend({ threads: 1 })

describe.each([
  ['whole', small, 0],
  ['in parts', cut, 1],
] as const)('chains at the edges, keys %s', (_, target, stages) => {
  test.each(edgeCases)('$name', (x) => {
    const graph = edgeGraph('f32', x)
    const { program, report } = compileGraph(graph, { mode: 'fast', target, verify: true })
    expect(report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', stages]])
    const inputs = edgeData(graph, x)
    const [interpreted] = interpretProgram(program, inputs, 'dtype', graph.outputs)
    expect(edgeProblem(x, graph, inputs, at([interpreted], 0) as Float32Array)).toBe(undefined)
    const executable = backend.prepare(program)
    const bound = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    const out = at(graph.outputs, 0)
    const got = backend.readSync(at(executable.run(bound), 0), out.dtype, sizeOf(out.shape))
    expect(edgeProblem(x, graph, inputs, got)).toBe(undefined)
    executable.dispose()
  })
})
