/** What the planner reads of origins: which nodes transposition built, which were traced in a checkpointed region. */
import { describe, expect, it } from 'vitest'
import { operationTraffic } from '../../src/compile/operations.ts'
import { customNodes } from '../../src/compose/control.ts'
import { log, mul, tanh } from '../../src/compose/index.ts'
import { backwardOrigin, inCheckpoint, makeOrigin, type Origin, withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { jvpGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'

const named = (name: string, body: () => Node): Node => withOrigin(name, undefined, body)

/** tanh(log(x)) * x, with the logarithm in a region of its own. */
function example(): { readonly graph: Graph; readonly region: number } {
  return withContext(() => {
    const x = param(0, [3], 'f32')
    const s = inCheckpoint(() => named('log', () => log(x)))
    const t = named('tanh', () => tanh(s))
    const y = named('mul', () => mul(t, x))
    const region = s.origin.checkpoint
    if (region === undefined) throw new Error('no region')
    return { graph: { params: [x], outputs: [y], effects: [] }, region }
  })
}

const originsOf = (graph: Graph): Origin[] => nodesOf(graph).flatMap((n) => (n.op === 'param' ? [] : [n.origin]))
const named1 = (graph: Graph, name: string): Origin[] => originsOf(graph).filter((o) => o.name === name)

describe('variants of an origin', () => {
  it('are made once and keep the id', () => {
    const o = makeOrigin('f', 'a.ts:1:1')
    const b = backwardOrigin(o)
    expect(b).toEqual({ ...o, phase: 'backward' })
    expect(backwardOrigin(o)).toBe(b)
    expect(backwardOrigin(b)).toBe(b)
  })
  it('one region has one variant of an origin; an enclosing region keeps its claim', () => {
    withContext(() => {
      const x = param(0, [3], 'f32')
      const [a, b, c] = inCheckpoint(() => {
        const [p, q] = withOrigin('f', undefined, () => [log(x), tanh(x)] as const)
        return [p, q, inCheckpoint(() => named('g', () => log(p)))] as const
      })
      expect(a.origin).toBe(b.origin)
      expect(c.origin.checkpoint).toBe(a.origin.checkpoint)
      expect(inCheckpoint(() => named('h', () => log(c))).origin.checkpoint).not.toBe(a.origin.checkpoint)
      // Hash-consing keeps the first.
      expect(named('again', () => log(x))).toBe(a)
      expect(named('outside', () => log(b)).origin.checkpoint).toBeUndefined()
    })
  })
})

describe('functions with rules', () => {
  it('what a backward function computes is backward, whether or not it depends on a cotangent', () => {
    const one = (build: (x: Node) => readonly Node[]): Graph =>
      withContext(() => {
        const x = param(0, [3], 'f32')
        return { params: [x], outputs: build(x), effects: [] }
      })
    const backward = withContext((): Graph => {
      const [x, ct] = [param(0, [3], 'f32'), param(1, [3], 'f32')]
      const kept = named('kept', () => log(x))
      return { params: [x, ct], outputs: [named('given', () => mul(kept, ct))], effects: [] }
    })
    const rule = { kind: 'vjp', name: 'f', forward: one((x) => [tanh(x), x]), backward } as const
    const graph = one((x) =>
      customNodes(
        one((v) => [tanh(v)]),
        rule,
        [x],
      ),
    )
    const phases = (name: string): unknown[] => named1(vjpGraph(graph, [0]), name).map((o) => o.phase)
    expect(phases('kept')).toEqual(['backward'])
    expect(phases('given')).toEqual(['backward'])
  })
})

describe('transforms', () => {
  const { graph, region } = example()
  it('forward mode and batching keep the region and set no phase', () => {
    for (const g of [jvpGraph(graph, [true]), vmapGraph(graph, [0], [0], 2)]) {
      expect(originsOf(g).every((o) => o.phase === undefined)).toBe(true)
      expect(named1(g, 'log').every((o) => o.checkpoint === region)).toBe(true)
      expect(named1(g, 'tanh').every((o) => o.checkpoint === undefined)).toBe(true)
    }
  })
  it.each(['before', 'after'])('transposition marks its nodes, %s rewriting', (when) => {
    const made = vjpGraph(graph, [0])
    const g = when === 'before' ? made : rewriteGraph(made, { mode: 'fast' }).graph
    for (const name of ['log', 'tanh', 'mul']) {
      const of = named1(g, name)
      expect(of.some((o) => o.phase === 'backward')).toBe(true)
      expect(of.some((o) => o.phase === undefined)).toBe(true)
      expect(of.every((o) => o.checkpoint === (name === 'log' ? region : undefined))).toBe(true)
      expect(new Set(of.map((o) => o.id)).size).toBe(1)
    }
    expect(operationTraffic(g).operations).toBe(3)
  })
})
