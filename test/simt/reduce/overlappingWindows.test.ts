/** Windows that overlap: a thread goes along them and reads once what they share; results and plans, at odd sizes, strides, dtypes and directions. */
import { describe, expect, test } from 'vitest'
import * as ix from '../../../src/affine/expr.ts'
import { slideOf } from '../../../src/affine/slide.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { SimtTarget } from '../../../src/target/machine.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { at, expectClose, inputsOf, trace } from '../../compile/support.ts'
import { atNight, nightly, turn } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice } from '../dialects/wgsl.ts'
import { expectEmulated } from '../matmul/emulated.ts'
import { executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly title: string
  readonly shapes: readonly (readonly number[])[]
  readonly dtype?: DType
  readonly build: (p: readonly Node[]) => Node
  /** Whether threads go along windows: they share nothing in the others. */
  readonly slides: boolean
}

const depthwise =
  (options: c.ConvOptions) =>
  (p: readonly Node[]): Node =>
    c.relu(c.conv(at(p, 0), at(p, 1), { ...options, groups: at(p, 0).shape[1] ?? 1 }))

const cases: readonly Case[] = [
  {
    title: 'depthwise 7 x 7',
    shapes: [
      [2, 6, 19, 23],
      [6, 1, 7, 7],
    ],
    build: depthwise({ padding: 3 }),
    slides: true,
  },
  {
    title: 'depthwise 3 x 3, no padding',
    shapes: [
      [2, 5, 21, 35],
      [5, 1, 3, 3],
    ],
    build: depthwise({}),
    slides: true,
  },
  {
    title: 'stride 2',
    shapes: [
      [2, 6, 31, 33],
      [6, 1, 5, 5],
    ],
    build: depthwise({ stride: 2, padding: 2 }),
    slides: true,
  },
  {
    title: 'stride 2 of 3 x 3 in f16',
    shapes: [
      [1, 8, 40, 17],
      [8, 1, 3, 3],
    ],
    dtype: 'f16',
    build: depthwise({ stride: 2, padding: 1 }),
    slides: true,
  },
  {
    title: 'bf16',
    shapes: [
      [1, 8, 20, 40],
      [8, 1, 5, 3],
    ],
    dtype: 'bf16',
    build: depthwise({ padding: 2 }),
    slides: true,
  },
  {
    title: 'dilated',
    shapes: [
      [1, 4, 20, 40],
      [4, 1, 3, 3],
    ],
    build: depthwise({ dilation: 2, padding: 2 }),
    slides: false,
  },
  {
    title: 'three axes',
    shapes: [
      [1, 4, 9, 10, 33],
      [4, 1, 3, 3, 3],
    ],
    build: depthwise({ padding: 1 }),
    slides: true,
  },
  {
    title: 'windows that meet at their edges',
    shapes: [[2, 4, 32, 33]],
    build: (p) => c.maxPool(at(p, 0), [2, 2], { stride: 2 }),
    slides: false,
  },
  {
    title: 'greatest of 3 x 3',
    shapes: [[2, 4, 32, 33]],
    build: (p) => c.maxPool(at(p, 0), [3, 3], { stride: 2, padding: 1 }),
    slides: true,
  },
  {
    title: 'greatest of functions',
    shapes: [[2, 4, 32, 40]],
    build: (p) => c.maxPool(c.tanh(at(p, 0)), [3, 3], { stride: 1 }),
    slides: true,
  },
  {
    title: 'means',
    shapes: [[2, 4, 40, 37]],
    build: (p) => c.averagePool(at(p, 0), [5, 5], { stride: 1, padding: 2 }),
    slides: true,
  },
  {
    title: 'greatest integers',
    shapes: [[2, 4, 32, 40]],
    dtype: 'i32',
    build: (p) => c.maxPool(at(p, 0), [3, 3], { stride: 1 }),
    slides: true,
  },
]

const graphOf = ({ shapes, dtype = 'f32', build }: Case): Graph =>
  trace(
    shapes.map((shape) => ({ shape, dtype })),
    build,
  )

const webgpu = webgpuTarget({ storageBuffers: 16 })

/** Whether a nest of a program's kernels goes along windows. */
function slides(graph: Graph, target: SimtTarget): boolean {
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
  return program.steps.some(
    (s) =>
      s.kind === 'kernel' &&
      scheduleThreads(s.kernel, target.simt).schedule.parts.some((p) =>
        p.body.entries.some((e) => e.kind === 'nest' && e.sliding !== undefined),
      ),
  )
}

describe.each(cases)('$title', (given) => {
  test('threads go along windows where they share something', () => {
    for (const target of [cudaTarget, webgpu]) expect(slides(graphOf(given), target)).toBe(given.slides)
  })

  const place = cases.indexOf(given)
  test.skipIf(!hasCompiler()).each(nightly || place % 2 === 0 ? turn(['fast', 'strict'] as const, place >> 1) : [])(
    'CUDA, %s',
    { timeout: 60_000 },
    async (mode) => {
      const graph = graphOf(given)
      const { program } = compileGraph(graph, { mode, target: cudaTarget, precision: 'ieee', verify: true })
      await expectEmulated(graph, program)
    },
  )

  const onWebGpu = place % 6 === 0 ? test : atNight
  onWebGpu('WebGPU', { timeout: 60_000 }, async (context) => {
    const device = await openDevice()
    if (typeof device === 'string') return context.skip(device)
    const graph = graphOf(given)
    const { program } = compileGraph(graph, { mode: 'fast', target: webgpu, verify: true })
    const inputs = inputsOf(graph)
    const got = await executeWgsl(device, program, inputs)
    expectClose(got, evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), graph, 'WebGPU')
  })
})

describe('positions', () => {
  const k = ix.axis('k', 20)
  const m = ix.axis('m', 7)
  const slide = (...e: ix.Expr[]) => slideOf(e, 'k', 'm')

  test('a sum of both axes is a slide, by steps and in both directions', () => {
    expect(slide(ix.add(k, m))).toEqual({ step: 1, way: 1 })
    expect(slide(ix.add(ix.mul(k, 2), m), ix.axis('l', 9))).toEqual({ step: 2, way: 1 })
    expect(slide(ix.add(k, ix.mul(m, -1)))).toEqual({ step: 1, way: -1 })
    expect(slide(ix.div(ix.add(k, m), 2), ix.add(k, m))).toEqual({ step: 1, way: 1 })
  })

  test('other dependences are none', () => {
    expect(slide(k)).toBeUndefined()
    expect(slide(ix.add(k, ix.mul(m, 2)))).toBeUndefined()
    expect(slide(ix.add(k, m), m)).toBeUndefined()
    expect(slide(ix.add(k, m), ix.add(ix.mul(k, 2), m))).toBeUndefined()
    expect(slide(ix.add(ix.div(k, 2), m))).toBeUndefined()
  })
})
