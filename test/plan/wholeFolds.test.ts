/** Where programs of a GPU would be few: folds that are cut, folds that stay whole, and columns that a program holds. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { SimtTarget } from '../../src/target/machine.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, trace } from '../compile/support.ts'

const webgpu = webgpuTarget({ storageBuffers: 16 })

/** Kernels of a program of one input, main ones and finishing stages. */
function kernelsOf(shape: readonly number[], f: (x: Node) => Node | Node[], target: SimtTarget) {
  const graph = trace([{ shape: [...shape] }], (p) => f(at(p, 0)))
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
  return program.steps.flatMap((s) => (s.kind === 'kernel' ? [s] : []))
}

const stages = (...args: Parameters<typeof kernelsOf>): string[] => kernelsOf(...args).map((k) => k.stage)

describe('a finishing stage is a launch', () => {
  const sum = (x: Node): Node => c.sum(c.exp(x), [1])

  test.each([
    ['cuda', cudaTarget],
    ['webgpu', webgpu],
  ] as const)('rows that programs fold as soon stay whole on %s', (_, target) => {
    for (const shape of [
      [64, 16384],
      [64, 16383],
      [100, 5001],
    ])
      expect(stages(shape, sum, target), String(shape)).toEqual(['main'])
    expect(stages([1, 1 << 20], sum, target)).toEqual(['main', 'finishing'])
    expect(stages([4, 262145], sum, target)).toEqual(['main', 'finishing'])
  })

  test('what a launch costs decides: where it is nothing, few programs are cut', () => {
    const free = { ...webgpu, stageLaunch: 0 }
    expect(stages([64, 16384], sum, webgpu)).toEqual(['main'])
    expect(stages([64, 16384], sum, free)).toEqual(['main', 'finishing'])
  })

  test('where there is much to move, few programs are not trusted to move it', () => {
    expect(stages([64, 1 << 20], sum, cudaTarget)).toEqual(['main', 'finishing'])
  })
})

describe('columns that a program holds', () => {
  const softmax = (x: Node): Node => {
    const e = c.exp(c.sub(x, c.reduceMax(x, [0], true)))
    return c.div(e, c.sum(e, [0], true))
  }
  /** Programs, and the blocks of threads that run each. */
  const launch = (shape: readonly number[], f: (x: Node) => Node) => {
    const kernels = kernelsOf(shape, f, cudaTarget)
    expect(kernels.map((k) => k.stage)).toEqual(['main'])
    const { kernel } = at(kernels, 0)
    const { cluster } = scheduleThreads(kernel, cudaTarget.simt).schedule
    return { programs: kernel.parts.reduce((n, p) => n + gridSize(p), 0), cluster }
  }

  test('sixteen where they stay resident, a sector of memory where only those do', () => {
    expect(launch([16384, 104], softmax)).toEqual({ programs: 7, cluster: 8 })
    expect(launch([16385, 104], softmax)).toEqual({ programs: 13, cluster: 8 })
    expect(launch([32768, 104], softmax)).toEqual({ programs: 13, cluster: 8 })
  })

  test('where none stay and programs are few, folds are kernels of their own, cut in parts', () => {
    const seen = stages([65536, 104], softmax, cudaTarget)
    expect(seen.filter((s) => s === 'finishing')).toHaveLength(2)
    // Programs enough go through their rows twice.
    expect(stages([40000, 4000], softmax, cudaTarget)).toEqual(['main'])
  })
})

test('what a fold folds itself is not held over it: long rows of a normalisation are spread over a cluster', () => {
  const norm = (x: Node): Node => {
    const d = c.sub(x, c.mean(x, [1], true))
    return c.mul(d, c.unary('rsqrt', c.add(c.mean(c.mul(d, d), [1], true), 1e-5)))
  }
  for (const n of [100000, 200000, 262144]) {
    const [main, ...none] = kernelsOf([4, n], norm, cudaTarget)
    expect(none).toEqual([])
    if (main === undefined) throw new Error('no kernel')
    expect(scheduleThreads(main.kernel, cudaTarget.simt).schedule.cluster, String(n)).toBe(8)
  }
})

test('rows that leave no room for a second block of all threads are in half blocks, where two of them have work', () => {
  const threads = (shape: readonly number[], axis: number): number => {
    const [main] = kernelsOf(
      shape,
      (x) => {
        const e = c.exp(c.sub(x, c.reduceMax(x, [axis], true)))
        return c.div(e, c.sum(e, [axis], true))
      },
      cudaTarget,
    )
    if (main === undefined) throw new Error('no kernel')
    return scheduleThreads(main.kernel, cudaTarget.simt).schedule.threads
  }
  expect(threads([1000, 4000], 0)).toBe(512)
  // One program for each multiprocessor at most; rows of which two blocks of all threads have room.
  expect(threads([1000, 2000], 0)).toBe(1024)
  expect(threads([1000, 12000], 1)).toBe(1024)
  expect(threads([500, 16000], 1)).toBe(512)
})

describe('a short axis along which nothing is read', () => {
  const counts = (values: number) => (x: Node) =>
    c.sum(c.where(c.compare('gt', c.expandDims(x, 0), c.iota([values, 1, 1], 0, 'f32')), 1, 0), [2])

  test.each([
    ['cuda', cudaTarget],
    ['webgpu', webgpu],
  ] as const)('a program takes all of it on %s', (_, target) => {
    const programs = (values: number): number =>
      kernelsOf([100000, 128], counts(values), target).reduce(
        (n, k) => n + k.kernel.parts.reduce((m, p) => m + gridSize(p), 0),
        0,
      )
    expect(programs(4)).toBe(programs(1))
    expect(programs(7)).toBe(programs(1))
    expect(programs(9)).toBe(9 * programs(1))
  })
})
