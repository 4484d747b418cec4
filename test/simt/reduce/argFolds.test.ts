/** Where the greatest and the least are: ties, NaN and infinities, along rows, columns and several axes, in walks from either end. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { at, expectClose, trace } from '../../compile/support.ts'
import { atNight, nightly, some } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice } from '../dialects/wgsl.ts'
import { expectEmulated } from '../matmul/emulated.ts'
import { executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly title: string
  readonly shape: readonly number[]
  readonly dtype?: DType
  readonly build: (x: Node) => Node
}

const cases: readonly Case[] = [
  { title: 'down columns', shape: [301, 77], build: (x) => c.argmax(x, 0) },
  { title: 'along rows', shape: [9, 5003], build: (x) => c.argmin(x, 1) },
  { title: 'along short rows', shape: [200, 37], build: (x) => c.argmax(x, 1) },
  { title: 'along an axis between', shape: [3, 130, 41], build: (x) => c.argmax(x, 1) },
  { title: 'of a whole tensor', shape: [37, 61], build: (x) => c.argmin(c.reshape(x, [-1]), 0) },
  { title: 'of integers', shape: [5, 900, 33], dtype: 'i32', build: (x) => c.argmax(x, 1) },
  { title: 'in bf16', shape: [4, 2050], dtype: 'bf16', build: (x) => c.argmax(x, 1) },
  {
    title: 'behind a fold of the same rows',
    shape: [3, 70000],
    build: (x) => c.argmax(c.sub(x, c.mean(x, [1], true)), 1),
  },
]

const graphOf = ({ shape, dtype = 'f32', build }: Case): Graph => trace([{ shape, dtype }], (p) => build(at(p, 0)))

/** Few different numbers, so that ties are many; of floats, NaN in some of the last rows and infinities. */
function inputOf({ shape, dtype = 'f32' }: Case, seed: number): HostArray {
  const out = hostArray(dtype, sizeOf(shape))
  let s = seed
  for (let i = 0; i < out.length; i++) {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    const n = s >>> 24
    const special =
      dtype === 'i32' ? 3 : n > 253 && i > out.length * 0.9 ? Number.NaN : n % 2 === 0 ? Number.NEGATIVE_INFINITY : 1e30
    writeElement(out, dtype, i, n > 250 ? special : n % 7)
  }
  return out
}

const targets = { cuda: cudaTarget, webgpu: webgpuTarget({ storageBuffers: 16 }) }

describe.each(cases)('$title', (given) => {
  const compiled = (target: keyof typeof targets) =>
    compileGraph(graphOf(given), { mode: 'fast', target: targets[target], verify: true }).program

  const place = cases.indexOf(given)
  test.skipIf(!hasCompiler() || (place % 2 === 1 && !nightly))('CUDA', { timeout: 60_000 }, async () => {
    for (const seed of some([1, 2, 3], 3))
      await expectEmulated(graphOf(given), compiled('cuda'), [inputOf(given, seed)])
  })

  const onWebGpu = place % 3 === 1 ? test : atNight
  onWebGpu('WebGPU', { timeout: 60_000 }, async (context) => {
    const device = await openDevice()
    if (typeof device === 'string') return context.skip(device)
    const inputs = [inputOf(given, 4)]
    const graph = graphOf(given)
    const got = await executeWgsl(device, compiled('webgpu'), inputs)
    expectClose(got, evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), graph, 'WebGPU')
  })
})

test('terms are selected, so that no load waits behind a branch; positions are compared where their order is open', () => {
  const source = (given: Case): string => {
    const { program } = compileGraph(graphOf(given), { mode: 'fast', target: cudaTarget })
    return program.steps
      .map((s) => (s.kind === 'kernel' ? emitKernel(s.kernel, cudaTarget.simt).source : ''))
      .join('\n')
  }
  const term = /const bool wins_\d+ = (.*);/g
  const terms = (given: Case): string[] => [...source(given).matchAll(term)].map((m) => m[1] ?? '')
  const columns = terms({ title: '', shape: [301, 77], build: (x) => c.argmax(x, 0) })
  expect(columns.length).toBeGreaterThan(0)
  for (const t of columns) expect(t).not.toContain('p_')
})
