/**
 * The planner's cost beside what the schedules of its kernels are predicted to take: the same arithmetic, and what lies between the two is
 * what only a schedule knows (docs/planner.md, "What it costs"). Reports show the schedule's seconds.
 */
import { describe, expect, test } from 'vitest'
import { graphOf, programOf } from '../../bench/cliffs/programs.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import { scheduledSteps } from '../../src/compile/predicted.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { type LoopPrice, loopSeconds } from '../../src/schedule/loop/price/seconds.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'
import { fewPrograms } from '../replay/programs.ts'
import { nightly } from '../support/nightly.ts'

interface Pair {
  readonly name: string
  readonly kind: string
  /** Seconds of the planner, and of these its arithmetic. */
  readonly planned: number
  readonly compute: number
  /** The terms of the launch's schedules, together. */
  readonly price: Omit<LoopPrice, 'operations'>
  readonly shown: number
}

const terms = ['seconds', 'arithmetic', 'waiting', 'accesses', 'loops', 'nearer', 'memory', 'launch'] as const

/** The kernels of a program that take a while, priced both ways. */
function pairsOf(name: string, graph: Graph, mode: 'fast' | 'strict'): Pair[] {
  const { program, plan, report }: Compiled = compileGraph(graph, { mode, target: wasmTarget })
  const prices = new Map<number, Record<(typeof terms)[number], number>>()
  const names = new Map<number, string>()
  for (const s of scheduledSteps(program, wasmTarget)) {
    const own = loopSeconds(s.kernel, s.parts, wasmTarget, s.held)
    const have = prices.get(s.launch)
    if (have === undefined) {
      prices.set(s.launch, { ...own })
      names.set(s.launch, s.kernel.name)
    } else for (const t of terms) have[t] += own[t]
  }
  return [...prices].flatMap(([launch, price]): Pair[] => {
    const group = plan.groups[launch]
    if (group?.kind !== 'kernel' && group?.kind !== 'union') return []
    const shown = report.kernels.find((k) => k.name === names.get(launch))
    const { seconds: planned, compute } = group.cost
    const kind = group.kind === 'union' ? 'union' : group.roles.kind
    return [
      { name: `${name}: ${names.get(launch)}`, kind, planned, compute, price, shown: (shown?.modelledMs ?? 0) / 1e3 },
    ]
  })
}

const share = (list: readonly number[], lo: number, hi: number): number =>
  list.filter((r) => r >= lo && r <= hi).length / list.length

describe('kernels of 5 us and more', () => {
  const pairs: Pair[] = []
  test('of random programs and of those that replay has a digest of are there', async () => {
    for (let seed = 1; seed <= (nightly ? 120 : 40); seed++)
      pairs.push(...pairsOf(`seed ${seed}`, graphOf(programOf(seed)), 'fast'))
    let i = 0
    // By day every other one.
    for await (const { name, graph, mode = 'fast' } of fewPrograms(process.cwd()))
      if (i++ % 2 === 0 || nightly) pairs.push(...pairsOf(name, graph, mode))
    const all = pairs.length
    pairs.splice(0, all, ...pairs.filter((p) => p.price.seconds >= 5e-6))
    expect(pairs.length).toBeGreaterThan(nightly ? 100 : 40)
  }, 120_000)

  test('are shown in reports with the seconds of their schedules', () => {
    for (const p of pairs) expect(p.shown, p.name).toBeCloseTo(p.price.seconds, 12)
  })

  test('have the arithmetic of their schedules, where nothing is computed again or for one lane alone', () => {
    const much = pairs.filter((p) => p.kind !== 'union' && p.price.arithmetic > 0.3 * p.price.seconds)
    const ratios = much.map((p) => p.compute / p.price.arithmetic)
    expect(share(ratios, 0.9, 1.1)).toBeGreaterThan(0.8)
    expect(share(ratios, 0.5, 1.6)).toBeGreaterThan(0.95)
  })

  test('have costs within a factor of two for four of five', () => {
    const ratios = pairs.map((p) => p.planned / p.price.seconds)
    expect(share(ratios, 0.8, 1.25)).toBeGreaterThan(0.58)
    expect(share(ratios, 0.5, 2)).toBeGreaterThan(0.88)
  })

  test('have near costs where what only a schedule knows is little: accesses, loops, waiting, what is read again', () => {
    const plain = pairs.filter(({ kind, compute, price }) => {
      const { seconds, waiting, accesses, loops, nearer, arithmetic } = price
      const little = waiting + accesses + loops + nearer < 0.3 * seconds
      return kind !== 'union' && little && Math.abs(compute - arithmetic) < 0.1 * seconds
    })
    expect(plain.length).toBeGreaterThan(nightly ? 30 : 10)
    const ratios = plain.map((p) => p.planned / p.price.seconds)
    expect(share(ratios, 0.8, 1.25)).toBeGreaterThan(0.93)
  })
})

test('reports of machines without loops show the planner’s seconds', () => {
  const graph = trace([{ shape: [512, 512] }], (p) => c.exp(at(p, 0)))
  const { plan, report } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  expect(report.totals.modelledMs).toBeCloseTo(plan.groups.reduce((n, g) => n + g.cost.seconds, 0) * 1e3, 12)
})

test('reports price schedules when they are read, not before', () => {
  const graph = trace([{ shape: [512, 512] }], (p) => c.exp(at(p, 0)))
  const { report } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
  expect(Object.getOwnPropertyDescriptor(report.totals, 'modelledMs')?.get).toBeDefined()
  expect(JSON.parse(JSON.stringify(report)).kernels[0].modelledMs).toBe(report.kernels[0]?.modelledMs)
})
