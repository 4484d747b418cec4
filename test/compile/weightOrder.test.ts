/** Literal operands in the order that loops read, and the offsets that views of them have along axes. */
import { describe, expect, test } from 'vitest'
import { offsetsOf, viewsOf } from '../../src/compile/axisOffsets.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { orderWeights } from '../../src/compile/weightOrder.ts'
import * as c from '../../src/compose/index.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { printLoopSchedule } from '../../src/schedule/loop/print.ts'
import { factsOf, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { expectClose, inputsOf, trace } from './support.ts'

/** A literal of whole numbers, all different from their neighbours. */
const literal = (shape: readonly number[]): Node =>
  makeNode('constant', [], {
    data: Float32Array.from({ length: sizeOf(shape) }, (_, i) => ((i * 37) % 23) - 11),
    dtype: 'f32',
    shape,
  })

const transposed = (
  x: readonly number[],
  w: readonly number[],
  options: c.ConvTransposeOptions,
  build = (y: Node): Node => y,
): Graph => trace([{ shape: x }], ([p]) => build(c.convTranspose(p as Node, literal(w), options)))

const contractionOf = (g: Graph): NodeOf<'contract'> => {
  const found = nodesOf(g).find((n) => n.op === 'contract')
  if (found?.op !== 'contract') throw new Error('no contraction')
  return found
}

const scheduleOf = (g: Graph): string => {
  const { program } = compileGraph(g, { mode: 'fast', target: wasmTarget, verify: true })
  const [step] = program.steps
  if (step?.kind !== 'kernel' || program.steps.length !== 1) throw new Error('not one kernel')
  const { kernel } = step
  return printLoopSchedule(
    'k',
    scheduleKernel(
      kernel,
      factsOf(kernel, wasmTarget, () => false),
    ),
  ).join('\n')
}

describe('literal operands', () => {
  test('weights of interleaving phases are multiplied where they stand', () => {
    const g = transposed([1, 64, 9, 7], [64, 24, 4, 4], { stride: [2, 2], padding: 1 })
    const ordered = contractionOf(orderWeights(g, wasmTarget, 'fast'))
    const weights = ordered.inputs[1] as Node
    expect(weights.op).toBe('constant')
    // Phases, then what is summed, then output channels, which are columns.
    expect(weights.shape.at(-1)).toBe(24)
    expect(ordered.attrs.out).toContain(ordered.attrs.rhs.at(-1))
    expect(ordered.attrs.lhs).not.toContain(ordered.attrs.rhs.at(-1))
    expect(scheduleOf(g)).toMatch(/%\d+ from its tile, %\d+ from x1 in place/)
  })

  test('what lies side by side already, what others read and what grows stays', () => {
    const same = (g: Graph): void => expect(orderWeights(g, wasmTarget, 'fast')).toBe(g)
    same(transposed([1, 8, 9, 7], [8, 12, 2, 2], { stride: [2, 2] }))
    same(trace([{ shape: [1, 8, 9, 9] }], ([x]) => c.conv(x as Node, literal([12, 8, 3, 3]), { padding: 1 })))
    same(trace([{ shape: [5, 16] }], ([x]) => c.matmul(x as Node, c.permute(literal([12, 16]), [1, 0]))))
    const w = literal([64, 24, 4, 4])
    same(
      trace([{ shape: [1, 64, 9, 7] }], ([x]) => [
        c.convTranspose(x as Node, w, { stride: [2, 2], padding: 1 }),
        c.neg(w),
      ]),
    )
  })

  test('strict mode and machines whose products are no loops keep it', () => {
    const g = transposed([1, 64, 9, 7], [64, 24, 4, 4], { stride: [2, 2], padding: 1 })
    expect(orderWeights(g, wasmTarget, 'strict')).toBe(g)
    expect(orderWeights(g, cudaTarget, 'fast')).toBe(g)
  })

  test('a normalisation after it goes into the weights', () => {
    const scale = (y: Node): Node => c.mul(y, c.broadcastTo(c.reshape(literal([24]), [1, 24, 1, 1]), y.shape))
    const g = transposed([1, 64, 9, 7], [64, 24, 4, 4], { stride: [2, 2], padding: 1 }, scale)
    const { graph } = compileGraph(g, { mode: 'fast', target: wasmTarget })
    expect(nodesOf(graph).filter((n) => n.op === 'mul')).toEqual([])
  })

  test.each([
    [[1, 6, 5, 4], [6, 5, 4, 4], { stride: [2, 2], padding: 1 }],
    [[2, 6, 5, 7], [6, 3, 5, 5], { stride: [2, 2], padding: 2, outputPadding: 1 }],
    [[1, 8, 5, 4], [8, 3, 6, 4], { stride: [3, 2], padding: 1, groups: 2 }],
    [[1, 6, 9], [6, 5, 16], { stride: [8], padding: 4 }],
    [[1, 4, 3, 4, 5], [4, 3, 4, 4, 4], { stride: [2, 2, 2], padding: 1 }],
    [[1, 6, 5, 4], [6, 5, 3, 3], { stride: [2, 2], dilation: [2, 2] }],
    [[1, 6, 5, 4], [6, 5, 3, 3], { stride: [4, 4] }],
  ] as const)("%j, %j, %j: results are the reference interpreter's", (x, w, options) => {
    const g = transposed(x, w, options as c.ConvTransposeOptions)
    const inputs = inputsOf(g)
    const want = evaluateGraph(g, inputs, { rounding: 'dtype' }).map(toHostArray)
    const got = evaluateGraph(orderWeights(g, wasmTarget, 'fast'), inputs, { rounding: 'dtype' }).map(toHostArray)
    expectClose(got, want, g, 'ordered')
  })
})

describe('offsets along axes', () => {
  const numbers = (shape: readonly number[]): Node =>
    makeNode('constant', [], { data: Float32Array.from({ length: sizeOf(shape) }, (_, i) => i), dtype: 'f32', shape })

  const cases: readonly [string, (x: Node) => Node][] = [
    ['flip, cut', (x) => makeNode('slice', [c.flip(x, [1])], { start: [1, 0, 2], limit: [4, 6, 8], step: [2, 1, 3] })],
    ['permute, join', (x) => c.reshape(c.permute(x, [2, 0, 1]), [8, 24])],
    ['take apart', (x) => c.reshape(x, [2, 2, 3, 2, 2, 4])],
    ['join and take apart elsewhere', (x) => c.reshape(x, [8, 3, 8])],
    [
      'repeat, roll',
      (x) =>
        c.pad(c.reshape(c.broadcastTo(c.reshape(x, [4, 6, 1, 8]), [4, 6, 2, 8]), [4, 6, 16]), [
          [0, 0],
          [0, 0],
          [-3, -5],
        ]),
    ],
    ['pad, spread', (x) => makeNode('pad', [x], { low: [1, 0, 2], high: [0, 1, 0], interior: [0, 2, 1], value: 7 })],
    ['windows', (x) => makeNode('window', [x], { axis: 2, size: 3, stride: 2, dilation: 1 })],
  ]
  test.each(cases)('%s', (_, build) => {
    withContext(() => {
      const view = build(numbers([4, 6, 8]))
      const found = offsetsOf(view)
      if (found === undefined) throw new Error('no offsets')
      const { axes, other } = found
      const got = axes.reduce<number[]>((all, own) => all.flatMap((a) => own.map((b) => a + b)), [0])
      const want = [...(evaluateConstant(view) as Float32Array)]
      expect(got.map((x) => (Number.isNaN(x) ? other : x))).toEqual(want)
    })
  })

  test('not where an index of one axis depends on others, nor where one element stands for several places', () => {
    withContext(() => {
      const x = numbers([4, 6, 8])
      const cut = makeNode('slice', [x], { start: [0, 0, 0], limit: [4, 6, 7], step: [1, 1, 1] })
      expect(offsetsOf(c.reshape(cut, [4, 7, 6]))).toBeUndefined()
      const twice = c.pad(makeNode('pad', [x], { low: [1, 0, 0], high: [0, 0, 0], interior: [0, 0, 0], value: 1 }), [
        [1, 0],
        [0, 0],
        [0, 0],
      ])
      expect(offsetsOf(twice)).toBeUndefined()
      expect(viewsOf(c.flip(c.add(x, param(0, [4, 6, 8], 'f32')), [1])).source.op).toBe('add')
      expect(offsetsOf(makeNode('broadcast', [numbers([1])], { shape: [2 ** 31], dims: [0] }))).toBeUndefined()
    })
  })
})
