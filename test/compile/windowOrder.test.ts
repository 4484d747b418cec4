/** Convolutions' operands with channels last: stored where that pays, made by the kernel before where there is one. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from './support.ts'

const kernelsOf = (graph: Graph, target: Machine = cudaTarget, mode: 'fast' | 'strict' = 'fast'): Kernel[] =>
  compileGraph(graph, { mode, target, precision: 'tf32', verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' && s.stage === 'main' ? [s.kernel] : [],
  )

const dots = (k: Kernel): number => JSON.stringify(k.parts).split('"kind":"dot"').length - 1

const convolution = (dtype: DType, x: readonly number[], w: readonly number[]): Graph =>
  trace(
    [
      { shape: x, dtype },
      { shape: w, dtype },
    ],
    (p) => c.conv(at(p, 0), at(p, 1), { padding: 1 }),
  )

describe('channels last', () => {
  test('both operands are put in order by one launch', () => {
    const kernels = kernelsOf(convolution('bf16', [64, 256, 56, 56], [256, 256, 3, 3]))
    expect(kernels.map((k) => [k.parts.length, dots(k)])).toEqual([
      [2, 0],
      [1, 1],
    ])
    const text = JSON.stringify(kernels[1])
    expect(text).toContain('[64,56,56,256]')
    expect(text).toContain('[256,3,3,256]')
  })

  test('between two convolutions the first stores its result as the second reads it', () => {
    const graph = trace(
      [
        { shape: [64, 256, 56, 56], dtype: 'bf16' },
        { shape: [256, 256, 3, 3], dtype: 'bf16' },
        { shape: [256, 256, 3, 3], dtype: 'bf16' },
      ],
      (p) => c.conv(c.relu(c.conv(at(p, 0), at(p, 1), { padding: 1 })), at(p, 2), { padding: 1 }),
    )
    expect(kernelsOf(graph).map(dots)).toEqual([0, 1, 1])
  })

  test('channels of a few are gathered where they are, three are padded to one copy', () => {
    expect(kernelsOf(convolution('bf16', [64, 1, 224, 224], [64, 1, 7, 7])).map(dots)).toEqual([1])
    expect(kernelsOf(convolution('f32', [32, 8, 4096], [128, 8, 3])).map(dots)).toEqual([1])
    const kernels = kernelsOf(convolution('bf16', [64, 3, 224, 224], [64, 3, 7, 7]))
    expect(kernels.map(dots)).toEqual([0, 1])
    expect(JSON.stringify(kernels[1])).toContain('[64,224,224,8]')
    expect(JSON.stringify(kernelsOf(convolution('f32', [64, 3, 224, 224], [64, 3, 7, 7])))).toContain('[64,224,224,4]')
  })

  test('gradients of weights read data and adjoints with channels last, whatever the number of images', () => {
    for (const images of [2, 4, 64]) {
      const forward = trace(
        [
          { shape: [images, 64, 28, 28], dtype: 'bf16' },
          { shape: [96, 64, 3, 3], dtype: 'bf16' },
        ],
        (p) => c.mean(c.tanh(c.conv(c.tanh(at(p, 0)), at(p, 1), { padding: 1 }))),
      )
      const text = kernelsOf(vjpGraph(forward, [1]))
        .map((k) => printKernel(k))
        .join('\n')
      // Along the columns of the product: an output channel of the weights is one of the adjoint.
      expect(text).toMatch(/load x\d+\[.*, \w+ % 64\]/)
    }
  })

  test('gradients of weights over enlarged data have its channels innermost', () => {
    const forward = trace(
      [
        { shape: [1, 64, 32, 32], dtype: 'bf16' },
        { shape: [64, 64, 3, 3], dtype: 'bf16' },
      ],
      (p) => {
        const larger = c.reshape(
          c.broadcastTo(c.reshape(at(p, 0), [1, 64, 32, 1, 32, 1]), [1, 64, 32, 2, 32, 2]),
          [1, 64, 64, 64],
        )
        return c.mean(c.tanh(c.conv(larger, at(p, 1), { padding: 1 })))
      },
    )
    const texts = kernelsOf(vjpGraph(forward, [1])).map((k) => printKernel(k))
    // Columns of the product are taps of channels, not channels of taps.
    expect(texts.join('\n')).toMatch(/load x\d+\[.*\/2 .*, \w+ % 64\]/)
    expect(texts.join('\n')).not.toMatch(/load x\d+\[.*\w+\/9\]/)
  })

  test('one copy serves all products that read a value', () => {
    const forward = trace(
      [
        { shape: [16, 64, 28, 28], dtype: 'bf16' },
        { shape: [64, 64, 3, 3], dtype: 'bf16' },
        { shape: [64, 64, 3, 3], dtype: 'bf16' },
      ],
      (p) => {
        const y = c.tanh(c.conv(at(p, 0), at(p, 1), { padding: 1 }))
        return c.mean(c.cast(c.tanh(c.conv(y, at(p, 2), { padding: 1 })), 'f32'))
      },
    )
    const parts = kernelsOf(vjpGraph(forward, [1, 2])).flatMap((k) => printKernel(k).split('part {'))
    for (const part of parts) {
      const stores = [...part.matchAll(/store \w+(\[.*\] = %\d+)/g)].map(([, to]) => to)
      expect(new Set(stores).size).toBe(stores.length)
    }
  })

  test('images whose lines end inside a copy have their channels last in front of products of 1 x 1', () => {
    const last = (size: number): string => {
      const graph = trace(
        [
          { shape: [16, 256, size, size], dtype: 'bf16' },
          { shape: [256, 256, 1, 1], dtype: 'bf16' },
          { shape: [512, 256, 1, 1], dtype: 'bf16' },
        ],
        (p) => c.conv(c.relu(c.conv(at(p, 0), at(p, 1))), at(p, 2)),
      )
      return kernelsOf(graph)
        .slice(-1)
        .map((k) => printKernel(k))
        .join()
    }
    const ofRows = /load x0\[256\*\w+ \+ \w+\]/
    expect(last(7)).toMatch(ofRows)
    expect(last(8)).not.toMatch(ofRows)
  })

  test('sums of residual blocks stand in one order', () => {
    const blocks = [0, 1, 2, 3]
    const graph = trace(
      [
        { shape: [64, 1024, 14, 14], dtype: 'bf16' },
        ...blocks.flatMap(() => [
          { shape: [256, 1024, 1, 1], dtype: 'bf16' as const },
          { shape: [1024, 256, 1, 1], dtype: 'bf16' as const },
        ]),
      ],
      ([x, ...w]) =>
        blocks.reduce<Node>((y, i) => {
          const inner = c.relu(c.conv(y, at(w, 2 * i)))
          return c.relu(c.add(y, c.conv(inner, at(w, 2 * i + 1))))
        }, x as Node),
    )
    const products = kernelsOf(graph).filter((k) => dots(k) === 1)
    const stored = products.map((k) => k.params.filter((p) => p.access === 'write').length)
    // The last sum is the program's result, which has the user's order, and so has what it adds to.
    expect(stored).toEqual([1, 1, 1, 1, 1, 2, 1, 1])
  })

  test('nothing is put in order in strict mode, nor where no matrix unit reads it', () => {
    const graph = convolution('f32', [8, 64, 28, 28], [64, 64, 3, 3])
    expect(kernelsOf(graph, cudaTarget, 'strict').length).toBe(1)
    expect(kernelsOf(graph, wasmTarget).length).toBe(1)
  })
})

test('gradients of weights over few positions are stored as they are multiplied, and turned by a kernel of their own', () => {
  const shapes = [
    { shape: [2, 512, 7, 7], dtype: 'bf16' as const },
    { shape: [512, 512, 3, 3], dtype: 'bf16' as const },
  ]
  const forward = trace(shapes, (p) => c.relu(c.conv(c.relu(at(p, 0)), at(p, 1), { padding: 1 })))
  const graph = vjpGraph(forward, [1])
  const strideOf = (target: Machine): string[] =>
    kernelsOf(graph, target).flatMap((k) => (dots(k) > 0 ? (printKernel(k).match(/store y\d+\[.*/g) ?? []) : []))
  const { storeSeconds: _, ...dotBlock } = cudaTarget.dotBlock
  // Channels of the data are the columns, which the weights have in front of the taps.
  expect(strideOf(cudaTarget).join()).not.toMatch(/% 512, /)
  expect(strideOf({ ...cudaTarget, dotBlock }).join()).toMatch(/% 512, /)
})
