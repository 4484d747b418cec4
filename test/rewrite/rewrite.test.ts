/** What rewriting makes of programs people write, what it must keep, and how much work it may be. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { makeNode, param } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { rewriteWith } from '../../src/rewrite/driver.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import type { Rule } from '../../src/rewrite/rule.ts'
import { allRules } from '../../src/rewrite/rules.ts'
import { rangeOf } from '../../src/rewrite/shortIntegers.ts'
import { randomGraph } from '../random/graphs.ts'
import { makeRng } from '../random/rng.ts'
import { tameData } from '../random/values.ts'
import { evaluate, foldIn, roundingDifference } from './support.ts'

const fold = foldIn('dtype')
const rng = makeRng(1)

const f32 = (index: number, ...shape: number[]): NodeOf<'param'> => param(index, shape, 'f32')
const weights = (...shape: number[]): Node => {
  const n = shape.reduce((p, d) => p * d, 1)
  return makeNode('constant', [], { data: tameData(rng, 'f32', n, 0.5, 1.5), shape, dtype: 'f32' })
}
const program = (params: readonly NodeOf<'param'>[], ...outputs: Node[]): Graph => ({ params, outputs, effects: [] })

function fast(graph: Graph): Graph {
  const { graph: after } = rewriteGraph(graph, { mode: 'fast', fold })
  verifyGraph(after)
  return after
}

/** How often each op occurs, views and sources left out. */
function work(graph: Graph): Record<string, number> {
  const counts: Record<string, number> = {}
  const free = new Set([
    'param',
    'constant',
    'full',
    'iota',
    'reshape',
    'permute',
    'broadcast',
    'window',
    'pad',
    'slice',
  ])
  for (const n of nodesOf(graph)) if (!free.has(n.op)) counts[n.op] = (counts[n.op] ?? 0) + 1
  return counts
}

const has = (graph: Graph, op: Node['op']): boolean => nodesOf(graph).some((n) => n.op === op)

/** All rules, and how often they were tried. */
function countedRules(): { readonly rules: Rule[]; readonly tries: () => number } {
  let tries = 0
  const rules = allRules.map(
    (r): Rule => ({
      ...r,
      apply: (node, context) => {
        tries++
        return r.apply(node, context)
      },
    }),
  )
  return { rules, tries: () => tries }
}

describe('what is kept', () => {
  test('parameters, unused ones too, and the order of outputs', () => {
    const [x, y, z] = [f32(0, 3), f32(1, 3), f32(2, 3)]
    const graph = program([x, y, z], c.add(x, 0), y, c.neg(c.neg(x)), c.mul(x, y))
    const after = fast(graph)
    expect(after.params).toEqual([x, y, z])
    expect(after.params[2]).toBe(z)
    expect(after.outputs.slice(0, 3)).toEqual([x, y, x])
    expect(after.outputs[0]).toBe(x)
  })

  test('effects: all of them, in order, on values that are rewritten', () => {
    const seen: string[] = []
    const inspect = (label: string, x: Node, before?: Node): NodeOf<'inspect'> =>
      makeNode('inspect', before === undefined ? [x] : [x, before], {
        callback: { label, call: (data) => seen.push(`${label}:${[...data].join()}`) },
      })
    const x = f32(0, 2)
    const a = inspect('a', c.add(c.mul(x, 1), 0))
    const b = inspect('b', c.add(c.mul(x, 1), 0), a)
    const graph: Graph = { params: [x], outputs: [c.mul(a, 2)], effects: [a, b] }
    const { graph: after } = rewriteGraph(graph, { mode: 'fast', fold })
    verifyGraph(after)
    expect(after.effects.map((e) => e.op)).toEqual(['inspect', 'inspect'])
    expect(after.effects[0]?.inputs[0]).toBe(x)
    const [out] = evaluate(after, [Float32Array.from([3, 4])], 'dtype')
    expect(out).toEqual(Float32Array.from([6, 8]))
    expect(seen).toEqual(['a:3,4', 'b:3,4'])
  })

  test('provenance: a node stands for the call it came from', () => {
    const x = f32(0, 4)
    const y = withOrigin('power', 'user.ts:1:1', () => c.pow(x, 2))
    const after = fast(
      program(
        [x],
        withOrigin('twice', 'user.ts:2:1', () => c.add(y, y)),
      ),
    )
    expect(nodesOf(after).flatMap((n) => (n.op === 'param' ? [] : [`${n.op} ${n.origin.name}`]))).toEqual([
      'mul power',
      'add twice',
    ])
  })

  test('the input graph', () => {
    const { graph } = randomGraph(3, { operations: 30 })
    const before = nodesOf(graph).map((n) => n.id)
    fast(graph)
    expect(nodesOf(graph).map((n) => n.id)).toEqual(before)
  })
})

describe('what becomes of', () => {
  test('common subexpressions written in different orders', () => {
    const [x, y] = [f32(0, 3), f32(1, 3)]
    const after = fast(program([x, y], c.exp(c.add(x, y)), c.exp(c.add(y, x))))
    expect(after.outputs[0]).toBe(after.outputs[1])
  })

  test('a convolution with batch normalisation by literals: other weights and a shift', () => {
    const x = f32(0, 2, 3, 8, 8)
    for (const groups of [1, 3]) {
      const conv = c.conv(x, weights(6, 3 / groups, 3, 3), { padding: 1, groups, bias: weights(6) })
      const graph = program(
        [x],
        c.relu(c.batchNorm(conv, weights(6), weights(6), { scale: weights(6), bias: weights(6) })),
      )
      const after = fast(graph)
      expect(work(after), `${groups} groups`).toEqual({ contract: 1, add: 1, max: 1 })
      const inputs = [tameData(rng, 'f32', 384, -1, 1)]
      const [want] = evaluate(graph, inputs, 'f64')
      const [got] = evaluate(after, inputs, 'f64')
      expect(want !== undefined && got !== undefined && roundingDifference(want, got, 'f32')).toBeUndefined()
      expect(work(rewriteGraph(graph, { mode: 'strict', fold }).graph)).toEqual({ contract: 1, add: 3, mul: 1, max: 1 })
    }
  })

  test('a convolution of one image keeps its scale in the weights too', () => {
    const x = f32(0, 1, 3, 8, 8)
    const conv = c.conv(x, weights(4, 3, 3, 3), { padding: 1 })
    const after = fast(
      program([x], c.relu(c.batchNorm(conv, weights(4), weights(4), { scale: weights(4), bias: weights(4) }))),
    )
    expect(work(after)).toEqual({ contract: 1, add: 1, max: 1 })
  })

  test('a 1x1 convolution: a product without windows', () => {
    const x = f32(0, 2, 3, 8, 8)
    const after = fast(program([x], c.conv(x, weights(4, 3, 1, 1))))
    expect(has(after, 'window')).toBe(false)
    expect(work(after)).toEqual({ contract: 1 })
  })

  test('transposed operands and results: labels of the contraction', () => {
    const [x, w] = [f32(0, 4, 3), f32(1, 5, 3)]
    const after = fast(
      program([x, w], c.permute(c.matmul(x, c.permute(w, [1, 0])), [1, 0]), c.matmul(x, c.permute(x, [1, 0]))),
    )
    expect(has(after, 'permute')).toBe(false)
    expect(after.outputs.map((o) => (o.op === 'contract' ? o.attrs : undefined))).toEqual([
      { lhs: 'ab', rhs: 'cb', out: 'ca' },
      { lhs: 'ab', rhs: 'cb', out: 'ac' },
    ])
  })

  test('a transposed product that is also read as it is: computed once', () => {
    const [x, w] = [f32(0, 4, 3), f32(1, 3, 5)]
    const y = c.matmul(x, w)
    const after = fast(program([x, w], c.permute(y, [1, 0]), c.exp(y)))
    expect(work(after)).toEqual({ contract: 1, exp: 1 })
  })

  test('softmax: one division a row', () => {
    const x = f32(0, 6, 10)
    const after = fast(program([x], c.softmax(x)))
    expect(work(after)).toEqual({ reduce: 2, sub: 1, exp: 1, div: 1, mul: 1 })
    expect(nodesOf(after).find((n) => n.op === 'div')?.shape).toEqual([6])
  })

  test('statistics of rows: computed on rows, not on elements', () => {
    const x = f32(0, 6, 10)
    const after = fast(program([x], c.layerNorm(x)))
    for (const n of nodesOf(after)) if (n.op === 'rsqrt') expect(n.shape).toEqual([6])
    expect(work(after).reduce).toBe(2)
  })

  test('swish written out: x * sigmoid(x)', () => {
    const x = f32(0, 6)
    const after = fast(program([x], c.div(x, c.add(c.exp(c.neg(x)), 1)), c.div(1, c.add(1, c.exp(c.mul(x, -1))))))
    expect(work(after)).toEqual({ sigmoid: 1, mul: 1 })
  })

  test('rounding tricks stay what they are', () => {
    const x = f32(0, 6)
    const after = fast(program([x], c.sub(c.add(x, 12582912), 12582912)))
    expect(work(after)).toEqual({ add: 2 })
  })

  test('literals alone: one literal', () => {
    const after = fast(program([], c.sum(c.mul(weights(8, 8), c.exp(weights(8))))))
    expect(nodesOf(after).map((n) => n.op)).toEqual(['full'])
  })

  test('index arithmetic and large repeated literals: not stored', () => {
    const mask = c.compare('ge', c.iota([128, 128], 0), c.iota([128, 128], 1))
    const after = fast(program([], mask, c.neg(c.broadcastTo(weights(300), [200, 300]))))
    for (const n of nodesOf(after)) if (n.op === 'constant') expect(n.shape).toEqual([300])
    expect(after.outputs[0]?.op).toBe('ge')
  })
})

describe('how much it does', () => {
  test('a chain of 10,000 operations', () => {
    const x = f32(0, 4)
    let y: Node = x
    for (let i = 0; i < 10_000; i++) y = i % 3 === 0 ? c.tanh(y) : i % 3 === 1 ? c.add(y, x) : c.neg(c.neg(y))
    const { graph } = rewriteGraph(program([x], y), { mode: 'fast', fold })
    expect(nodesOf(graph).length).toBeGreaterThan(6000)
    expect(nodesOf(graph).some((n) => n.op === 'neg')).toBe(false)
  })

  test('rules are tried in proportion to the nodes', () => {
    /** Nodes of a graph, how often a rule was tried on one, how often one fired, and how often literals were folded. */
    const effort = (graph: Graph) => {
      let folds = 0
      const { rules, tries } = countedRules()
      const { applied } = rewriteWith(rules, graph, {
        mode: 'fast',
        fold: (node) => {
          folds++
          return fold(node)
        },
      })
      return { nodes: nodesOf(graph).length, tries: tries(), folds, fired: applied.reduce((n, r) => n + r.count, 0) }
    }
    const layers = (count: number): Graph => {
      const x = f32(0, 8, 32)
      let y: Node = x
      for (let i = 0; i < count; i++) {
        const h = c.gelu(
          c.linear(c.layerNorm(y, { scale: weights(32), bias: weights(32) }), weights(32, 64), weights(64)),
        )
        y = c.add(y, c.linear(h, c.permute(weights(32, 64), [1, 0]), weights(32)))
      }
      return program([x], y)
    }
    const [few, many] = [effort(layers(4)), effort(layers(64))]
    expect(few.fired).toBeGreaterThan(10)
    expect(few.folds).toBeGreaterThan(0)
    for (const what of ['tries', 'fired', 'folds'] as const) expect(many[what]).toBeLessThanOrEqual(16 * few[what])
    // About as often as there are rules for its op, for every form that a node takes.
    for (const { nodes, tries } of [few, many, effort(randomGraph(11, { operations: 60 }).graph)])
      expect(tries / nodes).toBeLessThan(18)
  })

  test('a later pass tries rules again only above nodes on which one asked how often values are used', () => {
    const [x, y, z] = [f32(0, 4), f32(1, 4), f32(2, 4)]
    const settled = c.tanh(c.add(x, y))
    const asking = c.tanh(c.mul(settled, z))
    const tried: string[] = []
    const look = (name: string, asks: boolean): Rule => ({
      name,
      kind: 'exact',
      description: 'fires never',
      ops: [asks ? 'mul' : 'tanh'],
      apply: (node, context) => {
        tried.push(name === 'mul' ? name : node.inputs[0]?.op === 'add' ? 'below' : 'above')
        if (asks) context.hasOneUse(node)
        return undefined
      },
    })
    const twice: Rule = {
      name: 'twice',
      kind: 'exact',
      description: 'neg(neg(x)) -> x: the pass after it looks at what is left',
      ops: ['neg'],
      apply: ({ inputs: [inner] }) => (inner?.op === 'neg' ? inner.inputs[0] : undefined),
    }
    const rules = [look('tanh', false), look('mul', true), twice]
    rewriteWith(rules, program([x, y, z], asking, c.neg(c.neg(settled))), { mode: 'fast' })
    expect(tried).toEqual(['below', 'mul', 'above', 'mul', 'above'])
  })

  test('rules that ask how often values are used fire in all layers of a model in one pass', () => {
    /** How often rules were tried for layers of attention, whose permuted products are asked about. */
    const tries = (count: number): number => {
      const { rules, tries } = countedRules()
      const heads = (y: Node): Node => c.permute(c.reshape(y, [8, 4, 8]), [1, 0, 2])
      const x = f32(0, 8, 32)
      let y: Node = x
      for (let i = 0; i < count; i++) {
        const [q, k, v] = [0, 1, 2].map(() => heads(c.add(c.matmul(y, weights(32, 32)), weights(32)))) as [
          Node,
          Node,
          Node,
        ]
        const scores = c.softmax(c.matmul(q, c.permute(k, [0, 2, 1])), 2)
        y = c.add(y, c.matmul(c.reshape(c.permute(c.matmul(scores, v), [1, 0, 2]), [8, 32]), weights(32, 32)))
      }
      const { applied } = rewriteWith(rules, program([x], y), { mode: 'fast', fold })
      expect(applied.find((a) => a.rule === 'permute-of-contract')?.count).toBe(count)
      return tries()
    }
    expect(tries(32)).toBeLessThanOrEqual(9 * tries(4))
  })
})

test('sums that wrap have no bounds: what contractions read of them keeps its 32 bits', () => {
  const x = param(0, [4, 3], 'u8')
  const y = param(1, [3, 2], 'i32')
  const large = makeNode('full', [], { shape: [4, 3], dtype: 'i32', value: 2 ** 31 - 1 })
  const five = makeNode('full', [], { shape: [4, 3], dtype: 'i32', value: 5 })
  const wrapped = makeNode('min', [makeNode('add', [makeNode('cast', [x], { dtype: 'i32' }), large], {}), five], {})
  expect(rangeOf(wrapped)).toBeUndefined()
  const graph: Graph = {
    params: [x, y],
    outputs: [makeNode('contract', [wrapped, y], { lhs: 'mk', rhs: 'kn', out: 'mn' })],
    effects: [],
  }
  const inputs = [Uint8Array.from({ length: 12 }, (_, i) => i), Int32Array.from({ length: 6 }, (_, i) => i - 2)]
  const { graph: rewritten } = rewriteGraph(graph, { mode: 'fast', fold: foldIn('dtype') })
  expect(evaluate(rewritten, inputs, 'dtype')).toEqual(evaluate(graph, inputs, 'dtype'))
})
