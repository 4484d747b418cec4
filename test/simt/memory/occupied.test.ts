/** How axes are spread over threads where a power of two would leave some without work. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { threadsOf } from '../../../src/schedule/simt/layout/layout.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { at, trace } from '../../compile/support.ts'

/** The layout of an axis of so many indices in a graph's kernel: threads, repeats, neighbours and chunks. */
function spreadOf(graph: Graph, extent: number): readonly [number, number, number, number] {
  const [step] = compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps
  if (step?.kind !== 'kernel') expect.fail('no kernel')
  const [part] = scheduleThreads(step.kernel, cudaTarget.simt).schedule.parts
  const [axis] = step.kernel.parts[0]?.axes.filter((a) => a.extent === extent) ?? []
  const a = axis === undefined ? undefined : part?.layout.find(axis.name)
  return a === undefined ? expect.fail(`no axis of ${extent}`) : [threadsOf(a), a.reps, a.vec, a.chunks]
}

const normalised = (shape: readonly number[], dtype: 'f32' | 'bf16'): Graph =>
  trace([{ shape, dtype }], (p) => {
    const x = c.tanh(at(p, 0))
    return c.div(x, c.sum(x, -1, true))
  })

test('rows of a few elements, no power of two, are whole in a thread', () => {
  expect(spreadOf(normalised([100_000, 5], 'bf16'), 5)).toEqual([1, 5, 1, 1])
  expect(spreadOf(normalised([100_000, 6], 'f32'), 6)).toEqual([1, 3, 2, 1])
  expect(spreadOf(normalised([100_000, 8], 'f32'), 8)[0]).toBe(2)
  expect(spreadOf(normalised([100_000, 13], 'f32'), 13)[0]).toBeGreaterThan(1)
})

test('of columns that are few programs, threads are as many as keep the machine busy', () => {
  const columns = (n: number): Graph => trace([{ shape: [63, n] }], (p) => c.argmin(at(p, 0), 0))
  expect(spreadOf(columns(163_835), 163_835)[0]).toBe(256)
})
