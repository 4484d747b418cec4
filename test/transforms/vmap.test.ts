/** Batching of every op against a loop over the batch, with the batch at every axis. */
import { describe, expect, it } from 'vitest'
import {
  add,
  bernoulli,
  conv,
  inspect,
  layerNorm,
  mul,
  randomNormal,
  softmax,
  splitKey,
  sum,
} from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { makeRng } from '../random/rng.ts'
import { allCases } from './cases.ts'
import { batchVariants, checkBatch, drawInputs, elementAt, evaluate, graphOf, type Program } from './support.ts'

describe('every op against a loop', () => {
  it.each(allCases.map((c) => [c.name, c] as const))('%s', (_, c) => {
    for (const axes of batchVariants(c)) checkBatch(c, axes)
  })
})

describe('compositions against a loop', () => {
  const programs: Readonly<Record<string, Program>> = {
    softmax: { inputs: [{ shape: [4, 5] }], build: (x) => softmax(x) },
    layerNorm: {
      inputs: [{ shape: [4, 5] }, { shape: [5] }, { shape: [5] }],
      build: (x, scale, bias) => layerNorm(x, { scale, bias }),
    },
    convolution: {
      inputs: [{ shape: [2, 3, 7, 5] }, { shape: [4, 3, 3, 2] }],
      build: (x, w) => conv(x, w, { padding: 1, stride: 2 }),
    },
    'random numbers': {
      inputs: [{ shape: [2], dtype: 'u32', lo: 0, hi: 4e9 }],
      build: (k) => [randomNormal(k, [3, 5]), bernoulli(k, 0.3, [7]), ...splitKey(k)],
    },
  }
  it.each(Object.entries(programs))('%s', (_, p) => {
    for (const axes of batchVariants(p)) checkBatch(p, axes)
  })
})

describe('composition with other transforms', () => {
  const program: Program = {
    inputs: [{ shape: [4, 5] }, { shape: [5] }],
    build: (x, scale) => sum(mul(layerNorm(x, { scale }), softmax(x))),
  }
  const graph = graphOf(program)

  it('batches gradients', () => {
    const gradient = vjpGraph(graph, [0, 1])
    const asProgram: Program = { inputs: [...program.inputs, { shape: [] }], build: () => gradient.outputs }
    const batch = vmapGraph(gradient, [0, null, null], [0, 0, 0], 2)
    verifyGraph(batch)
    const inputs = drawInputs(
      { ...asProgram, inputs: [{ shape: [2, 4, 5] }, { shape: [5] }, { shape: [] }] },
      makeRng(3),
    )
    const got = evaluate(batch, inputs)
    for (const b of [0, 1]) {
      const own = inputs.map((x, i) => (i === 0 ? elementAt(x, [2, 4, 5], 0, b, 'f64') : x))
      evaluate(gradient, own).forEach((want, i) => {
        const y = batch.outputs[i]
        const data = got[i]
        if (y === undefined || data === undefined) throw new Error('no output')
        expect(elementAt(data, y.shape, 0, b, 'f64')).toEqual(want)
      })
    }
  })

  it('differentiates batches: the gradient of a batched sum is the batched gradient', () => {
    const inputs = drawInputs({ ...program, inputs: [{ shape: [2, 4, 5] }, { shape: [5] }] }, makeRng(3))
    const seeds = Float64Array.from([1, -2])
    const one = evaluate(vjpGraph(vmapGraph(graph, [0, null], [0], 2), [0]), [...inputs, seeds])
    const other = evaluate(vmapGraph(vjpGraph(graph, [0]), [0, null, 0], [0, 0], 2), [...inputs, seeds])
    one[1]?.forEach((v, i) => {
      expect(v).toBeCloseTo(Number(other[1]?.[i]), 12)
    })
  })

  it('nests', () => {
    const product: Program = { inputs: [{ shape: [3] }, { shape: [3] }], build: (x, y) => sum(mul(x, y)) }
    // All pairs of rows: a matrix product.
    const pairs = vmapGraph(vmapGraph(graphOf(product), [null, 0], [0], 4), [0, null], [0], 2)
    verifyGraph(pairs)
    expect(pairs.outputs.map((y) => y.shape)).toEqual([[2, 4]])
    const x = Float64Array.from([1, 2, 3, 4, 5, 6])
    const y = Float64Array.from([1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1])
    expect(evaluate(pairs, [x, y])).toEqual([Float64Array.from([1, 2, 3, 6, 4, 5, 6, 15])])
  })
})

describe('batches', () => {
  const double: Program = { inputs: [{ shape: [2] }, { shape: [2] }], build: (x, y) => [add(x, x), add(y, y)] }

  it('compute once what does not depend on the batch', () => {
    const batch = vmapGraph(graphOf(double), [0, null], [0, null], 3)
    expect(batch.outputs.map((y) => y.shape)).toEqual([[3, 2], [2]])
  })

  it('repeat an output that does not depend on the batch where asked', () => {
    const batch = vmapGraph(graphOf(double), [0, null], [1, 1], 3)
    const [, y] = evaluate(batch, [new Float64Array(6), Float64Array.from([1, 2])])
    expect(y).toEqual(Float64Array.from([2, 2, 2, 4, 4, 4]))
  })

  it('may be empty', () => {
    const batch = vmapGraph(graphOf(double), [1, null], [0, 0], 0)
    verifyGraph(batch)
    expect(evaluate(batch, [new Float64Array(0), new Float64Array(2)]).map((y) => y.length)).toEqual([0, 0])
  })

  it('are seen element by element, in order', () => {
    const seen: number[][] = []
    const graph = graphOf({
      inputs: [{ shape: [2] }, { shape: [2] }],
      build: (x, y) => {
        const first = inspect(x, { label: 'x', call: (d) => seen.push([...d].map(Number)) })
        return add(first, inspect(y, { label: 'y', call: (d) => seen.push([...d].map(Number)) }, first))
      },
    })
    const batch = vmapGraph(graph, [0, null], [0], 2)
    verifyGraph(batch)
    evaluate(batch, [Float64Array.from([1, 2, 3, 4]), Float64Array.from([5, 6])])
    expect(seen).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
    ])
  })

  it('keep the origins of what they batch', () => {
    const graph = graphOf(double)
    const origins = new Set(nodesOf(graph).map((n) => n.origin))
    for (const n of nodesOf(vmapGraph(graph, [0, 0], [0, 0], 3))) expect(origins).toContain(n.origin)
  })

  it('give the bits of each key alone in f32 programs too', () => {
    const graph: Graph = graphOf({
      inputs: [{ shape: [2], dtype: 'u32' }],
      build: (k) => makeNode('randomBits', [k], { shape: [3, 3], dtype: 'u32' }),
    })
    const keys = Uint32Array.from([0, 0, 0xffffffff, 1, 0x13198a2e, 0x03707344])
    const [bits] = evaluateGraph(vmapGraph(graph, [0], [0], 3), [keys]).map(toHostArray)
    for (let b = 0; b < 3; b++)
      expect(bits?.slice(9 * b, 9 * b + 9)).toEqual(evaluate(graph, [keys.slice(2 * b, 2 * b + 2)])[0])
  })
})

describe('errors', () => {
  const graph = graphOf({ inputs: [{ shape: [2] }], build: (x) => add(x, x) })
  it.each([
    ['an axis out of range', () => vmapGraph(graph, [2], [0], 3), 'E_AXIS'],
    ['an output axis out of range', () => vmapGraph(graph, [0], [-1], 3), 'E_AXIS'],
    ['too few axes', () => vmapGraph(graph, [], [0], 3), 'E_ARGUMENT'],
    ['an output that depends on the batch', () => vmapGraph(graph, [0], [null], 3), 'E_ARGUMENT'],
    ['a batch of half an element', () => vmapGraph(graph, [0], [0], 0.5), 'E_ARGUMENT'],
  ])('%s', (_, call, code) => {
    expect(call).toThrow(expect.objectContaining({ code }))
  })
})
