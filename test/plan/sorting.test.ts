/** A pass of the radix sort: where its kernels are cut, and how its scatter stands. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { singleGroups } from '../../src/plan/plan.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, trace } from '../compile/support.ts'
import { dataOf, expectAlike } from '../support/alike.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { turn } from '../support/nightly.ts'

const sorted = (shape: readonly number[]): Graph => trace([{ shape }], ([x = c.asNode(0)]) => [c.sort(x), c.argsort(x)])

/** What the first loop of a graph repeats. */
function passOf(graph: Graph): Graph {
  for (const n of topologicalOrder(graph.outputs)) if (n.op === 'loop') return n.attrs.body
  throw new Error('there is no loop')
}

const n = 2 ** 20
const pass = passOf(trace([{ shape: [n], dtype: 'u32' }], ([x = c.asNode(0)]) => c.sort(x)))

/** Bytes that a pass moves, an element. */
const bytes = (target: Machine): number =>
  singleGroups(planFusion(pass, target, 'fast')).reduce((t, { cost }) => t + cost.bytesRead + cost.bytesWritten, 0) / n

describe('a pass of the sort', () => {
  // Counting reads keys (4), places read them again and are stored (8), the scatter reads both and stores keys (12); counters and starts are 2 more.
  test.each([
    ['CUDA', cudaTarget],
    ['WebGPU', webgpuTarget()],
  ] as const)('%s: ranks are counted again where places need them', (_, target) => {
    expect(bytes(target)).toBeLessThan(26.5)
  })
  // Ranks, digits and where those begin besides, stored and read, not the four words of counters that ranks are picked from.
  test('WebAssembly: ranks are picked where counters run', () => expect(bytes(wasmTarget)).toBeLessThan(50))

  test('nothing fills what the scatter writes, whose order is nothing', () => {
    const { program } = compileGraph(pass, { mode: 'fast', target: cudaTarget, verify: true })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const scatter = kernels.find((k) =>
      k.parts.some((p) => p.body.some((s) => s.kind === 'store' && s.distinct === true)),
    )
    expect(scatter?.params.find((p) => p.name === 'y')?.access).toBe('write')
    expect(kernels.length).toBeLessThanOrEqual(7)
  })
})

const shapes = [[300], [3, 257], [2, 1000]]

test.each(shapes.map((shape) => [shape]))('kernels of a sort of %j, as the reference has it', (shape) => {
  const graph = sorted(shape)
  const inputs = dataOf(graph, 5)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  for (const target of turn([cudaTarget, webgpuTarget(), wasmTarget], shapes.indexOf(shape))) {
    const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
    expectAlike(interpretProgram(program, inputs, 'dtype', graph.outputs), want, graph, at(shape, 0).toString())
  }
})
