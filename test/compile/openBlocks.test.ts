/** Blocks of products over extents that vary: columns that are neighbours in memory are neighbours in a block, as in the static program. */
import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { conv, relu, spec, type Tensor } from '../../src/index.ts'
import type { Program } from '../../src/runtime/program.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { openProgram } from './openSupport.ts'
import { at } from './support.ts'

const rows = 48
const traced = ([b = 1, n = 1]: readonly number[]) =>
  traceFunction(
    (x: Tensor, w: Tensor) => relu(conv(x, w, { stride: 2, padding: 1 })),
    [spec([b, 3, rows, n]), spec([16, 3, 3, 3])],
  ).graph

/** The block of a program's one kernel along the axis of results that are neighbours in memory. */
function lineBlock(program: Program): number {
  const kernels = kernelsOf(program)
  expect(kernels).toHaveLength(1)
  const { parts } = at(kernels, 0).step.kernel
  expect(parts).toHaveLength(1)
  const { body, grid } = at(parts, 0)
  const store = body.find((s) => s.kind === 'store')
  const last = store?.kind === 'store' ? store.index.at(-1) : undefined
  const line = last?.terms.flatMap(({ atom, coef }) => (atom.kind === 'axis' && coef === 1 ? [atom.name] : []))
  expect(line).toHaveLength(1)
  return grid.find((g) => g.axis === line?.[0])?.block ?? 0
}

test('windows over an open width: a block has whole lines of results, not columns across them', () => {
  const most = 149
  const dimensions = [
    { name: 'b', least: 2, most: 7 },
    { name: 'n', least: 32, most },
  ]
  const samples = [
    [7, most],
    [2, 32],
    [3, 64],
    [5, 67],
    [3, 101],
    [2, 40],
    [4, 54],
    [5, 120],
    [3, 131],
  ]
  const line = Math.ceil(most / 2)
  expect(lineBlock(compileGraph(traced([7, most]), { mode: 'fast', target: wasmTarget }).program)).toBe(line)
  expect(lineBlock(openProgram({ dimensions, samples, trace: traced }, 'fast', wasmTarget).program)).toBe(line)
})
