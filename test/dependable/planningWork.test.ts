/**
 * Issue: compile time is near-linear. Here: the work of planning, counted (no clocks): regions that were tried, those that were built as
 * kernels because no other had their form (src/plan/forms.ts), and the statements of those.
 * Sites looked at: `Trials.of`, `Judge.build`, `Planner.mergeEdges`, `mergeSiblings`, `tryRecompute`.
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { PlanningWork } from '../../src/plan/plan.ts'
import { cudaTarget, type TargetInfo, wasmTarget, webgpuTarget } from '../../src/plan/target.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const targets: readonly TargetInfo[] = [wasmTarget, cudaTarget, webgpuTarget()]

function workOf(target: TargetInfo, shapes: readonly (readonly number[])[], body: (p: Node[]) => Node[]): PlanningWork {
  const graph = withContext((): Graph => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    return { params, outputs: body(params), effects: [] }
  })
  return compileGraph(graph, { mode: 'fast', target }).plan.work
}

/** So many layers, each with a weight of its own. */
const layers = (target: TargetInfo, n: number): PlanningWork =>
  workOf(target, [[8, 32], ...range(n).map(() => [32, 32])], ([x, ...weights]) => {
    if (x === undefined) return []
    return [weights.reduce((y, w) => c.add(y, c.relu(c.matmul(c.softmax(y), w))), x)]
  })

describe('what repeats itself is built once', () => {
  for (const target of targets)
    test(`layers on ${target.name}`, () => {
      const [few, many] = [layers(target, 20), layers(target, 80)]
      expect(many.trials).toBeGreaterThan(2 * few.trials)
      expect(many.trials).toBeLessThan(5 * few.trials)
      expect(few.built).toBeLessThan(few.trials / 4)
      expect(many.built).toBeLessThan(1.2 * few.built)
      expect(many.statements).toBeLessThan(1.5 * few.statements)
    })
})
