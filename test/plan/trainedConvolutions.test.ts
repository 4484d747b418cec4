/** Steps of training convolutional networks on machines of threads: what is computed again, in which order it is stored, and what no product computes on the way. */
import { describe, expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { inBackward } from '../../src/diagnostics/origin.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { gridSize, type KernelPart } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { phasesOf } from '../../src/plan/remat/phases.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { at, check, trace } from '../compile/support.ts'

const normal = (x: Node, p: readonly Node[], i: number): Node =>
  c.batchNormTraining(x, { scale: at(p, i), bias: at(p, i + 1) }).output

/** A pointwise convolution and a depthwise one, each normalised by its batch and cut off below 0 and above 6. */
function blockOf([batch = 1, channels = 1, ...space]: readonly number[], wide: number): Graph {
  const vector = { shape: [wide] }
  const inputs = [
    { shape: [batch, channels, ...space] },
    { shape: [wide, channels, 1, 1] },
    vector,
    vector,
    { shape: [wide, 1, 3, 3] },
    vector,
    vector,
  ]
  const forward = trace(inputs, (p) => {
    const first = c.relu6(normal(c.conv(at(p, 0), at(p, 1)), p, 2))
    const second = c.relu6(normal(c.conv(first, at(p, 4), { padding: 1, groups: wide }), p, 5))
    return c.mean(second)
  })
  return vjpGraph(forward, [1, 2, 3, 4, 5, 6])
}

const compile = (graph: Graph): Compiled =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32', verify: true })

const partsOf = ({ program }: Compiled): KernelPart[] =>
  program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts : []))

describe('an inverted bottleneck', () => {
  const shape = [32, 24, 56, 56]
  const wide = 144

  test('keeps its convolutions, and little of what follows from them elementwise', () => {
    const { passes } = compile(blockOf(shape, wide)).report
    const whole = 4 * 32 * wide * 56 * 56
    expect(passes?.savedBytes).toBeLessThan(4.5 * whole)
  })

  test.each([
    [2, 3, 7, 9],
    [1, 4, 8, 5],
  ])('gives what the reference gives: %i x %i x %i x %i', (...small) => {
    check(blockOf(small, 6), { target: cudaTarget })
  })
})

test('a number that both passes name, the backward one first, belongs to neither', () => {
  const graph = trace([{ shape: [4] }, { shape: [4] }], (p) => {
    const inBoth = inBackward(() => c.full([4], 0.5, 'f32'))
    const y = c.mul(at(p, 0), inBoth)
    return [y, inBackward(() => c.mul(y, at(p, 1)))]
  })
  const phases = phasesOf(graph)
  expect(phases?.backward).toEqual(new Set([at(graph.outputs, 1)]))
  expect(phases?.early.has(at(graph.outputs, 0))).toBe(true)
})

test.each([
  [[32, 144, 56, 56], 3],
  [[16, 480, 14, 14], 5],
  [[16, 672, 7, 7], 5],
])('depthwise windows of %o stand in memory before they are normalised by the batch, taps %i', (shape, taps) => {
  const vector = { shape: [shape[1] ?? 1] }
  const graph = trace([{ shape }, { shape: [shape[1] ?? 1, 1, taps, taps] }, vector, vector], (p) =>
    normal(c.conv(at(p, 0), at(p, 1), { padding: taps >> 1, groups: shape[1] ?? 1 }), p, 2),
  )
  const parts = partsOf(compile(graph)).map((p) => [...allStmts(p.body)])
  const windows = parts.filter((p) => p.some((s) => s.kind === 'let' && s.op.kind === 'dot'))
  expect(windows.length).toBeGreaterThan(0)
  for (const p of windows) expect(p.some((s) => s.kind === 'let' && s.op.kind === 'reduce')).toBe(false)
})

test.each([
  [64, 64, 112, 112],
  [16, 3, 57, 61],
  [8, 96, 28, 28],
])('the gradient of a pooling by 2, whose phases are a short axis, has programs of many elements: %o', (...shape) => {
  const graph = vjpGraph(
    trace([{ shape }], (p) => c.sum(c.tanh(c.maxPool(at(p, 0), [3, 3], { stride: 2, padding: 1 })))),
    [0],
  )
  const elements = shape.reduce((n, d) => n * d, 1)
  for (const p of partsOf(compile(graph))) expect(gridSize(p)).toBeLessThanOrEqual(Math.ceil(elements / 64))
})

describe('partial sectors', () => {
  /** A batch normalisation of data in one order, with its result in another. */
  const turned = (shape: readonly number[]): Graph =>
    trace([{ shape: [...shape] }, { shape: [shape[1] ?? 1] }, { shape: [shape[1] ?? 1] }], (p) => {
      const y = normal(at(p, 0), p, 1)
      return [y, c.transpose(y, [0, 2, 3, 1])]
    })

  test('programs that go down a channel store nothing between channels', () => {
    for (const part of partsOf(compile(turned([64, 128, 56, 56])))) {
      const folds = [...allStmts(part.body)].some((s) => s.kind === 'let' && s.op.kind === 'reduce')
      if (!folds) continue
      const channel = part.grid.find((g) => part.axes.find((a) => a.name === g.axis)?.extent === 128)
      const stores = [...allStmts(part.body)].filter((s) => s.kind === 'store')
      // Only statistics have channels for neighbours.
      for (const s of stores)
        if (
          s.kind === 'store' &&
          channel?.block === 1 &&
          ix.strideOf(at(s.index, s.index.length - 1), channel.axis) === 1
        )
          expect(s.index.length).toBe(1)
    }
  })
})

test('a pooling that is scattered back is no operand that a product computes', () => {
  const graph = vjpGraph(
    trace([{ shape: [16, 32, 27, 28] }, { shape: [128, 32, 1, 1] }], (p) =>
      c.maxPool(c.relu(c.conv(at(p, 0), at(p, 1))), [3, 3], { stride: 2 }),
    ),
    [1],
  )
  const { report } = compile(graph)
  expect(report.refused.map((r) => r.code)).toContain('too-much-code')
})
