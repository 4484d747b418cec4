/** What a plan says of itself agrees with its kernels: refusals, recomputed values, members, order and bytes. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { inOrigin, makeOrigin } from '../../src/diagnostics/origin.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { type FusionPlan, membersOf, singleGroups } from '../../src/plan/plan.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, check, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'

/** Rates that stay, whatever is measured of the real target. */
const target: Machine = {
  ...wasmTarget,
  memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: 10e9 }],
  overlap: 1,
  matrixRate: 30e9,
  prices: pricesByClass({ simple: 8e9, divide: 2e9, special: 0.8e9, random: 0.15e9 }),
  launch: 0.5e-6,
}

const holdersOf = (plan: FusionPlan, n: Node): number[] =>
  plan.groups.flatMap((g, i) => (membersOf(g).includes(n) ? [i] : []))

function expectConsistent(plan: FusionPlan): void {
  for (const r of plan.refused) {
    const [from, to] = [holdersOf(plan, r.from), holdersOf(plan, r.to)]
    expect(from.length).toBeGreaterThan(0)
    expect(to.length).toBeGreaterThan(0)
    expect(from.filter((g) => to.includes(g))).toEqual([])
  }
  for (const r of plan.recomputed) {
    expect(holdersOf(plan, r.node).length).toBeGreaterThanOrEqual(2)
    expect(r.consumers).toBeLessThanOrEqual(holdersOf(plan, r.node).length)
    for (const g of singleGroups(plan)) if (g.kind === 'kernel') expect(g.outputs).not.toContain(r.node)
  }
  const stored = new Set<Node>()
  for (const g of plan.groups) {
    const parts = g.kind === 'kernel' ? [g] : g.kind === 'union' ? g.parts : []
    // No part reads what another stores.
    for (const p of parts)
      for (const { node } of p.body.loads.values())
        expect(node.op === 'param' || node.op === 'constant' || stored.has(node)).toBe(true)
    for (const p of parts) {
      expect(new Set(p.body.stores.map((s) => s.node))).toEqual(new Set(p.outputs))
      for (const o of p.outputs) {
        expect(stored.has(o)).toBe(false)
        stored.add(o)
      }
    }
    if (parts.length === 0) for (const n of membersOf(g)) stored.add(n)
  }
}

const compile = (g: Graph) => compileGraph(g, { mode: 'fast', target, verify: true })

describe('plans', () => {
  test('of random programs', () => {
    for (let seed = 0; seed < 120; seed++) {
      const { graph } = randomGraph(seed)
      expectConsistent(planFusion(graph, target, 'fast'))
    }
  })

  test('a cheap value with far consumers is computed again in each, and no refusal of it stays', () => {
    const graph = trace([{ shape: [512, 512] }, { shape: [512, 16] }, { shape: [512, 24] }], (p) => {
      const y = c.mul(at(p, 0), 2)
      return [c.matmul(y, at(p, 1)), c.matmul(y, at(p, 2))]
    })
    const { plan, report } = compile(graph)
    expectConsistent(plan)
    expect(report.totals.kernels).toBe(2)
    expect(report.recomputed).toEqual([{ value: 'mul', consumers: 2, savedBytes: 3 * 512 * 512 * 4 }])
    expect(report.refused.map((r) => r.from)).not.toContain('mul')
  })

  test('an exact conversion of what is stored is made by those that read it, and half the bytes are stored', () => {
    const graph = trace(
      [
        { shape: [4096, 1024], dtype: 'bf16' },
        { shape: [1024, 16384], dtype: 'bf16' },
      ],
      (p) => {
        const x = c.cast(c.matmul(at(p, 0), at(p, 1)), 'f32')
        return [c.sum(c.exp(c.sub(x, c.reduceMax(x, 1, true))), [1])]
      },
    )
    const plan = planFusion(graph, cudaTarget, 'fast')
    expectConsistent(plan)
    const large = singleGroups(plan).flatMap((g) => (g.kind === 'kernel' ? g.outputs : []))
    expect(large.filter((n) => n.shape.length === 2).map((n) => n.dtype)).toEqual(['bf16'])
  })
})

describe('reports', () => {
  const named = (name: string, build: () => Node): Node => inOrigin(makeOrigin(name, `program:${name}`), build)

  test('operations stand in the order of the calls', () => {
    const graph = trace([{ shape: [64, 32] }, { shape: [32] }], (p) => {
      const a = named('scale', () => c.mul(at(p, 0), at(p, 1)))
      const b = named('shift', () => c.add(a, 1))
      const d = named('softmax', () => c.softmax(b, -1))
      return [named('gate', () => c.mul(d, c.sigmoid(a)))]
    })
    const { report } = check(graph, { target })
    expect(report.kernels.map((k) => k.operations.map((o) => o.name))).toEqual([['scale', 'shift', 'softmax', 'gate']])
    expect(report.kernels[0]?.operations[0]?.where).toBe('program:scale')
  })

  test('as text', () => {
    const graph = trace([{ shape: [128, 64] }, { shape: [64, 32] }, { shape: [32] }], (p) => {
      const h = named('matmul', () => c.matmul(at(p, 0), at(p, 1)))
      const z = named('add', () => c.add(h, at(p, 2)))
      const y = named('relu', () => c.relu(z))
      return [y, named('softmax', () => c.softmax(y, -1))]
    })
    const { report } = check(graph, { target })
    expect(report.toString()).toMatchInlineSnapshot(`
      "program: 4 operations in 1 kernel for wasm, fast
        memory traffic 73.9 KB; operation by operation 156 KB; saved 81.9 KB (53%)
        peak memory 73.9 KB (intermediates 0 B, 0 B without reuse; 0 in place)

      kernels
          1  matrix      matmul + add + relu + softmax
             read 41.1 KB, write 32.8 KB, 7.5 flop/B, modelled 0.0361 ms, 2 programs"
    `)
  })
})
