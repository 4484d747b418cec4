/** Functions with derivative rules of their own: their rules are what derivatives use, in every order and over batches. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import type { CustomRule, Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { jvpGraph, linearizeGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import type { HostArray } from '../../src/types/host.ts'
import { makeRng } from '../random/rng.ts'
import { inner, looped, scaled } from './regions.ts'
import {
  checkGrads,
  drawInputs,
  elementAt,
  evaluate,
  expectClose,
  graphOf,
  numbersOf,
  type Program,
} from './support.ts'

const f64 = (...values: number[]): Float64Array => Float64Array.from(values)
const at = <T>(x: T | undefined): T => {
  if (x === undefined) throw new Error('nothing there')
  return x
}

const inputs: Program['inputs'] = [{ shape: [3] }, { shape: [3] }, { shape: [3], dtype: 'i32', lo: 1, hi: 4 }]
const plain = graphOf({ inputs, build: (x, y, n) => [c.mul(c.mul(c.exp(at(x)), at(y)), at(n)), c.add(at(n), 1)] })
const byRule = (rule: CustomRule): Graph =>
  graphOf({ inputs, build: (x, y, n) => c.customNodes(scaled.body, rule, [at(x), at(y), at(n)]) })

function expectSame(got: Graph, want: Graph, data: readonly HostArray[], tolerance = 1e-12): void {
  verifyGraph(got)
  const [a, b] = [evaluate(got, data), evaluate(want, data)]
  want.outputs.forEach((y, i) => {
    expectClose(numbersOf(at(a[i]), y.dtype), numbersOf(at(b[i]), y.dtype), tolerance, `output ${i}`)
  })
}

const data = drawInputs({ inputs, build: () => [] }, makeRng(8))
const [u, v, w] = [f64(1, -2, 3), f64(0.5, 1, -1), f64(2, 0.25, -3)]

describe.each([
  ['jvp', scaled.jvp],
  ['vjp', scaled.vjp],
] as const)('the true derivative as a %s rule', (kind, rule) => {
  const graph = byRule(rule)

  it('gradients, to second order', () => {
    expectSame(graph, plain, data)
    expectSame(vjpGraph(graph, [0, 1]), vjpGraph(plain, [0, 1]), [...data, u])
    expectSame(vjpGraph(graph, [1]), vjpGraph(plain, [1]), [...data, u])
    const twice = (g: Graph): Graph => vjpGraph(vjpGraph(g, [0, 1]), [0, 1])
    expectSame(twice(graph), twice(plain), [...data, u, v, w, u])
  })

  it('forward over reverse', () => {
    const along = (g: Graph): Graph => jvpGraph(vjpGraph(g, [0, 1]), [true, true, false, true])
    expectSame(along(graph), along(plain), [...data, u, v, w, u])
  })

  it('batches of gradients, gradients of batches; what has no batch sums over it', () => {
    const wide = [Float64Array.from([...at(data[0]), ...u].map(Number)), at(data[1]), at(data[2])]
    const axes = [0, null, null]
    const gradientOfBatch = (g: Graph): Graph => vjpGraph(vmapGraph(g, axes, [0, 0], 2), [0, 1])
    const batchOfGradients = (g: Graph): Graph => vmapGraph(vjpGraph(g, [0, 1]), [...axes, 0], [0, 0, 0, 0], 2)
    const seeds = Float64Array.from([...u, ...v])
    expectSame(gradientOfBatch(graph), gradientOfBatch(plain), [...wide, seeds])
    expectSame(batchOfGradients(graph), batchOfGradients(plain), [...wide, seeds])
    // A rule over a batch of batches.
    const both = (g: Graph): Graph =>
      vjpGraph(vmapGraph(vmapGraph(g, [null, 0, null], [0, 0], 2), axes, [0, 0], 2), [0, 1])
    const more = [wide[0] ?? f64(), Float64Array.from([...v, ...w]), at(data[2])]
    expectSame(both(graph), both(plain), [...more, Float64Array.from([...u, ...v, ...w, ...u])])
  })

  it('inside a loop', () => {
    const step = (g: Graph): Graph =>
      inner([{ shape: [3] }, { shape: [3], dtype: 'i32' }, { shape: [3] }], (x, n, h) => {
        const [y] = g === plain ? [c.mul(c.mul(c.exp(x), h), n)] : c.customNodes(scaled.body, rule, [x, h, n])
        return [c.mul(at(y), 0.1)]
      })
    const types: Program['inputs'] = [{ shape: [3] }, { shape: [3], dtype: 'i32', lo: 1, hi: 4 }, { shape: [3] }]
    const build = (g: Graph) => looped({ body: step(g), length: 3, consts: 2, carries: 1 })
    const [mine, other] = [graph, plain].map((g) => graphOf({ inputs: types, build: build(g) }))
    const own = [at(data[0]), at(data[2]), at(data[1])]
    expectSame(vjpGraph(at(mine), [0, 2]), vjpGraph(at(other), [0, 2]), [...own, u])
    const twice = (g: Graph): Graph => vjpGraph(vjpGraph(g, [0, 2]), [0, 2])
    expectSame(twice(at(mine)), twice(at(other)), [...own, u, v, w, u])
  })

  it('leaves nothing of itself in a rewritten program', () => {
    const reverse = rewriteGraph(vjpGraph(graph, [0, 1]), { mode: 'strict' }).graph
    verifyGraph(reverse)
    expect(nodesOf(reverse).filter((n) => n.op.startsWith('custom') || n.op === 'result')).toEqual([])
    expectSame(reverse, vjpGraph(plain, [0, 1]), [...data, u])
    expect(kind).toBe(rule.kind)
  })
})

describe('a jvp rule', () => {
  it('through differences, forward and reverse, to second order', () => {
    checkGrads(byRule(scaled.jvp), data, makeRng(1), 2)
  })

  it('may use control flow on its tangents', () => {
    // y = 8x, the tangent doubled in a loop whose counter is no tangent.
    const step = inner([{ shape: [3] }, { shape: [] }, { shape: [3] }], (x, k, t) => [
      c.add(k, 1),
      c.mul(t, c.add(1, c.mul(c.exp(c.mul(x, 0)), 1))),
    ])
    const graph = inner([{ shape: [3] }, { shape: [3] }], (x, t) => {
      const loop = c.loopNodes(step, { length: 3 }, [x], [c.zeros([], 'f64'), t], [])
      return [c.mul(x, 8), at(loop.carries[1])]
    })
    const rule: CustomRule = { kind: 'jvp', name: 'eightfold', graph }
    const body = inner([{ shape: [3] }], (x) => [c.mul(x, 8)])
    const g = graphOf({ inputs: [{ shape: [3] }], build: (x) => c.customNodes(body, rule, [at(x)]) })
    checkGrads(g, [f64(1, 2, 3)])
    expect(evaluate(vjpGraph(g, [0]), [f64(1, 2, 3), u])[1]).toEqual(u.map((x) => 8 * x))
  })

  it('is believed', () => {
    const body = inner([{ shape: [3] }], (x) => [c.unary('round', x)])
    const graph = inner([{ shape: [3] }, { shape: [3] }], (x, t) => [c.unary('round', x), t])
    const straight = graphOf({
      inputs: [{ shape: [3] }],
      build: (x) => c.customNodes(body, { kind: 'jvp', name: 'straight', graph }, [at(x)]),
    })
    expect(evaluate(vjpGraph(straight, [0]), [f64(0.4, 0.6, 2), u])).toEqual([f64(0, 1, 2), u])
    expect(evaluate(jvpGraph(straight, [true]), [f64(0.4, 0.6, 2), u])).toEqual([f64(0, 1, 2), u])
  })
})

describe('a vjp rule', () => {
  const identity = inner([{ shape: [3] }], (x) => [x])
  const clipped: CustomRule = {
    kind: 'vjp',
    name: 'clipGradient',
    forward: identity,
    backward: inner([{ shape: [3] }], (g) => [c.clip(g, -1, 1)]),
  }
  const graph = graphOf({
    inputs: [{ shape: [3] }],
    build: (x) =>
      withOrigin('clipGradient', 'user.ts:2:5', () =>
        c.customNodes(identity, clipped, [at(x)]).map((y) => c.mul(y, y)),
      ),
  })

  it('is believed', () => {
    expect(evaluate(vjpGraph(graph, [0]), [f64(1, 0.25, -3), f64(1, 1, 1)])).toEqual([
      f64(1, 0.0625, 9),
      f64(1, 0.5, -1),
    ])
  })

  it('does not know forward mode: the error names the function and the call', () => {
    const refused = expect.objectContaining({
      code: 'E_UNSUPPORTED',
      where: 'user.ts:2:5',
      message: expect.stringContaining('clipGradient'),
      help: expect.stringContaining('reverse mode'),
    })
    const forward = jvpGraph(graph, [true])
    verifyGraph(forward)
    expect(() => rewriteGraph(forward, { mode: 'fast' })).toThrow(refused)
    expect(() => evaluate(forward, [f64(1, 2, 3), u])).toThrow(refused)
    const inLoop = graphOf({
      inputs: [{ shape: [3] }],
      build: looped({
        body: inner([{ shape: [3] }], (x) => c.customNodes(identity, clipped, [x])),
        length: 3,
        consts: 0,
        carries: 1,
      }),
    })
    expect(() => rewriteGraph(jvpGraph(inLoop, [true]), { mode: 'fast' })).toThrow(
      expect.objectContaining({ code: 'E_UNSUPPORTED' }),
    )
  })

  it('is linear in the tangents it does not know', () => {
    const { tangent, residuals } = linearizeGraph(graph, [true])
    expect([residuals, tangent.params.length]).toEqual([1, 2])
    // The derivative of the unknown linear map is the map; its coefficients are another matter.
    verifyGraph(jvpGraph(tangent, [false, true]))
    const other = linearizeGraph(byRule(scaled.vjp), [true, true])
    expect(() =>
      jvpGraph(
        other.tangent,
        other.tangent.params.map(() => true),
      ),
    ).toThrow(expect.objectContaining({ code: 'E_UNSUPPORTED', message: expect.stringContaining('scaled') }))
  })

  it('batches its unknown linear map', () => {
    const { tangent, residuals } = linearizeGraph(byRule(scaled.vjp), [true, true])
    const axes = tangent.params.map((_, i) => (i === residuals ? 0 : null))
    const batch = vmapGraph(tangent, axes, [0], 2)
    verifyGraph(batch)
    expect(batch.outputs.map((y) => y.shape)).toEqual([[2, 3]])
  })

  it('a forward derivative nothing reads is no matter', () => {
    const unread = jvpGraph(graph, [true])
    const outputs: readonly Node[] = unread.outputs.slice(0, 1)
    const { graph: after } = rewriteGraph({ ...unread, outputs }, { mode: 'fast' })
    expect(evaluate(after, [f64(1, 2, 3), u])).toEqual([f64(1, 4, 9)])
  })

  it('element by element over a batch', () => {
    const batch = vmapGraph(vjpGraph(graph, [0]), [0, 0], [0, 0], 2)
    const xs = f64(1, 0.25, -3, 0.1, 0, 7)
    const got = evaluate(batch, [xs, f64(1, 1, 1, 1, 1, 1)])
    for (const b of [0, 1]) {
      const own = evaluate(vjpGraph(graph, [0]), [xs.slice(3 * b, 3 * b + 3), f64(1, 1, 1)])
      own.forEach((want, i) => {
        expect(elementAt(at(got[i]), [2, 3], 0, b, 'f64')).toEqual(want)
      })
    }
  })
})

describe('rules that do not fit', () => {
  const body = inner([{ shape: [3] }], (x) => [c.exp(x)])
  const two: readonly { readonly shape: readonly number[] }[] = [{ shape: [3] }, { shape: [3] }]
  it.each<readonly [string, CustomRule, string]>([
    ['no tangent', { kind: 'jvp', name: 'mine', graph: inner(two, (x) => [c.exp(x)]) }, 'E_STRUCTURE'],
    [
      'a tangent of another shape',
      { kind: 'jvp', name: 'mine', graph: inner(two, (x, t) => [c.exp(x), c.sum(t)]) },
      'E_SHAPE',
    ],
    [
      'a gradient of another shape',
      { kind: 'vjp', name: 'mine', forward: body, backward: inner([{ shape: [3] }], (g) => [c.sum(g)]) },
      'E_SHAPE',
    ],
    [
      'residuals nobody takes',
      {
        kind: 'vjp',
        name: 'mine',
        forward: inner([{ shape: [3] }], (x) => [c.exp(x), x]),
        backward: inner([{ shape: [3] }], (g) => [g]),
      },
      'E_STRUCTURE',
    ],
  ])('%s', (_, rule, code) => {
    expect(() => graphOf({ inputs: [{ shape: [3] }], build: (x) => c.customNodes(body, rule, [at(x)]) })).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining('mine') }),
    )
  })
})
