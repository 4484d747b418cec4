/** Traversal, rebuilding, verification and printing of graphs. */
import { describe, expect, it } from 'vitest'
import { InternalError } from '../../src/diagnostics/errors.ts'
import { inOrigin, withOrigin } from '../../src/diagnostics/origin.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { Graph, InspectCallback, Node } from '../../src/graph/node.ts'
import { printGraph } from '../../src/graph/print.ts'
import { mapGraph, nodesOf, topologicalOrder, usersOf, withInputs } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'

const silent = (label: string): InspectCallback => ({ label, call: () => {} })

describe('traversal', () => {
  it('orders a chain of 50,000 nodes without recursion', () => {
    let x: Node = param(0, [2], 'f32')
    for (let i = 0; i < 50_000; i++) x = makeNode('neg', [x], {})
    const order = topologicalOrder([x])
    expect(order).toHaveLength(50_001)
    expect(order.at(-1)).toBe(x)
    expect(order[0]?.op).toBe('param')
  })

  it('puts inputs before users and visits each node once', () => {
    const x = param(0, [2], 'f32')
    const a = makeNode('exp', [x], {})
    const b = makeNode('add', [a, a], {})
    const c = makeNode('mul', [b, a], {})
    expect(topologicalOrder([c, b])).toEqual([x, a, b, c])
  })

  it('lists distinct users', () => {
    const x = param(0, [2], 'f32')
    const a = makeNode('add', [x, x], {})
    const b = makeNode('mul', [a, x], {})
    const users = usersOf({ params: [x], outputs: [b], effects: [] })
    expect(users.get(x)).toEqual([a, b])
    expect(users.get(b)).toEqual([])
  })

  it('keeps a node whose inputs stay, and the origin of one whose inputs change', () => {
    const x = param(0, [2], 'f32')
    const y = param(1, [2], 'f32')
    const a = withOrigin('softmax', undefined, () => makeNode('exp', [x], {}))
    expect(withInputs(a, [x])).toBe(a)
    const moved = withInputs(a, [y])
    expect(moved.inputs).toEqual([y])
    expect(moved.origin).toBe(a.origin)
  })
})

describe('mapGraph', () => {
  it('replaces nodes bottom-up and shares what is shared', () => {
    const x = param(0, [3], 'f32')
    const e = makeNode('exp', [x], {})
    const out = makeNode('add', [e, e], {})
    const mapped = withContext(() =>
      mapGraph({ params: [x], outputs: [out, e], effects: [] }, (node, inputs) =>
        node.op === 'exp' ? makeNode('log', inputs, {}) : withInputs(node, inputs),
      ),
    )
    expect(nodesOf(mapped).map((n) => n.op)).toEqual(['param', 'log', 'add'])
    expect(mapped.outputs[1]).toBe(mapped.outputs[0]?.inputs[0])
    verifyGraph(mapped)
  })

  it('gives what it builds the origin of what it replaces', () => {
    const x = param(0, [3], 'f32')
    const origin = { id: 77, name: 'gelu' }
    const e = inOrigin(origin, () => makeNode('exp', [x], {}))
    const mapped = mapGraph({ params: [x], outputs: [e], effects: [] }, (_, inputs) => makeNode('neg', inputs, {}))
    expect(mapped.outputs[0]?.origin).toEqual(origin)
  })
})

describe('verifyGraph', () => {
  const x = param(0, [2, 3], 'f32')
  const graphOf = (...outputs: Node[]): Graph => ({ params: [x], outputs, effects: [] })
  /** A node that says what it is not: made outside makeNode. */
  const forged = (
    node: Node,
    change: Partial<{ shape: readonly number[]; dtype: string; inputs: Node[]; attrs: object }>,
  ): Node => ({ ...node, ...change }) as Node

  it('accepts well-formed graphs', () => {
    verifyGraph(graphOf(makeNode('reduce', [x], { combiner: 'sum', axes: [1] })))
  })

  const sum = makeNode('reduce', [x], { combiner: 'sum', axes: [1] })
  const lit = makeNode('full', [], { value: 1, shape: [2], dtype: 'f32' })
  it.each<[string, Graph, RegExp]>([
    ['a wrong shape', graphOf(forged(sum, { shape: [3] })), /its rule gives f32\[2\]/],
    ['a wrong dtype', graphOf(forged(sum, { dtype: 'f64' })), /says f64/],
    ['a missing input', graphOf(forged(sum, { inputs: [] })), /0 inputs/],
    ['a repeated axis', graphOf(forged(sum, { attrs: { combiner: 'sum', axes: [1, 1] } })), /reduced twice/],
    ['a literal of the wrong kind', graphOf(forged(lit, { attrs: { value: 1n, shape: [2], dtype: 'f32' } })), /bigint/],
    ['an unlisted parameter', { params: [], outputs: [sum], effects: [] }, /not listed/],
    ['a parameter listed twice', { params: [x, x], outputs: [sum], effects: [] }, /listed twice/],
    ['two parameters of one index', { params: [x, param(0, [1], 'f32')], outputs: [sum], effects: [] }, /one index/],
  ])('refuses %s', (_, graph, message) => {
    expect(() => verifyGraph(graph)).toThrow(InternalError)
    expect(() => verifyGraph(graph)).toThrow(message)
  })

  it('wants effects in one chain, all of them run', () => {
    const first = makeNode('inspect', [x], { callback: silent('a') })
    const second = makeNode('inspect', [x, first], { callback: silent('b') })
    const rival = makeNode('inspect', [x, first], { callback: silent('c') })
    verifyGraph({ params: [x], outputs: [x], effects: [second] })
    expect(() => verifyGraph({ params: [x], outputs: [x], effects: [second, rival] })).toThrow(/same place/)
    expect(() => verifyGraph({ params: [x], outputs: [second], effects: [first] })).toThrow(/output only/)
    const apart = makeNode('inspect', [x], { callback: silent('d') })
    expect(() => verifyGraph({ params: [x], outputs: [], effects: [first, apart] })).toThrow(/one chain/)
  })
})

it('prints a graph', () => {
  const x = param(0, [4, 8], 'f32')
  const [sum, wide] = withOrigin('softmax', 'model.ts:3:7', () => {
    const s = makeNode('reduce', [x], { combiner: 'sum', axes: [1] })
    return [s, makeNode('broadcast', [s], { shape: [4, 8], dims: [0] })]
  })
  const out = makeNode('div', [x, wide], {})
  const padded = makeNode('pad', [out], { low: [0, 1], high: [0, 2], interior: [0, 0], value: -0 })
  const lit = makeNode('constant', [], { data: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8), shape: [8], dtype: 'f32' })
  const product = makeNode('contract', [out, lit], { lhs: 'ab', rhs: 'b', out: 'a' })
  const seen = makeNode('inspect', [sum], { callback: silent('sums') })
  expect(printGraph({ params: [x], outputs: [padded, product], effects: [seen] })).toMatchInlineSnapshot(`
    "%0 f32[4, 8] = param 0
    %1 f32[4] = reduce.sum %0 axes=[1]             # softmax at model.ts:3:7
    %2 f32[4, 8] = broadcast %1 dims=[0]           # softmax at model.ts:3:7
    %3 f32[4, 8] = div %0, %2
    %4 f32[4, 11] = pad %3 [0+0, 1+2] with -0
    %5 f32[8] = constant {1, 2, 3, 4, 5, 6, ...}
    %6 f32[4] = contract %3, %5 ab,b->a
    %7 f32[4] = inspect %1 "sums"
    return %4, %6
    effects %7"
  `)
})

it('prints graphs inside below their node', () => {
  const [h, x] = [param(0, [2], 'f32'), param(1, [2], 'f32')]
  const sum = makeNode('add', [h, x], {})
  const body: Graph = { params: [h, x], outputs: [sum, sum], effects: [] }
  const [init, xs] = [param(0, [2], 'f32'), param(1, [5, 2], 'f32')]
  const loop = withOrigin('scan', 'model.ts:9:1', () =>
    makeNode('loop', [init, xs], { body, length: 5, reverse: true, consts: 0, carries: 1 }),
  )
  const outputs = [makeNode('result', [loop], { index: 0 }), makeNode('result', [loop], { index: 1 })]
  const graph = { params: [init, xs], outputs, effects: [] }
  verifyGraph(graph)
  expect(printGraph(graph)).toMatchInlineSnapshot(`
    "%0 f32[2] = param 0
    %1 f32[5, 2] = param 1
    %2 bool[] = loop %0, %1 length=5 reverse consts=0 carries=1   # scan at model.ts:9:1
      body:
        %0 f32[2] = param 0
        %1 f32[2] = param 1
        %2 f32[2] = add %0, %1
        return %2, %2
    %3 f32[2] = result %2 0
    %4 f32[5, 2] = result %2 1
    return %3, %4"
  `)
  const handled: Graph = { ...graph, outputs: [loop] }
  expect(() => verifyGraph(handled)).toThrow(/handle/)
  expect(() => verifyGraph({ ...graph, outputs: [makeNode('not', [loop], {})] })).toThrow(/handle/)
})
