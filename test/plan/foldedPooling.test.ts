/** Poolings whose results are folded again: cut along a long axis of the outer fold, not at every window. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, trace } from '../compile/support.ts'
import { smallBlocks } from '../random/execute.ts'
import { makeRng } from '../random/rng.ts'
import { compiledBackend } from '../support/device.ts'

const backend = compiledBackend({ threads: 2 })
afterAll(() => backend.dispose())

const poolings: Record<string, (x: Node, kernel: number[], options: c.PoolOptions) => Node> = {
  average: c.averagePool,
  max: c.maxPool,
}
const folds: Record<string, (y: Node) => Node> = {
  'sum of all but the batch': (y) => c.sum(c.unary('sigmoid', y), y.shape.map((_, d) => d).slice(1)),
  'mean over space': (y) => c.mean(c.relu(y), y.shape.map((_, d) => d).slice(2)),
  'greatest over channels and space': (y) => c.reduceMax(c.mul(y, y), y.shape.map((_, d) => d).slice(1)),
  'sum of everything': (y) => c.sum(c.unary('tanh', y)),
}

const graphOf = (
  shape: readonly number[],
  kernel: readonly number[],
  pooling: string,
  fold: string,
  options: c.PoolOptions = {},
): Graph =>
  trace([{ shape }], (p) => {
    const pooled = (poolings[pooling] ?? c.maxPool)(at(p, 0), [...kernel], options)
    return (folds[fold] ?? c.relu)(pooled)
  })

describe('large ones', () => {
  const shape = [64, 16, 190, 190]
  for (const target of [cudaTarget, webgpuTarget()])
    for (const pooling of Object.keys(poolings))
      test.each(Object.keys(folds))(`${pooling}, %s, ${target.name}`, (fold) => {
        const { program } = compileGraph(graphOf(shape, [4, 4], pooling, fold), { mode: 'fast', target, verify: true })
        const main = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? [s.kernel] : []))
        expect(main).toHaveLength(1)
        const partial = main.flatMap((k) => k.params.filter((p) => p.access === 'write'))
        // A window is 16 elements: of its results a small part at most is stored.
        for (const p of partial) expect(16 * 16 * sizeOf(p.shape), p.name).toBeLessThan(sizeOf(shape))
        // Many programs, each with many elements.
        const [part] = at(main, 0).parts
        const extents = new Map(part?.axes.map((a) => [a.name, a.extent]))
        const programs = part?.grid.reduce((n, g) => n * Math.ceil((extents.get(g.axis) ?? 1) / g.block), 1) ?? 0
        expect(programs).toBeGreaterThanOrEqual(target.minPrograms / 2)
        expect(sizeOf(shape) / programs).toBeGreaterThan(1024)
      })
})

test('what a convolution leaves of a pooling behind it stands in the order of the result', () => {
  const graph = trace([{ shape: [64, 64, 66, 66] }, { shape: [128, 64, 3, 3] }], (p) =>
    c.maxPool(c.conv(at(p, 0), at(p, 1)), [2, 2], { stride: 2 }),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32', verify: true })
  const finishing = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'finishing' ? [s.kernel] : []))
  expect(finishing).toHaveLength(1)
  const { parts, params } = at(finishing, 0)
  const [partial] = params
  const [part] = parts
  // Parts, channels, and the positions of all images as one axis, which programs hold blocks of.
  expect(partial?.shape).toEqual([4, 128, 64 * 32 * 32])
  const wide = part?.grid.filter((g) => g.block > 1).map((g) => part.axes.find((a) => a.name === g.axis)?.extent)
  expect(wide).toEqual([64 * 32 * 32])
})

test.each([0, 1, 2])('drawn ones, part %i of 3', { timeout: 120_000 }, (part) => {
  const tight: Machine = { ...cudaTarget, elementBlock: 24, minPrograms: 24, columnBlock: 4 }
  for (let seed = part; seed < 90; seed += 3) {
    const { int, pick } = makeRng(seed)
    const axes = pick([1, 2, 2, 3])
    const kernel = Array.from({ length: axes }, () => int(1, 4))
    const shape = [int(1, 3), int(1, 4), ...kernel.map((k) => k + int(2, axes === 3 ? 6 : 24))]
    const options = {
      stride: kernel.map((k) => int(1, k)),
      padding: kernel.map((k): [number, number] => [int(0, k >> 1), int(0, k >> 1)]),
    }
    const graph = graphOf(shape, kernel, pick(Object.keys(poolings)), pick(Object.keys(folds)), options)
    const target = at([wasmTarget, smallBlocks, tight, cudaTarget, webgpuTarget()], int(0, 4))
    const runs = target === wasmTarget || target === smallBlocks
    check(graph, { target, mode: seed % 4 === 0 ? 'strict' : 'fast' }, runs ? backend : undefined)
  }
})
