/**
 * What a program of WebAssembly holds in scratch stays small however large the tensor is: folds under folded axes are refused as one
 * kernel (`row-too-long`), values are computed again rather than kept in tiles of the whole tensor, and programs over long rows take
 * fewer columns.
 *
 * Sites looked at: plan/axes/reductionRoles.ts (rows alone), plan/axes/heldTiles.ts (results of scans, reductions and products, operands of products, under
 * cuts of both kinds), plan/body/body.ts (heldPoints), plan/axes/reductionBlocks.ts (reductionPoints), lower/rowLoop.ts (a row at a time),
 * codegen/wasm/kept.ts, product.ts and scan.ts (what takes scratch), the GPUs' register arrays of scans.
 */
import { describe, expect, test } from 'vitest'
import { jit, tensor } from '../../src/api/index.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { some } from '../support/nightly.ts'

type Build = (x: Node) => readonly Node[]

const traced = (shape: readonly number[], build: Build): Graph =>
  withContext(() => {
    const x = param(0, shape, 'f32')
    return { params: [x], outputs: [...build(x)], effects: [] }
  })

const compiled = (shape: readonly number[], build: Build, mode: 'fast' | 'strict', target: Machine = wasmTarget) =>
  compileGraph(traced(shape, build), { mode, target, verify: true })

/** Bytes of scratch that a thread needs for the kernels of a program. */
function scratchOf({ program }: ReturnType<typeof compiled>): number {
  const jobs = program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [{ kernel: s.kernel, name: s.kernel.name, mayAlias: () => false }] : [],
  )
  const memory = { min: 1, max: 1, shared: false }
  return Math.max(
    ...compileModule(jobs, { machine: wasmTarget, relaxed: false, memory }).functions.map((f) => f.scratch),
  )
}

const dear = (x: Node): Node => c.exp(c.tanh(c.unary('sin', c.unary('erf', x))))
const integers = (x: Node): Node => c.cast(x, 'i32')

/** Each holds the whole of its operand, or a value of its size, if nothing says otherwise. */
const whole: Record<string, Build> = {
  'a maximum of running sums down the columns': (x) => [c.reduceMax(c.cumsum(x, 0))],
  'a maximum of running sums along the rows': (x) => [c.reduceMax(c.cumsum(x, 1))],
  'a sum of running products': (x) => [c.sum(c.cumprod(x, 0))],
  'a sum of running sums along both': (x) => [c.sum(c.cumsum(c.cumsum(x, 0), 1))],
  'a sum of running sums twice along one': (x) => [c.sum(c.cumsum(c.exp(c.cumsum(x, 0)), 0))],
  'the position of the greatest running sum': (x) => [c.argmax(c.flatten(c.cumsum(x, 0)), 0)],
  'a maximum of softmax of what is dear, down the columns': (x) => [c.reduceMax(c.softmax(dear(x), 0))],
  'a maximum of softmax of what is dear, along the rows': (x) => [c.reduceMax(c.softmax(dear(x), 1))],
}
const products: Record<string, Build> = {
  'a maximum of a product of integers': (x) => [c.reduceMax(c.matmul(integers(x), integers(x)))],
  'a maximum of a product of integers, transposed': (x) => [
    c.reduceMax(c.matmul(integers(x), c.transpose(integers(x), [1, 0]))),
  ],
}

/** Sixteen columns of the longest row that stays resident. */
const most = 16 * wasmTarget.rowBytes + (1 << 20)

describe.each(['fast', 'strict'] as const)('scratch of a thread, %s', (mode) => {
  test.each(Object.entries(whole))('%s', (_, build) => {
    const shapes = [
      [8192, 16384],
      [2 ** 24, 8],
      [8, 2 ** 24],
    ]
    for (const shape of some(shapes, 2)) expect(scratchOf(compiled(shape, build, mode))).toBeLessThanOrEqual(most)
  })

  test.each(Object.entries(products))('%s', (_, build) => {
    expect(scratchOf(compiled([16384, 16384], build, mode))).toBeLessThanOrEqual(most)
  })

  test('long columns, stored', () => {
    for (const rows of some([2 ** 22, 2 ** 20, 2 ** 24], 3))
      for (const build of some([(x: Node) => [c.cumsum(x, 0)], (x: Node) => [c.softmax(dear(x), 0)]], 2))
        expect(scratchOf(compiled([rows, 8], build, mode))).toBeLessThanOrEqual(Math.max(most, 4.1 * rows))
  })
})

describe('the reason', () => {
  const codes = (shape: readonly number[], build: Build, target: Machine): string[] =>
    compiled(shape, build, 'fast', target).report.refused.map((r) => r.code)
  const running: Build = (x) => [c.reduceMax(c.cumsum(x, 0))]

  test('a tile beyond the budget of a row is refused as such', () => {
    const [report] = compiled([4096, 4096], running, 'fast').report.refused
    expect(report?.code).toBe('row-too-long')
    expect(report?.detail).toBe('67108864 bytes between one fold and the next do not stay resident')
  })

  test('one within it is fused', () => {
    const columns = wasmTarget.rowBytes / 4 / 1024
    expect(codes([1024, columns], running, wasmTarget)).toEqual([])
    expect(codes([1024, columns + 1], running, wasmTarget)).toEqual(['row-too-long'])
  })

  test('GPUs hold no tile of running sums either', () => {
    for (const target of [cudaTarget, webgpuTarget()]) {
      const rows = (target.blockRowBytes ?? target.rowBytes) / 4 / 64
      expect(codes([rows, 64], running, target)).not.toContain('row-too-long')
      expect(codes([rows, 65], running, target)).toContain('row-too-long')
    }
  })

  test('rows under a cut reduction are held one at a time', () => {
    const columns: Build = (x) => [c.reduceMax(c.cumsum(x, 1), [0])]
    expect(compiled([4096, 4096], columns, 'fast', { ...wasmTarget, launch: 1 }).report.totals.kernels).toBe(1)
  })
})

test('the values are those of operations one by one', () => {
  const data = Float32Array.from({ length: 1280 * 1024 }, (_, i) => ((i * 37) % 101) / 101 - 0.5)
  const x = tensor(data).reshape([1280, 1024])
  for (const axis of [0, 1])
    for (const f of [
      (a: typeof x) => a.cumsum(axis).max(),
      (a: typeof x) => a.exp().tanh().sin().exp().softmax(axis).max(),
    ]) {
      const alone = f(x).item() as number
      for (const mode of ['fast', 'strict'] as const)
        expect(Math.abs((jit(f, { mode })(x).item() as number) / alone - 1)).toBeLessThan(1e-5)
    }
})
