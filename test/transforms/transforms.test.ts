/** Conventions at kinks, errors, linearisation, deep graphs, and what transforms keep: parameters, effects, origins. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { makeNode, param } from '../../src/graph/build.ts'
import type { Graph, Node, OpaqueKernel } from '../../src/graph/node.ts'
import { nodesOf, topologicalOrder } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { inlineGraph, jvpGraph, linearizeGraph, stopGradient, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { hostArray } from '../../src/types/host.ts'
import { makeRng } from '../random/rng.ts'
import { drawInputs, evaluate, expectClose, graphOf, numbersOf, type Program } from './support.ts'

const f64 = (...values: number[]): Float64Array => Float64Array.from(values)

/** The gradients of the sum of a program's outputs. */
function gradients(program: Program, ...inputs: readonly Float64Array[]): number[][] {
  const graph = graphOf(program)
  const reverse = vjpGraph(
    graph,
    inputs.map((_, i) => i),
  )
  verifyGraph(reverse)
  const seeds = graph.outputs.map((y) => f64(...new Array<number>(y.shape.reduce((n, d) => n * d, 1)).fill(1)))
  return evaluate(reverse, [...inputs, ...seeds])
    .slice(graph.outputs.length)
    .map((g) => numbersOf(g, 'f64'))
}

const line = { shape: [3] }

describe('conventions at kinks', () => {
  it.each<readonly [string, Program['build'], readonly number[], readonly number[]]>([
    ['abs has slope 0 at 0', (x) => c.unary('abs', x), [-1, 0, 2], [-1, 0, 1]],
    ['relu has slope 0 at 0', (x) => c.relu(x), [-1, 0, 2], [0, 0, 1]],
    ['clip is flat on its bounds', (x) => c.clip(x, -1, 1), [-1, 0, 1], [0, 1, 0]],
    ['x^2 at 0', (x) => c.pow(x, 2), [-1, 0, 2], [-2, 0, 4]],
    ['x^0', (x) => c.pow(x, 0), [-1, 0, 2], [0, 0, 0]],
    ['the largest share a tie', (x) => c.reduceMax(x), [2, 1, 2], [0.5, 0, 0.5]],
    ['the least share a tie', (x) => c.reduceMin(x), [1, 1, 1], [1 / 3, 1 / 3, 1 / 3]],
    ['a product with one zero', (x) => c.prod(x), [2, 0, 3], [0, 6, 0]],
    ['a product with two zeros', (x) => c.prod(x), [0, 0, 3], [0, 0, 0]],
    [
      'a running maximum follows the first',
      (x) => makeNode('scan', [x], { combiner: 'max', axis: 0, reverse: false, exclusive: false }),
      [1, 1, 0],
      [3, 0, 0],
    ],
  ])('%s', (_, build, at, want) => {
    expect(gradients({ inputs: [line], build }, f64(...at))).toEqual([want])
  })

  it('two operands share a tie', () => {
    const build: Program['build'] = (x, y) => c.max(x ?? 0, y ?? 0)
    expect(gradients({ inputs: [line, line], build }, f64(1, 2, 3), f64(3, 2, 1))).toEqual([
      [0, 0.5, 1],
      [1, 0.5, 0],
    ])
  })

  it('elements scattered to one place share a tie', () => {
    const at = c.integers([0, 0, 1])
    const build: Program['build'] = (x, u) =>
      makeNode(
        'scatter',
        [x, u, at].filter((n) => n !== undefined),
        { combiner: 'max', sources: [{ input: 0 }] },
      )
    expect(gradients({ inputs: [{ shape: [2] }, line], build }, f64(0, 9), f64(5, 5, 1))).toEqual([
      [0, 1],
      [0.5, 0.5, 0],
    ])
  })

  it('the last write wins, with its cotangent', () => {
    const at = c.integers([0, 0, 7])
    const build: Program['build'] = (x, u) =>
      makeNode(
        'scatter',
        [x, u, at].filter((n) => n !== undefined),
        { combiner: 'set', sources: [{ input: 0 }] },
      )
    expect(gradients({ inputs: [{ shape: [2] }, line], build }, f64(0, 9), f64(5, 5, 1))).toEqual([
      [0, 1],
      [0, 1, 0],
    ])
  })
})

describe('stopGradient', () => {
  it('is the value, with no derivative', () => {
    const build: Program['build'] = (x) => c.mul(x ?? 0, stopGradient(x ?? c.zeros([3])))
    expect(gradients({ inputs: [line], build }, f64(1, 2, 3))).toEqual([[1, 2, 3]])
    const graph = graphOf({ inputs: [line], build })
    expect(evaluate(graph, [f64(1, -2, 3)])).toEqual([f64(1, 4, 9)])
  })

  it.each(['f32', 'f16', 'bf16', 'i32', 'bool'] as const)('keeps %s', (dtype) => {
    const x = param(0, [2], dtype)
    const y = stopGradient(x)
    expect([y.dtype, y.shape]).toEqual([dtype, [2]])
    verifyGraph({ params: [x], outputs: [y], effects: [] })
  })
})

describe('parameters and outputs', () => {
  const x = param(4, [2], 'f32')
  const i = param(2, [2], 'i32')
  const y = param(7, [], 'f64')
  const graph: Graph = { params: [x, i, y], outputs: [c.add(i, 1), c.mul(x, 2), y], effects: [] }

  it('forward: primals, then tangents of floats', () => {
    const forward = jvpGraph(graph, [true, false, true])
    verifyGraph(forward)
    expect(forward.params.map((p) => [p.attrs.index, p.dtype])).toEqual([
      [4, 'f32'],
      [2, 'i32'],
      [7, 'f64'],
      [8, 'f32'],
      [9, 'f64'],
    ])
    expect(forward.outputs.map((n) => n.dtype)).toEqual(['i32', 'f32', 'f64', 'f32', 'f64'])
  })

  it('reverse: cotangents of float outputs, gradients as asked', () => {
    const reverse = vjpGraph(graph, [2, 0])
    verifyGraph(reverse)
    expect(reverse.params.map((p) => [p.dtype, p.shape])).toEqual([
      ['f32', [2]],
      ['i32', [2]],
      ['f64', []],
      ['f32', [2]],
      ['f64', []],
    ])
    expect(reverse.outputs.map((n) => n.dtype)).toEqual(['i32', 'f32', 'f64', 'f64', 'f32'])
  })

  it('an input without influence has gradient zero', () => {
    expect(gradients({ inputs: [line, line], build: (a) => c.neg(a ?? 0) }, f64(1, 2, 3), f64(1, 2, 3))).toEqual([
      [-1, -1, -1],
      [0, 0, 0],
    ])
  })

  it('a tangent that is zero is not computed', () => {
    const build: Program['build'] = (a, b) => [c.mul(c.exp(a ?? 0), c.unary('sin', b ?? 0))]
    const forward = jvpGraph(graphOf({ inputs: [line, line], build }), [true, false])
    expect(nodesOf(forward).filter((n) => n.op === 'cos' || n.op === 'full')).toEqual([])
  })

  it('half precision keeps its dtype', () => {
    const h = param(0, [2, 3], 'f16')
    const g: Graph = { params: [h], outputs: [c.softmax(h), c.gelu(h), c.cast(h, 'f32')], effects: [] }
    const reverse = vjpGraph(g, [0])
    verifyGraph(reverse)
    expect(reverse.outputs.at(-1)?.dtype).toBe('f16')
    const seeds = reverse.params.slice(1).map((p) => hostArray(p.dtype, 6))
    expect(evaluate(reverse, [hostArray('f16', 6), ...seeds]).at(-1)).toEqual(new Uint16Array(6))
  })

  it.each(['f16', 'bf16'] as const)('sums of cotangents of %s are made in f32, as sums are', (dtype) => {
    const [x, b, w] = [param(0, [5, 4, 40], dtype), param(1, [40], dtype), param(2, [5, 1, 40], dtype)]
    const windows = c.conv(c.mul(c.add(x, b), w), c.full([2, 4, 20], 1, dtype), { padding: 3 })
    const reverse = vjpGraph({ params: [x, b, w], outputs: [c.reduceMax(windows, 2)], effects: [] }, [0, 1, 2])
    verifyGraph(reverse)
    const sums = nodesOf(reverse).filter((n) => n.op === 'reduce' && n.attrs.combiner === 'sum')
    expect(sums.length).toBe(3)
    expect(new Set(sums.map((n) => n.dtype))).toEqual(new Set(['f32']))
  })
})

describe('provenance and effects', () => {
  it('derivatives stand in the origins of what they belong to', () => {
    const x = param(0, [3], 'f32')
    const y = withOrigin('soft', 'here:1', () => c.softmax(x))
    const z = withOrigin('total', 'here:2', () => c.sum(c.exp(y)))
    const graph: Graph = { params: [x], outputs: [z], effects: [] }
    const names = (g: Graph): Set<string> =>
      new Set(nodesOf(g).flatMap((n) => (n.op === 'param' ? [] : [n.origin.name])))
    expect(names(vjpGraph(graph, [0]))).toEqual(new Set(['soft', 'total']))
    expect(names(jvpGraph(vjpGraph(graph, [0]), [true, true]))).toEqual(new Set(['soft', 'total']))
  })

  it('effects run once, in order, on the primal values', () => {
    const seen: string[] = []
    const see = (label: string) => ({ label, call: (d: ArrayLike<number | bigint>) => seen.push(`${label} ${d[0]}`) })
    const x = param(0, [1], 'f64')
    const first = c.inspect(c.mul(x, x), see('first'))
    const second = c.inspect(c.exp(x), see('second'), first)
    const graph: Graph = { params: [x], outputs: [c.mul(first, first)], effects: [second] }
    verifyGraph(graph)
    const twice = vjpGraph(jvpGraph(graph, [true]), [0])
    verifyGraph(twice)
    evaluate(twice, [f64(2), f64(1), f64(1), f64(0)])
    expect(seen).toEqual(['first 4', `second ${Math.exp(2)}`])
  })

  it('inlines with effects after those before', () => {
    const x = param(0, [1], 'f64')
    const graph: Graph = { params: [x], outputs: [x], effects: [c.inspect(x, { label: 'b', call: () => {} })] }
    const before = c.inspect(x, { label: 'a', call: () => {} })
    const applied = inlineGraph(graph, [c.neg(x)], before)
    verifyGraph({ params: [x], outputs: applied.outputs, effects: applied.effects })
    expect(applied.effects[0]?.inputs[1]).toBe(before)
  })
})

describe('linearize', () => {
  it('is the same derivative, with its residuals as inputs', () => {
    const program: Program = {
      inputs: [{ shape: [3, 4] }, { shape: [4, 2] }, { shape: [3], dtype: 'i32', lo: 0, hi: 1 }],
      build: (x, w, i) =>
        [c.crossEntropy(c.tanh(c.matmul(x ?? c.zeros([]), w ?? c.zeros([]))), i ?? c.zeros([])), x ?? 0].filter(
          (n) => typeof n === 'object',
        ),
    }
    const graph = graphOf(program)
    const rng = makeRng(5)
    const inputs = drawInputs(program, rng)
    const along = drawInputs({ ...program, inputs: program.inputs.slice(0, 2) }, rng)
    const { primal, tangent, residuals } = linearizeGraph(graph, [true, true, false])
    verifyGraph(primal)
    verifyGraph(tangent)
    const at = evaluate(primal, inputs)
    expect(at.length).toBe(graph.outputs.length + residuals)
    const got = evaluate(tangent, [...at.slice(graph.outputs.length), ...along])
    const want = evaluate(jvpGraph(graph, [true, true, false]), [...inputs, ...along]).slice(graph.outputs.length)
    got.forEach((g, k) => {
      expectClose(numbersOf(g, 'f64'), numbersOf(want[k] ?? f64(), 'f64'), 1e-12, `tangent ${k}`)
    })
  })
})

describe('deep graphs', () => {
  it('transforms nest over ten thousand operations without recursion', () => {
    const x = param(0, [2], 'f64')
    let y: Node = x
    for (let i = 0; i < 5000; i++) y = c.add(c.mul(y, 0.999), x)
    const graph: Graph = { params: [x], outputs: [y], effects: [] }
    const all = vmapGraph(jvpGraph(vjpGraph(graph, [0]), [true, true]), [0, null, null, null], [0, 0, 0, 0], 2)
    expect(topologicalOrder(all.outputs).length).toBeGreaterThan(10_000)
    const [, gradient] = evaluate(all, [f64(1, 2, 3, 4), f64(1, 1), f64(1, 1), f64(1, 1)])
    // d/dx of the geometric sum of 0.999^k, k = 0 .. 5000
    const want = (1 - 0.999 ** 5001) / 0.001
    for (const v of gradient ?? []) expect(Number(v)).toBeCloseTo(want, 8)
  })
})

describe('errors', () => {
  const kernel: OpaqueKernel = {
    name: 'mine',
    shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: x?.dtype ?? 'f32' }),
    run: () => {},
  }
  const x = param(0, [3], 'f32')
  const i = param(1, [3], 'i32')
  const opaque: Graph = {
    params: [x],
    outputs: [withOrigin('mine', 'user.ts:3:1', () => c.opaque(kernel, c.exp(x)))],
    effects: [],
  }
  const product: Graph = {
    params: [x],
    outputs: [makeNode('scatter', [x, x, c.integers([0, 1, 2])], { combiner: 'prod', sources: [{ input: 0 }] })],
    effects: [],
  }
  const plain: Graph = { params: [x, i], outputs: [c.add(x, c.cast(i, 'f32'))], effects: [] }

  it.each([
    ["a user's kernel", () => vjpGraph(opaque, [0]), 'E_UNSUPPORTED'],
    ['a scattered product', () => jvpGraph(product, [true]), 'E_UNSUPPORTED'],
    ['an integer input', () => vjpGraph(plain, [1]), 'E_DTYPE'],
    ['an integer tangent', () => jvpGraph(plain, [false, true]), 'E_DTYPE'],
    ['an input that is not there', () => vjpGraph(plain, [2]), 'E_ARGUMENT'],
    ['an input named twice', () => vjpGraph(plain, [0, 0]), 'E_ARGUMENT'],
    ['more choices than inputs', () => jvpGraph(plain, [true, false, true]), 'E_ARGUMENT'],
    ['arguments of another type', () => inlineGraph(plain, [x, x]), 'E_ARGUMENT'],
  ])('%s', (_, call, code) => {
    expect(call).toThrow(expect.objectContaining({ code }))
  })

  it("names the user's call", () => {
    expect(() => vjpGraph(opaque, [0])).toThrow(
      expect.objectContaining({ where: 'user.ts:3:1', message: expect.stringContaining('the derivative of mine') }),
    )
  })

  it("a user's kernel beside the path is no obstacle", () => {
    const beside: Graph = { params: [x, i], outputs: [c.mul(x, c.cast(c.opaque(kernel, i), 'f32'))], effects: [] }
    verifyGraph(vjpGraph(beside, [0]))
  })
})
