/**
 * Issue: compile time is near-linear. Here: the work of planning, counted (no clocks): regions that were tried, those that were built as
 * kernels because no other had their form (src/plan/body/forms.ts), and the statements of those: a kernel of n statements is built a few
 * times on the way there, not n times (blocks in src/plan/algorithms/mergeQueue.ts, several at once in src/plan/fuse/growth.ts).
 * And the groups that searches for paths go through, which keep to what stands between the two and go on where the next question is of the same
 * group (`GroupGraph.hasIndirectPath`).
 * Sites looked at: `CandidateMemo.of`, `Candidates.build`, `Planner.mergeEdges`, `quickRefusal`, `MergeQueue.add` (a heap), `fuseSiblings`,
 * `tryRecompute` and `tooLarge` (kernels that are full are not built to find that out: `leastStatements`, by tensor and place),
 * `refusedOf` (asked for here, since only then it tries).
 */
import { describe, expect, test } from 'vitest'
import { boundOperands, operandLimits } from '../../src/compile/operands.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import type { FusionPlan, PlanningWork } from '../../src/plan/plan.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { nightly, some, turn } from '../support/nightly.ts'

/** A kernel of each, on the way to which as many statements are built as it has itself, so many times. */
const buildsOfAKernel = 12

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const targets: readonly Machine[] = [wasmTarget, cudaTarget, webgpuTarget()]

function planOf(target: Machine, shapes: readonly (readonly number[])[], body: (p: Node[]) => Node[]): FusionPlan {
  const graph = withContext((): Graph => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    return { params, outputs: body(params), effects: [] }
  })
  return planFusion(boundOperands(graph, operandLimits(target)), target, 'fast')
}

function workOf(...program: Parameters<typeof planOf>): PlanningWork {
  const plan = planOf(...program)
  plan.refused.forEach(() => {})
  return plan.work
}

/** So many layers, each with a weight of its own. */
const layers = (target: Machine, n: number): PlanningWork =>
  workOf(target, [[8, 32], ...range(n).map(() => [32, 32])], ([x, ...weights]) => {
    if (x === undefined) return []
    return [weights.reduce((y, w) => c.add(y, c.relu(c.matmul(c.softmax(y), w))), x)]
  })

describe('what repeats itself is built once', () => {
  for (const target of some(targets, 2))
    test(`layers on ${target.name}`, () => {
      const [few, many] = [layers(target, 20), layers(target, 80)]
      expect(many.trials).toBeGreaterThan(2 * few.trials)
      expect(many.trials).toBeLessThan(5 * few.trials)
      expect(few.built).toBeLessThan(few.trials / 4)
      expect(many.built).toBeLessThan(1.2 * few.built)
      expect(many.statements).toBeLessThan(1.5 * few.statements)
    })
})

describe('work grows as the program does', () => {
  const programs: Readonly<Record<string, (n: number) => (p: Node[]) => Node[]>> = {
    'dependent sums': (n) => (p) => p.map((x) => range(n).reduce((y) => c.add(y, c.sum(y)), x)),
    'a concatenation of computed parts': (n) => (p) => [
      c.concat(
        p.flatMap((x) => range(n).map((i) => c.mul(x, i + 1))),
        0,
      ),
    ],
    'one value and the one before': (n) => (p) =>
      p.map(
        (x) =>
          range(n).reduce(([a, b], _) => [b, c.unary('sin', c.add(a, b))] as const, [x, c.unary('exp', x)] as const)[1],
      ),
  }
  const size = nightly ? 200 : 100
  // By day each on one of the targets.
  for (const [i, [name, program]] of Object.entries(programs).entries())
    for (const target of turn([wasmTarget, cudaTarget], i))
      test(`${name} on ${target.name}`, () => {
        const [few, many] = [size, 4 * size].map((n) => workOf(target, [[64]], program(n)))
        expect(few).toBeDefined()
        if (few === undefined || many === undefined) return
        expect(many.trials).toBeLessThan(5 * few.trials)
        expect(many.built).toBeLessThan(5 * few.built)
        expect(many.statements).toBeLessThan(5 * few.statements)
        expect(many.visited).toBeLessThan(5 * few.visited + 2 * 4 * size)
      })
  test.each(some(targets, 2).map((t) => [t.name, t] as const))(
    'parts of one tensor, each computed from, on %s',
    (_, target) => {
      const n = nightly ? 1000 : 400
      const parts = (x: Node): Node[] => range(n).map((i) => c.mul(c.sliceAxis(x, 0, 4 * i, 4 * i + 4), 2))
      // One for each part by itself, one as it joins others: what it reads of the tensor is no other part's (`leastStatements`).
      expect(workOf(target, [[4 * n]], (p) => p.flatMap(parts)).built).toBeLessThan(2.1 * n)
    },
  )
  test('a chain of kernels that read one tensor: of all pairs others stand between', () => {
    const sorts = (n: number): PlanningWork =>
      workOf(wasmTarget, [[16]], (p) => p.map((x) => range(n).reduce((y) => c.sort(c.neg(y)), x)))
    const [few, many] = [sorts(80), sorts(320)]
    expect(many.trials).toBeLessThan(5 * few.trials)
    // One search for each kernel, which goes on from pair to pair; one for each pair would be sixty-four times as much.
    expect(many.visited).toBeLessThan(20 * few.visited)
  })
  test('kernels that are full are refused without being built', () => {
    const n = nightly ? 800 : 400
    const { built, statements } = workOf(
      cudaTarget,
      [[64]],
      programs['a concatenation of computed parts']?.(n) ?? ((p) => p),
    )
    // One for each part by itself, one for each as it joins others that read the same.
    expect(built).toBeLessThan(2.5 * n)
    expect(statements).toBeLessThan(500 * n)
  })
})

describe('kernels are not built anew for everything they take in', () => {
  const steps: Readonly<Record<string, (y: Node, i: number) => Node>> = {
    'dependent sums': (y) => c.add(y, c.sum(y)),
    'dependent means': (y) => c.mul(y, c.mean(y)),
    softmaxes: (y) => c.softmax(y),
    'layer normalisations': (y) => c.layerNorm(y),
    'sums with numbers of their own': (y, i) => c.add(y, c.mul(c.sum(y), i + 2)),
  }
  // By day each on one of the targets.
  for (const [i, [name, step]] of Object.entries(steps).entries())
    for (const target of turn(targets, i))
      test(`${name} on ${target.name}`, () => {
        const { work, groups } = planOf(target, [[8, 64]], (p) =>
          p.map((x) => range(200).reduce((y, i) => step(y, i), x)),
        )
        const kernels = groups.flatMap((g) => (g.kind === 'kernel' ? [g.body.lets.length] : []))
        const all = kernels.reduce((n, k) => n + k, 0)
        expect(work.statements).toBeLessThan(buildsOfAKernel * all)
        // Kernels are full but for the last, and as few as their statements allow.
        expect(kernels.length).toBeLessThan(2 + (1.1 * all) / target.maxStatements)
      })
  for (const target of [wasmTarget, cudaTarget])
    test(`siblings on ${target.name}`, () => {
      const parts = (p: Node[]): Node[] => p.flatMap((x) => range(1000).map((i) => c.mul(x, i + 1)))
      const { work, groups } = planOf(target, [[4]], parts)
      expect(work.statements).toBeLessThan(10 * 2 * 1000)
      expect(groups.length).toBeLessThan(7)
    })
})

describe('a value that several kernels read', () => {
  test('is tried in them until those tried lose; the others are tried for a report', () => {
    // Long functions of a matrix in front of products of several widths: each would compute them again for every block.
    const widths = [16, 24, 40, 48, 56, 72, 80, 88]
    const graph = withContext((): Graph => {
      const [x, ...weights] = [512, ...widths].map((n, i) => param(i, [512, n], 'bf16'))
      if (x === undefined) return { params: [], outputs: [], effects: [] }
      const value = range(6).reduce<Node>((y) => c.unary('sin', y), x)
      return { params: [x, ...weights], outputs: weights.map((w) => c.matmul(value, w)), effects: [] }
    })
    const plan = planFusion(boundOperands(graph, operandLimits(cudaTarget)), cudaTarget, 'fast')
    const planned = plan.work.built
    const told = plan.refused.map((r) => r.code)
    expect(told).toContain('recompute-cost')
    expect(plan.work.built).toBeGreaterThan(planned)
  })
})
