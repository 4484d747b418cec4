/** Operands of products that are computed on their way to a matrix unit: stored first where filling tiles takes longer, and gathered by the order of their elements in memory. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { SimtTarget } from '../../src/target/machine.ts'
import { at, trace } from '../compile/support.ts'

type Precision = 'tf32' | 'tf32x3'

const kindsOf = (
  shapes: readonly (readonly number[])[],
  build: (p: readonly Node[]) => Node,
  precision: Precision,
  target: SimtTarget = cudaTarget,
): string[] => {
  const graph = trace(
    shapes.map((shape) => ({ shape })),
    build,
  )
  return compileGraph(graph, { mode: 'fast', target, precision }).report.kernels.map((k) => k.kind)
}

const { dotBlock } = cudaTarget
const filledFreely: SimtTarget = {
  ...cudaTarget,
  dotBlock: { ...dotBlock, fillSeconds: { computed: 0, load: 0, factorLoad: 0, factorFunction: 0 } },
}

/** Pieces of [8, channels / pieces, 3136] joined, scaled and shifted by channel, times weights of 128 rows. */
const dense = (channels: number, pieces: number): readonly [number[][], (p: readonly Node[]) => Node] => [
  [
    [128, channels],
    [channels, 1],
    [channels, 1],
    ...Array.from({ length: pieces }, () => [8, channels / pieces, 3136]),
  ],
  ([w, scale, shift, ...xs]) =>
    c.matmul(w as Node, c.relu(c.add(c.mul(c.concat(xs, 1), scale as Node), shift as Node))),
]

describe('an operand of many pieces', () => {
  test('is stored', () => {
    expect(kindsOf(...dense(256, 8), 'tf32')).toEqual(['elementwise', 'matrix'])
    expect(kindsOf(...dense(240, 5), 'tf32')).toEqual(['elementwise', 'matrix'])
  })
  test('is no value of its own where filling costs nothing, or little', () => {
    expect(kindsOf(...dense(256, 8), 'tf32', filledFreely)).toEqual(['matrix'])
    expect(kindsOf(...dense(64, 1), 'tf32')).toEqual(['matrix'])
  })
})

/** Rows that are scaled and shifted, times a matrix: filled once for each block of columns. */
const rows = (m: number, k: number, n: number): readonly [number[][], (p: readonly Node[]) => Node] => [
  [[m, k], [k], [k], [k, n]],
  (p) => c.matmul(c.add(c.mul(at(p, 0), at(p, 1)), at(p, 2)), at(p, 3)),
]

test('rows that many blocks of columns fill are stored, those of few blocks are not', () => {
  expect(kindsOf(...rows(3136, 384, 1536), 'tf32x3')).toEqual(['elementwise', 'matrix'])
  expect(kindsOf(...rows(1024, 2048, 4096), 'tf32x3')).toEqual(['elementwise', 'matrix'])
  expect(kindsOf(...rows(8192, 512, 128), 'tf32x3')).toEqual(['matrix'])
  expect(kindsOf(...rows(25088, 384, 96), 'tf32x3')).toEqual(['matrix'])
})

test('windows over data with channels last go along the channels, though weights have them apart', () => {
  const graph = trace([{ shape: [8, 28, 28, 192] }, { shape: [384, 192, 2, 2] }], (p) =>
    c.conv(c.permute(at(p, 0), [0, 3, 1, 2]), at(p, 1), { stride: 2 }),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32' })
  const text = program.steps.map((s) => (s.kind === 'kernel' ? printKernel(s.kernel) : '')).join('\n')
  // The innermost coordinate of the data is that of the depth by itself.
  expect(text).toMatch(/load x0\[.*, \(?\w+_inner( \+ [^\]]*\))? % 192\]/)
})

test('a chain of few shared indices has the rate of blocks that have as few', () => {
  const shapes = [
    [200704, 32],
    [32, 16],
    [16, 96],
  ]
  const build = (p: readonly Node[]): Node => c.matmul(c.silu(c.matmul(at(p, 0), at(p, 1))), at(p, 2))
  expect(kindsOf(shapes, build, 'tf32')).toEqual(['matrix', 'matrix'])
  const vectors = cudaTarget.vectorChains
  const like = { ...vectors, blocks: vectors?.blocks.map((b) => ({ ...b, rate: 6e13, sliced: 6e13 })) ?? [] }
  expect(kindsOf(shapes, build, 'tf32', { ...cudaTarget, vectorChains: like } as SimtTarget)).toEqual(['chain'])
})

/** Attention of heads of 64 in bf16 whose keys and values are shifted: once for each block of queries, were they shifted in its kernel. */
const shifted = (positions: number): readonly [number[][], (p: readonly Node[]) => Node] => [
  [[8, positions, 64], [8, positions, 64], [8, positions, 64], [64], [64]],
  (p) => {
    const scores = c.matmul(at(p, 0), c.permute(c.add(at(p, 1), at(p, 3)), [0, 2, 1]))
    return c.matmul(c.softmax(scores, -1), c.add(at(p, 2), at(p, 4)))
  },
]

test('operands that chains compute for many blocks of rows are stored, those of few are not', () => {
  const loadsOf = (positions: number, target: SimtTarget): number => {
    const [shapes, build] = shifted(positions)
    const graph = trace(
      shapes.map((shape) => ({ shape, dtype: 'bf16' })),
      build,
    )
    const { program, report } = compileGraph(graph, { mode: 'fast', target })
    const chain = program.steps.find((_, i) => report.kernels[i]?.kind === 'chain')
    return chain?.kind === 'kernel' ? chain.kernel.params.filter((p) => p.access === 'read').length : 0
  }
  expect(loadsOf(4096, cudaTarget)).toBe(3)
  expect(loadsOf(4096, filledFreely)).toBe(5)
  expect(loadsOf(64, cudaTarget)).toBe(5)
})

test('a window in front of a normalisation of its rows is stored: threads beside folds of rows do not slide along it', () => {
  const graph = trace([{ shape: [3, 192, 24, 32] }, { shape: [192, 1, 7, 7] }], (p) =>
    c.layerNorm(c.permute(c.conv(at(p, 0), at(p, 1), { padding: 3, groups: 192 }), [0, 2, 3, 1]), { axes: [3] }),
  )
  const { report } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  expect(report.kernels.length).toBeGreaterThan(1)
})
