/** Unions on CUDA: parts that are the same code but for their tensors and extents are emitted once, over a table. */
import { describe, expect, test } from 'vitest'
import { emitKernel, type KernelSource } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { at, trace } from '../../compile/support.ts'
import { type Buffers, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'

const caps = cudaSimt

/** One step of an optimiser with two moments: parameters, moments, gradients. */
function step(shapes: readonly (readonly number[])[]): Graph {
  const n = shapes.length
  return trace(
    [0, 1, 2, 3].flatMap(() => shapes.map((shape) => ({ shape }))),
    (all) =>
      shapes.flatMap((_, i) => {
        const [p, m, v, g] = [at(all, i), at(all, n + i), at(all, 2 * n + i), at(all, 3 * n + i)]
        const m1 = c.add(c.mul(m, 0.9), c.mul(g, 0.1))
        const v1 = c.add(c.mul(v, 0.999), c.mul(c.mul(g, g), 0.001))
        return [c.sub(p, c.mul(c.div(m1, c.add(c.sqrt(v1), 1e-8)), 1e-3)), m1, v1]
      }),
  )
}

const kernelsOf = (graph: Graph, donated: readonly boolean[] = []): Kernel[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, donated }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )

const only = (kernels: readonly Kernel[]): Kernel => {
  expect(kernels).toHaveLength(1)
  return at(kernels, 0)
}

const emitted = (k: Kernel): KernelSource => emitKernel(k, caps)

/** Equal values in equal calls, in (0, 1). */
function buffersOf(kernel: Kernel): Buffers {
  let s = 4242
  return Object.fromEntries(
    kernel.params.map((p) => {
      const data = hostArray(p.dtype, sizeOf(p.shape))
      for (let i = 0; i < data.length; i++) {
        s = (Math.imul(s, 1664525) + 1013904223) >>> 0
        data[i] = (s + 1) / 2 ** 32
      }
      return [p.name, data]
    }),
  )
}

describe('code of a step over 200 tensors', () => {
  const equal = Array.from({ length: 200 }, () => [1 << 20])
  const unequal = Array.from({ length: 200 }, (_, i) => [1000 * (1 + (i % 20)) + (i % 4)])
  const apart = Array.from({ length: 200 }, (_, i) => [5 + 37 * i])

  test('equal ones: one kernel, one part, nothing but the table bound', () => {
    const source = emitted(only(kernelsOf(step(equal))))
    expect(source.source.length).toBeLessThan(5000)
    expect(source.table).toHaveLength(1400)
    expect(source.bindings).toEqual([])
    expect(source.programs).toBe(200 * 512)
  })

  test.each([
    ['of 20 sizes', unequal],
    ['all of other sizes', apart],
  ])('%s: one kernel whose code does not grow with their number', (_name, shapes) => {
    const source = emitted(only(kernelsOf(step(shapes))))
    expect(source.source.length).toBeLessThan(30_000)
    expect(source.source.length).toBeLessThan(1.5 * emitted(only(kernelsOf(step(shapes.slice(0, 60))))).source.length)
    expect(source.programs).toBe(shapes.reduce((n, [size = 0]) => n + Math.ceil(size / 512), 0))
    // Seven addresses a tensor, its extent, and its first program, at most.
    expect(source.table?.length).toBeLessThanOrEqual(200 * 9)
  })

  test('parameters that may share memory are not said to stand alone', () => {
    const kernel = only(kernelsOf(step(equal.slice(0, 5))))
    const shared = new Set(['x0', 'y4'])
    const { source } = emitKernel(kernel, caps, { mayAlias: (p) => shared.has(p) })
    expect(source).toContain('const float* const x0')
    expect(source).toContain('float* const y4')
    expect(source).toContain('const float* __restrict__ const x1')
  })
})

describe.skipIf(!hasCompiler)('on the host (skipped where g++ is missing)', () => {
  test('unequal extents, whole blocks, tails, rows, and a part of another kind', { timeout: 180_000 }, () => {
    const sizes = [1, 3, 4, 20, 100, 2048, 2049, 4096, 4100, 5000, 6144, 777, 16, 48, 2064, 4112, 8208, 30, 10_000]
    const elementwise = trace([...sizes.map((n) => ({ shape: [n] })), { shape: [7] }], (p) => [
      ...sizes.map((_, i) => c.add(c.mul(at(p, i), c.sliceAxis(at(p, sizes.length), 0, 2, 3)), 1)),
      // The first tensor again, in a part of its own.
      c.exp(at(p, sizes.length)),
      c.mul(at(p, 3), 3),
    ])
    const rows = trace(
      [1, 2, 5, 9, 14, 33].map((n) => ({ shape: [n, 300] })),
      (p) => p.map((x) => c.softmax(x, -1)),
    )
    const short = trace(
      [1, 2, 5, 9, 14, 33, 200].map((n) => ({ shape: [n, 20] })),
      (p) => p.map((x) => c.softmax(x, -1)),
    )
    const halves = trace(
      [1, 7, 8, 64, 3000, 3008, 5001, 2052].map((n) => ({ shape: [n], dtype: 'bf16' as const })),
      (p) => p.map((x) => c.neg(x)),
    )
    const small = trace(
      [1000, 1037, 1074, 1111, 1148].map((n) => ({ shape: [n] })),
      (p) => p.map((x) => c.exp(x)),
    )
    const kernels = [elementwise, small, rows, short, step([[9], [5000], [33, 3], [2048], [64]])].flatMap((g) =>
      kernelsOf(g),
    )
    kernels.push(...kernelsOf(halves))
    expect(kernels.filter((k) => emitted(k).source.includes('member_of')).length).toBeGreaterThanOrEqual(3)
    expect(kernels.filter((k) => emitted(k).source.includes('extent')).length).toBeGreaterThanOrEqual(4)
    const emulated = new Emulated(kernels)
    kernels.forEach((kernel, i) => {
      const [want, got] = [buffersOf(kernel), buffersOf(kernel)]
      interpretKernel(kernel, want, { rounding: 'dtype' })
      emulated.run(i, got)
      for (const { name, access } of kernel.params) {
        if (access === 'read') continue
        const [a, b] = [want[name], got[name]]
        if (a === undefined || b === undefined) throw new Error(`no buffer ${name}`)
        for (let k = 0; k < a.length; k++)
          if (Math.abs(Number(a[k]) - Number(b[k])) > 1e-5 * (1 + Math.abs(Number(a[k]))))
            expect.fail(`${kernel.name}: ${name}[${k}] is ${b[k]}, not ${a[k]}`)
      }
    })
    emulated.dispose()
  })
})
