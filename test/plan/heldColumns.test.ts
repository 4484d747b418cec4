/** Folds of a product's results over one of several axes of rows or columns: whole only where a program holds all of that axis. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as s from '../../src/index.ts'
import { program, type Tensor } from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { dataOf, expectAlike } from '../support/alike.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { runGraph } from '../support/runGraph.ts'

describe.each([
  [27, 9, 3, 16],
  [40, 8, 2, 16],
  [33, 17, 3, 32],
  [5, 40, 4, 9],
])('%d rows through %d of %d experts, %d wide', (rows, depth, experts, width) => {
  const { graph } = program(
    ({ x, gate, w, by }: Record<string, Tensor>) => {
      const each = s.einsum('id,edh->ieh', x as Tensor, w as Tensor).mul(by as Tensor)
      return [s.einsum('ie,ieh->ih', gate as Tensor, each), each.max(1), each.sum(0)]
    },
    {
      x: { shape: [rows, depth] },
      gate: { shape: [rows, experts] },
      w: { shape: [experts, depth, width] },
      by: { shape: [rows, experts, width] },
    },
  ).trace()
  for (const o of [0, 1, 2]) {
    const one = { ...graph, outputs: graph.outputs.slice(o, o + 1) }
    test.each([cudaTarget, webgpuTarget({ storageBuffers: 12 })])(`result ${o}, on $name`, (target) => {
      const { program } = compileGraph(one, { mode: 'fast', target, verify: true })
      const inputs = dataOf(one, 7)
      const want = evaluateGraph(one, inputs, { rounding: 'dtype' }).map(toHostArray)
      expectAlike(interpretProgram(program, inputs, 'dtype', one.outputs), want, one, 'interpreted')
    })
    test(`result ${o}, in WebAssembly`, () => {
      expect(runGraph(one, 7, wasmTarget).program.outputs.length).toBe(1)
    })
  }
})
