/** Derivatives of compositions: numbers by central differences, and the form of the gradient program. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { checkProgram, countOps, evaluate, graphOf, numbersOf, type Program } from './support.ts'

const rows = { shape: [3, 5], distinct: true }
const image = { shape: [2, 4, 7, 6], distinct: true }

const programs: Readonly<Record<string, Program>> = {
  softmax: { inputs: [rows], build: (x) => c.softmax(x) },
  'softmax over two axes': { inputs: [{ shape: [3, 2, 4], distinct: true }], build: (x) => c.softmax(x, [0, 2]) },
  logSoftmax: { inputs: [rows], build: (x) => c.logSoftmax(x) },
  logSumExp: { inputs: [rows], build: (x) => c.logSumExp(x, 1) },
  logAddExp: { inputs: [rows, { shape: [3, 5] }], build: (x, y) => c.logAddExp(x, y) },
  variance: { inputs: [rows], build: (x) => c.variance(x, 0) },
  layerNorm: {
    inputs: [rows, { shape: [5] }, { shape: [5] }],
    build: (x, scale, bias) => c.layerNorm(x, { scale, bias }),
  },
  rmsNorm: { inputs: [rows, { shape: [5] }], build: (x, scale) => c.rmsNorm(x, { scale }) },
  groupNorm: { inputs: [{ shape: [2, 4, 5] }], build: (x) => c.groupNorm(x, 2) },
  'batchNorm in training': {
    inputs: [{ shape: [5, 3, 4] }, { shape: [3] }, { shape: [3] }],
    build: (x, scale, bias) => {
      const r = c.batchNormTraining(x, { scale, bias })
      return [r.output, r.mean, r.variance]
    },
  },
  crossEntropy: {
    inputs: [rows, { shape: [3], dtype: 'i32', lo: 0, hi: 4 }],
    build: (x, labels) => c.crossEntropy(x, labels),
  },
  attention: {
    inputs: [{ shape: [2, 3, 4] }, { shape: [2, 5, 4] }, { shape: [2, 5, 3] }],
    build: (q, k, v) => c.attention(q, k, v, { causal: true }),
  },
  'attention with grouped heads and soft cap': {
    inputs: [{ shape: [4, 3, 4] }, { shape: [2, 5, 4] }, { shape: [2, 5, 3] }],
    build: (q, k, v) => c.attention(q, k, v, { softcap: 3 }),
  },
  rotary: { inputs: [{ shape: [2, 3, 4] }], build: (x) => c.rotary(x) },
  dense: {
    inputs: [rows, { shape: [5, 4] }, { shape: [4] }],
    build: (x, w, b) => c.relu(c.linear(x, w, b)),
  },
  'dropout of gelu': {
    inputs: [rows, { shape: [5] }],
    build: (x, b) => c.dropout(c.gelu(c.add(x, b)), c.key(3), 0.4),
  },
  'gelu by tanh': { inputs: [rows], build: (x) => c.gelu(x, 'tanh') },
  activations: {
    inputs: [{ ...rows, lo: -4, hi: 4 }],
    build: (x) => [
      c.elu(x),
      c.selu(x),
      c.softplus(x),
      c.softsign(x),
      c.hardSwish(x),
      c.mish(x),
      c.silu(x),
      c.leakyRelu(x),
    ],
  },
  embedding: {
    inputs: [{ shape: [7, 3] }, { shape: [2, 5], dtype: 'i32', lo: -7, hi: 6 }],
    build: (t, i) => c.embedding(t, i),
  },
  einsum: {
    inputs: [{ shape: [3, 2, 4] }, { shape: [4, 5] }, { shape: [5, 2] }],
    build: (x, y, z) => c.einsum('abc,cd,db->ba', [x, y, z]),
  },
  outer: { inputs: [{ shape: [3] }, { shape: [4] }], build: (x, y) => c.einsum('a,b->ba', [x, y]) },
  gram: { inputs: [{ shape: [3, 4] }], build: (x) => c.matmul(x, c.transpose(x)) },
  'matmul with broadcast batches': {
    inputs: [{ shape: [2, 1, 3, 4] }, { shape: [5, 4, 2] }],
    build: (x, y) => c.matmul(x, y),
  },
  conv: {
    inputs: [image, { shape: [3, 4, 3, 2] }, { shape: [3] }],
    build: (x, w, bias) => c.conv(x, w, { bias, padding: 1, stride: 2, dilation: [2, 1] }),
  },
  'conv in groups': {
    inputs: [image, { shape: [6, 2, 3, 3] }],
    build: (x, w) => c.conv(x, w, { groups: 2, padding: 'same' }),
  },
  'conv of depth': {
    inputs: [image, { shape: [4, 1, 3, 3] }],
    build: (x, w) => c.conv(x, w, { groups: 4, stride: [1, 2] }),
  },
  'conv in groups of padded channels': {
    inputs: [{ shape: [2, 3, 5, 4] }, { shape: [4, 2, 2, 3] }],
    build: (x, w) =>
      c.conv(
        c.pad(x, [
          [0, 0],
          [0, 1],
          [1, 0],
          [0, 0],
        ]),
        w,
        { groups: 2 },
      ),
  },
  convTranspose: {
    inputs: [{ shape: [2, 4, 3, 5] }, { shape: [4, 3, 3, 2] }],
    build: (x, w) => c.convTranspose(x, w, { stride: 2, padding: 1, outputPadding: 1 }),
  },
  maxPool: { inputs: [image], build: (x) => c.maxPool(x, [2, 3]) },
  'maxPool that overlaps': { inputs: [image], build: (x) => c.maxPool(x, [3, 3], { stride: 2, padding: 1 }) },
  averagePool: {
    inputs: [image],
    build: (x) =>
      c.averagePool(x, [3, 2], {
        stride: [2, 1],
        padding: [
          [1, 1],
          [0, 1],
        ],
      }),
  },
  'cumulative sums of products': {
    inputs: [rows, { shape: [5] }],
    build: (x, y) => c.cumsum(c.mul(x, y), 1),
  },
  'padding and rolling': {
    inputs: [{ shape: [5, 4] }],
    build: (x) => [
      c.pad(
        x,
        [
          [2, 3],
          [1, 0],
        ],
        'reflect',
      ),
      c.roll(x, 2, 0),
      c.tile(x, [2, 1]),
      c.repeat(x, 2, 1),
    ],
  },
}

describe('numbers', () => {
  it.each(Object.entries(programs))('%s', (_, p) => {
    checkProgram(p, 1, 2)
  })
})

/** The gradient in every input, given cotangents. */
function gradientOf(p: Program): Graph {
  const graph = graphOf(p)
  const wrt = graph.params.flatMap((x, i) => (x.dtype === 'f64' ? [i] : []))
  const reverse = vjpGraph(graph, wrt)
  return { ...reverse, outputs: reverse.outputs.slice(graph.outputs.length) }
}

const programOf = (name: string): Program => {
  const p = programs[name]
  if (p === undefined) throw new Error(name)
  return p
}

const contractionsOf = (g: Graph): string[] =>
  topologicalOrder(g.outputs).flatMap((n: Node) =>
    n.op === 'contract' ? [`${n.attrs.lhs},${n.attrs.rhs}->${n.attrs.out}`] : [],
  )

describe('form', () => {
  it('dense layers contract in place: no transpose, one contraction an operand', () => {
    const g = gradientOf(programOf('dense'))
    expect(contractionsOf(g)).toEqual(['ac,cb->ab', 'ab,cb->ac', 'ac,ab->cb'])
    expect(countOps(g).get('permute')).toBeUndefined()
  })

  it('a permuted operand changes labels, not memory', () => {
    const g = gradientOf(programOf('gram'))
    // Both gradients are sums over what the tensor itself holds; the only permutation is the user's own.
    expect(countOps(g).get('permute') ?? 0).toBeLessThanOrEqual(1)
    expect(countOps(g).get('contract')).toBe(2)
  })

  it.each(['conv', 'conv in groups', 'conv of depth'])(
    '%s: one contraction for the data and one for the weights',
    (name) => {
      const g = gradientOf(programOf(name))
      expect(countOps(g).get('contract')).toBe(2)
      expect(countOps(g).get('scatter')).toBeUndefined()
      expect(countOps(g).get('add')).toBeUndefined()
    },
  )

  it('cross-entropy needs no scatter', () => {
    expect(countOps(gradientOf(programOf('crossEntropy'))).get('scatter')).toBeUndefined()
  })

  it.each(['softmax', 'logSoftmax', 'logSumExp', 'crossEntropy'])('%s: its anchor has no derivative', (name) => {
    const { graph } = rewriteGraph(gradientOf(programOf(name)), { mode: 'strict' })
    const ops = countOps(graph)
    // Cross-entropy compares positions with the label, nothing compares with the maximum.
    expect(ops.get('eq') ?? 0).toBe(name === 'crossEntropy' ? 1 : 0)
    expect(ops.get('bitcast')).toBeUndefined()
  })

  it('rows with infinities', () => {
    const x = Float64Array.of(-Infinity, 1, 1, -Infinity, -Infinity, -Infinity, Infinity, 0, 0)
    const input = { inputs: [{ shape: [3, 3] }] }
    const at = (f: (x: Node) => Node): number[] => {
      const [y] = evaluate(graphOf({ ...input, build: f }), [x])
      return y === undefined ? [] : numbersOf(y, 'f64')
    }
    expect(at((v) => c.softmax(v))).toEqual([0, 0.5, 0.5, ...Array<number>(6).fill(NaN)])
    expect(at((v) => c.logSumExp(v, 1)).slice(1)).toEqual([-Infinity, Infinity])
    const gradient = gradientOf({ ...input, build: (v) => c.logSumExp(v, 1) })
    const [g] = evaluate(gradient, [x, Float64Array.of(1, 1, 1)])
    expect(g === undefined ? [] : numbersOf(g, 'f64').slice(0, 3)).toEqual([0, 0.5, 0.5])
  })

  it('derivatives come from results', () => {
    for (const [name, f] of [
      ['exp', c.exp],
      ['tanh', c.tanh],
      ['sigmoid', c.sigmoid],
    ] as const) {
      const g = gradientOf({ inputs: [{ shape: [3] }], build: (x) => f(x) })
      expect([...countOps(g).keys()]).not.toContain('cos')
      expect(countOps(g).get(name)).toBe(1)
    }
  })

  it("relu's mask is read from its result", () => {
    const g = gradientOf({ inputs: [{ shape: [3] }], build: (x) => c.relu(x) })
    const mask = topologicalOrder(g.outputs).find((n) => n.op === 'gt')
    expect(mask?.inputs[0]?.op).toBe('max')
  })

  it('dropout keeps no mask but its key', () => {
    const counts = countOps(gradientOf(programOf('dropout of gelu')))
    expect(counts.get('randomMask')).toBe(1)
    expect(counts.get('constant')).toBe(1)
  })
})
