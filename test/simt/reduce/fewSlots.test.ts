/** What a block of threads shares has room in its memory, whatever stands beside a product: totals come behind tiles, slots of exchanges are used in rounds. */
import { describe, expect, test } from 'vitest'
import { candidateSources } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { at, expectClose, inputsOf, trace } from '../../compile/support.ts'
import { atNight, some } from '../../support/nightly.ts'
import { openDevice } from '../dialects/wgsl.ts'
import { executeWgsl } from '../programs/programs.ts'

const kernelsOf = ({ steps }: Program) => steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

test('rows that are normalised and scaled, beside split tiles and totals of a product, in 227 KB', () => {
  const shapes = [[2048, 768], [768], [768], [768, 3072], [3072]]
  const graph = trace(
    shapes.map((shape) => ({ shape })),
    (p) => c.gelu(c.add(c.matmul(c.add(c.mul(c.layerNorm(at(p, 0)), at(p, 1)), at(p, 2)), at(p, 3)), at(p, 4))),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32x3' })
  const kernels = kernelsOf(program)
  for (const k of kernels)
    for (const { source } of candidateSources(k, cudaTarget.simt)) expect(source.source).toContain(k.name)
})

test('chains whose shared axis is no multiple of a slice, in 16 KB', () => {
  for (const keys of some([27, 30, 45, 53, 100], 3)) {
    const graph = trace([{ shape: [12, 53, 80] }, { shape: [12, keys, 80] }, { shape: [12, keys, 80] }], (p) =>
      c.matmul(c.softmax(c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1])), -1), at(p, 2)),
    )
    const target = webgpuTarget()
    const { program } = compileGraph(graph, { mode: 'fast', target })
    for (const k of kernelsOf(program))
      for (const { source } of candidateSources(k, target.simt)) expect(source.source).toContain(k.name)
  }
})

test('pooling behind a convolution, whose windows several threads share, in 16 KB', () => {
  const target = webgpuTarget()
  for (const [channels, size] of some(
    [
      [256, 56],
      [64, 112],
      [40, 30],
    ] as const,
    2,
  )) {
    const graph = trace(
      [{ shape: [4, channels, size, size] }, { shape: [channels, channels, 3, 3] }, { shape: [channels, 1, 1] }],
      (p) => c.maxPool(c.relu(c.add(c.conv(at(p, 0), at(p, 1), { padding: 1 }), at(p, 2))), [2, 2]),
    )
    const { program } = compileGraph(graph, { mode: 'fast', target })
    for (const k of kernelsOf(program))
      for (const { source } of candidateSources(k, target.simt)) expect(source.source).toContain(k.name)
  }
})

const rows: readonly (readonly [string, (y: Node) => Node, number, number, number])[] = [
  ['softmax', (y) => c.softmax(y, -1), 200, 8, 100],
  ['softmax of two kinds of folds', (y) => c.softmax(y, -1), 1000, 16, 1000],
  ['greatest', (y) => c.reduceMax(y, [1]), 100, 16, 2000],
  ['sum', (y) => c.sum(y, [1]), 520, 16, 1000],
]

describe.each(rows)('%s of a product, on a device of 8 KB', (name, fold, m, k, n) => {
  const target = webgpuTarget({ storageBuffers: 16, sharedBytes: 8192 })
  const graph = trace([{ shape: [m, k] }, { shape: [k, n] }, { shape: [n] }], (p) =>
    fold(c.add(c.matmul(c.relu(at(p, 0)), at(p, 1)), at(p, 2))),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })

  test('threads exchange a part of their registers at a time', () => {
    const rounds = kernelsOf(program).flatMap((kernel) =>
      scheduleThreads(kernel, target.simt).schedule.parts.flatMap((p) =>
        p.body.entries.flatMap((e) => (e.kind === 'close' ? e.exchange.inBlock.map((b) => b.rounds) : [])),
      ),
    )
    expect(Math.max(...rounds)).toBeGreaterThan(1)
  })

  // By day of two folds.
  const results = name === 'softmax' || name === 'sum' ? test : atNight
  results('results', { timeout: 60_000 }, async (context) => {
    const device = await openDevice()
    if (typeof device === 'string') return context.skip(device)
    const inputs = inputsOf(graph)
    const got = await executeWgsl(device, program, inputs)
    expectClose(got, evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), graph, 'WebGPU')
  })
})
