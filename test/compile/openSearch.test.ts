/** A search in a sorted vector of open length: as many steps as the greatest length needs, whatever numbers are equal to it at some lengths. */

import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { samplesOf } from '../../src/compile/open/samples.ts'
import { keepingViews } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { searchsorted, type Tensor } from '../../src/index.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import type { Extents } from '../../src/runtime/extents.ts'
import type { Program } from '../../src/runtime/program.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { openProgram, runOn, runStatic } from './openSupport.ts'

const backend = createWasmBackend({ threads: 1 })

const trace = ([n = 0]: Extents): Graph =>
  keepingViews(() => traceFunction((x: Tensor, y: Tensor) => searchsorted(x, y), [spec([n]), spec([7])]).graph)

const loadsOf = ({ steps }: Program): number =>
  steps
    .flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts : []))
    .flatMap((p) => [...allStmts(p.body)])
    .filter((s) => s.kind === 'let' && s.op.kind === 'load').length

// Ends that are steps of the search, and one below a step.
test.for([
  [2, 64, 7],
  [3, 97, 7],
  [4, 127, 7],
  [8, 128, 8],
] as const)('lengths %i to %i', ([lo, hi, steps]) => {
  const numbers = Array.from({ length: 10 }, (_, i) => [2 ** i, 2 ** i - 1]).flat()
  const { samples, dimensions } = samplesOf([{ name: 'length', lo, hi }], new Set(numbers))
  const { program } = openProgram({ samples, dimensions, trace }, 'strict', wasmTarget)
  // Beside the values that are looked for, and the least of a first step that is alike for all.
  expect(loadsOf(program)).toBe(steps + 1)
  const executable = backend.prepare(program)
  const near = [lo, lo + 1, 13, 15, 16, 17, 31, 32, 33, 40, 62, 63, 64, 65, 90, 127, hi - 1, hi]
  for (const n of near.filter((n) => n >= lo && n <= hi)) {
    const graph = trace([n])
    expect(runOn(backend, executable, graph, [n]), `of ${n}`).toEqual(runStatic(backend, graph, 'strict', wasmTarget))
  }
  executable.dispose()
})
