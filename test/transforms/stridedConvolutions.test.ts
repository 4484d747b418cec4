/** Data gradients of strided convolutions: by phases, so that no zeros between the cotangents are multiplied; against their definition. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { at, check, inputsOf } from '../compile/support.ts'
import { makeRng } from '../random/rng.ts'
import { checkProgram, evaluate, graphOf, numbersOf } from './support.ts'

interface Convolution {
  readonly x: readonly number[]
  readonly w: readonly number[]
  readonly stride: readonly number[]
  readonly dilation: readonly number[]
  readonly padding: readonly (readonly [number, number])[]
  readonly groups: number
}

type Dtype = 'f32' | 'f64'

/** The gradient in the data, as a graph of data, weights and cotangent. */
function dataGradient({ x, w, ...options }: Convolution, dtype: Dtype = 'f64'): Graph {
  const inputs = [x, w].map((shape) => ({ shape, dtype }))
  const graph = graphOf({ inputs, build: (data, weights) => c.conv(data, weights, options) })
  const reverse = vjpGraph(graph, [0])
  return { ...reverse, outputs: reverse.outputs.slice(1) }
}

function draw(seed: number): Convolution {
  const { int, pick } = makeRng(seed)
  const axes = pick([1, 1, 2, 2, 3])
  const groups = pick([1, 1, 2])
  const each = <T>(f: (i: number) => T): T[] => Array.from({ length: axes }, (_, i) => f(i))
  const stride = each(() => int(1, 4))
  const kernel = each(() => int(1, axes === 3 ? 3 : 5))
  const dilation = each(() => pick([1, 1, 2]))
  const span = kernel.map((k, i) => (k - 1) * (dilation[i] ?? 1) + 1)
  const padding = span.map((s): [number, number] => [int(0, s - 1), int(0, s - 1)])
  const x = span.map((s, i) => Math.max(1, s - (padding[i]?.[0] ?? 0) - (padding[i]?.[1] ?? 0)) + int(0, 6))
  return {
    x: [int(1, 2), groups * int(1, 2), ...x],
    w: [groups * int(1, 2), 0, ...kernel],
    stride,
    dilation,
    padding,
    groups,
  }
}

const withChannels = (d: Convolution): Convolution => ({
  ...d,
  w: d.w.map((e, i) => (i === 1 ? (d.x[1] ?? 1) / d.groups : e)),
})

const sizeOf = (s: readonly number[]): number => s.reduce((p, e) => p * e, 1)

/** The coordinates of a shape's elements, in order. */
function* points(shape: readonly number[]): Iterable<readonly number[]> {
  for (let i = 0; i < sizeOf(shape); i++) {
    let rest = i
    yield shape.map((_, d) => {
      const inner = sizeOf(shape.slice(d + 1))
      const at = Math.floor(rest / inner)
      rest %= inner
      return at
    })
  }
}

/** g[n, c, i] += ct[n, m, o] w[m, c, k] for i = o stride + k dilation - padding. */
function defined({ x, w, stride, dilation, padding, groups }: Convolution, weights: number[], ct: number[]): number[] {
  const [n = 1, channels = 1, ...extents] = x
  const [m = 1, perGroup = 1, ...kernel] = w
  const out = extents.map((e, i) => {
    const span = ((kernel[i] ?? 1) - 1) * (dilation[i] ?? 1) + 1
    return Math.floor((e + (padding[i]?.[0] ?? 0) + (padding[i]?.[1] ?? 0) - span) / (stride[i] ?? 1)) + 1
  })
  const g = new Array<number>(sizeOf(x)).fill(0)
  const flat = (shape: readonly number[], index: readonly number[]): number =>
    index.reduce((p, v, d) => p * (shape[d] ?? 1) + v, 0)
  for (const [b = 0, f = 0, ...o] of points([n, m, ...out]))
    for (const [ch = 0, ...k] of points([perGroup, ...kernel])) {
      const i = o.map((v, d) => v * (stride[d] ?? 1) + (k[d] ?? 0) * (dilation[d] ?? 1) - (padding[d]?.[0] ?? 0))
      if (i.some((v, d) => v < 0 || v >= (extents[d] ?? 0))) continue
      const place = flat(x, [b, Math.floor(f / (m / groups)) * (channels / groups) + ch, ...i])
      g[place] =
        (g[place] ?? 0) + (ct[flat([n, m, ...out], [b, f, ...o])] ?? 0) * (weights[flat(w, [f, ch, ...k])] ?? 0)
    }
  return g
}

test('200 drawn ones', () => {
  for (let seed = 0; seed < 200; seed++) {
    const drawn = withChannels(draw(seed))
    const graph = dataGradient(drawn)
    const inputs = inputsOf(graph)
    const [x, w, ct] = inputs.map((data) => numbersOf(data, 'f64'))
    const [g] = evaluate(graph, inputs)
    expect(x, `seed ${seed}`).toHaveLength(sizeOf(drawn.x))
    const got = g === undefined ? [] : numbersOf(g, 'f64')
    expect(got, `seed ${seed}: ${JSON.stringify(drawn)}`).toEqual(defined(drawn, w ?? [], ct ?? []))
  }
})

test('drawn ones compiled', { timeout: 120_000 }, () => {
  for (let seed = 200; seed < 260; seed++) {
    const graph = dataGradient(withChannels(draw(seed)), 'f32')
    check(graph, { target: at([wasmTarget, cudaTarget, webgpuTarget()], seed % 3) })
  }
})

test.each([0, 1, 2, 3, 4, 5])('derivatives of the second order, %i', (seed) => {
  const { x, w, ...options } = withChannels(draw(300 + seed))
  const inputs = [x, w].map((shape) => ({ shape, dtype: 'f64' as const }))
  checkProgram({ inputs, build: (data, weights) => c.conv(data, weights, options) }, 1, 2)
})

/** Multiply-adds of a graph's contractions. */
const products = (graph: Graph): number =>
  topologicalOrder(graph.outputs).reduce((n, node) => {
    if (node.op !== 'contract') return n
    const extents = new Map<string, number>()
    for (const [labels, x] of [
      [node.attrs.lhs, node.inputs[0]],
      [node.attrs.rhs, node.inputs[1]],
    ] as const)
      for (const [d, l] of [...labels].entries()) extents.set(l, x?.shape[d] ?? 1)
    return n + sizeOf([...extents.values()])
  }, 0)

describe('the work of one', () => {
  const square = { stride: [2, 2], dilation: [1, 1], groups: 1 }
  test.each<[string, Convolution, number]>([
    [
      '3 x 3',
      {
        ...square,
        x: [4, 32, 56, 56],
        w: [64, 32, 3, 3],
        padding: [
          [1, 1],
          [1, 1],
        ],
      },
      16 / 9,
    ],
    [
      'of odd extent',
      {
        ...square,
        x: [4, 32, 57, 55],
        w: [64, 32, 3, 3],
        padding: [
          [1, 1],
          [1, 1],
        ],
      },
      16 / 9,
    ],
    [
      '7 x 7',
      {
        ...square,
        x: [4, 3, 64, 64],
        w: [64, 3, 7, 7],
        padding: [
          [3, 3],
          [3, 3],
        ],
      },
      64 / 49,
    ],
    [
      '4 x 4, its windows side by side',
      {
        ...square,
        stride: [4, 4],
        x: [4, 16, 64, 64],
        w: [32, 16, 4, 4],
        padding: [
          [0, 0],
          [0, 0],
        ],
      },
      1,
    ],
    [
      'a patch of 2 x 2 x 2',
      {
        ...square,
        stride: [2, 2, 2],
        dilation: [1, 1, 1],
        x: [2, 8, 16, 16, 16],
        w: [16, 8, 2, 2, 2],
        padding: [
          [0, 0],
          [0, 0],
          [0, 0],
        ],
      },
      1,
    ],
  ])('%s: no zeros between the cotangents', (_, conv, share) => {
    const graph = dataGradient(conv, 'f32')
    const { x, w, ...options } = conv
    const forward = graphOf({
      inputs: [x, w].map((shape) => ({ shape, dtype: 'f32' as const })),
      build: (d, k) => c.conv(d, k, options),
    })
    // Whole phases reach a position further than the windows.
    expect(products(graph)).toBeLessThanOrEqual(1.08 * share * products(forward))
    for (const target of [cudaTarget, wasmTarget]) {
      const { program } = compileGraph(graph, { mode: 'fast', target, precision: 'tf32', verify: true })
      const kernels = program.steps.filter((s) => s.kind === 'kernel' && s.stage !== 'finishing')
      expect(kernels.length, target.name).toBeLessThanOrEqual(target === wasmTarget ? 1 : 2)
    }
  })
})
