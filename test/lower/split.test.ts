/** Cut reductions: partial results in one kernel, made whole in a finishing stage; and where reductions stay whole. */
import { describe, expect, test } from 'vitest'
import type { CompileOptions } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, check, type Input, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'
import { atNight } from '../support/nightly.ts'

/** Few elements make many programs. */
const target: Machine = { ...wasmTarget, elementBlock: 32, minPrograms: 4, rowBytes: 1 << 16 }

/** Programs of each kernel by stage, and the buffers between the stages. */
function stages(
  inputs: readonly Input[],
  build: (p: readonly Node[]) => Node | Node[],
  options: Partial<CompileOptions> = {},
) {
  const { program, plan } = check(trace(inputs, build), { target, ...options })
  const kernels = program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [{ stage: s.stage, programs: s.kernel.parts.reduce((n, p) => n + gridSize(p), 0) }] : [],
  )
  const partials = program.buffers.filter((b) => b.source.kind === 'temp').map((b) => b.shape)
  return { kernels, partials, groups: plan.groups.length }
}

const long: Input = { shape: [1500] }

describe('one long axis', () => {
  test('is cut into blocks', () => {
    const { kernels, partials } = stages([long], (p) => c.sum(c.exp(at(p, 0)), 0))
    expect(kernels.map((k) => k.stage)).toEqual(['main', 'finishing'])
    expect(kernels[0]?.programs).toBe(Math.ceil(1500 / 32))
    expect(partials).toEqual([[Math.ceil(1500 / 32)]])
  })

  test('several reductions of it are cut together', () => {
    const { kernels, partials } = stages([long], (p) => [
      c.sum(at(p, 0), 0),
      c.reduceMax(at(p, 0), 0),
      c.sum(c.mul(at(p, 0), at(p, 0)), 0),
    ])
    expect(kernels).toHaveLength(2)
    expect(partials).toHaveLength(3)
  })

  test('what follows is computed in the finishing stage', () => {
    expect(stages([long], (p) => c.sqrt(c.add(c.mean(c.mul(at(p, 0), at(p, 0)), 0), 1e-3))).kernels).toHaveLength(2)
  })

  test('results of unlike axes: a program of the finishing stage holds what one of them lacks, and stores each once', () => {
    // Programs of the stage would hold 16 rows. Launches are so dear that one group does it all.
    const few = {
      ...target,
      launch: 1e-3,
      elementBlock: 256,
      minPrograms: 64,
      shortRows: { ...target.shortRows, points: 16, below: 16 },
    }
    const { groups, kernels } = stages(
      [{ shape: [67, 900] }],
      ([x]) => {
        const squares = c.mul(x as Node, x as Node)
        return [c.sum(squares, 1), c.sum(squares, [0, 1])]
      },
      { target: few },
    )
    expect(groups).toBe(1)
    expect(kernels.map((k) => k.stage)).toEqual(['main', 'finishing'])
    expect(kernels[0]?.programs).toBeGreaterThan(1)
    expect(kernels[1]?.programs).toBe(1)
  })

  atNight('results of unlike axes whose stage would be much for few programs have a kernel each', () => {
    // So few rows that columns are cut.
    const inputs: Input[] = [{ shape: [97, 4800] }, { shape: [97, 6, 4800] }]
    const graph = trace(inputs, (p) => {
      const weighed = c.mul(c.reshape(at(p, 0), [97, 1, 4800]), at(p, 1))
      return [c.exp(c.sum(weighed, 2)), c.sum(c.mul(at(p, 0), c.sum(at(p, 1), 1)), [0, 1])]
    })
    const cut: Machine = { ...cudaTarget, launch: 1e-3 }
    const { program } = check(graph, { target: cut })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s] : []))
    const finishing = kernels.filter((s) => s.stage === 'finishing')
    expect(kernels.length - finishing.length).toBe(1)
    const programs = finishing.map((s) => s.kernel.parts.reduce((n, p) => n + gridSize(p), 0))
    expect([programs.length, Math.min(...programs)]).toEqual([2, 1])
    expect(Math.max(...programs)).toBeGreaterThan(16)
  })

  test('folds of every kind that follow run over whole axes of the finishing stage', () => {
    const inputs: Input[] = [
      { shape: [600, 80], dtype: 'i32' },
      { shape: [80, 3], dtype: 'i32' },
    ]
    // Launches so dear that what they save is more than the partial results cost.
    const dear = { target: { ...target, launch: 1e-3 } }
    const product = stages(inputs, (p) => c.matmul(c.reduceMax(at(p, 0), [0]), at(p, 1)), dear)
    expect(product.kernels.map((k) => k.stage)).toEqual(['main', 'finishing'])
    const running = stages(inputs, (p) => c.cumsum(c.reduceMax(at(p, 0), [0]), 0))
    expect(running.kernels[0]?.programs).toBeGreaterThan(1)
  })

  test('an elementwise result beside it is stored by the main kernel', () => {
    const { kernels, groups } = stages([long], (p) => {
      const e = c.exp(at(p, 0))
      return [e, c.sum(e, 0)]
    })
    expect(groups).toBe(1)
    expect(kernels.map((k) => k.stage)).toEqual(['main', 'finishing'])
  })

  test('strict mode keeps the order of a sum, a maximum has none', () => {
    expect(stages([long], (p) => c.sum(at(p, 0), 0), { mode: 'strict' }).kernels).toHaveLength(1)
    expect(stages([long], (p) => c.reduceMax(at(p, 0), 0), { mode: 'strict' }).kernels).toHaveLength(2)
  })

  test('columns of a tall matrix', () => {
    const { kernels, partials } = stages([{ shape: [900, 3] }], (p) => c.sum(at(p, 0), 0))
    expect(kernels.map((k) => k.stage)).toEqual(['main', 'finishing'])
    expect(partials[0]?.at(-1)).toBe(3)
  })
})

describe('reductions that stay whole', () => {
  test.each([
    ['short ones', { shape: [40] }, (x: Node) => c.sum(x, 0)],
    ['those with rows enough', { shape: [50, 70] }, (x: Node) => c.sum(x, 1)],
    ['positions of maxima', { shape: [1500] }, (x: Node) => c.argmax(x, 0)],
    ['rows needed again', { shape: [1500] }, (x: Node) => c.softmax(x, 0)],
  ])('%s', (_, input, build) => {
    expect(stages([input], (p) => build(at(p, 0))).kernels.map((k) => k.stage)).toEqual(['main'])
  })
})

test('a reduction over reduced rows keeps the rows whole and folds them in the finishing stage', () => {
  const { kernels, partials } = stages([{ shape: [60, 30] }], (p) => c.mean(c.logSoftmax(at(p, 0), 1), 0))
  expect(kernels.map((k) => k.stage)).toContain('main')
  for (const shape of partials) expect(shape.reduce((a, b) => a * b, 1)).toBeLessThanOrEqual(60 * 30)
})

test('partial results are stored once where what follows them has axes of its own', () => {
  // A maximum over rows of a product, repeated along an axis beside the product's result.
  const names = [
    'arithmetic',
    'reduce',
    'reshape',
    'broadcast',
    'permute',
    'concat',
    'slice',
    'contract',
    'pad',
    'select',
  ]
  const only = [...names, 'flip', 'cast', 'softmax', 'scan', 'scatter', 'gather', 'smooth']
  const { graph } = randomGraph(20260, { only, operations: 18, dtypes: ['f32'] })
  const small = {
    ...webgpuTarget({ storageBuffers: 8 }),
    // Of so few elements a launch would be more than all else.
    stageLaunch: 0,
    elementBlock: 24,
    minPrograms: 6,
    rowBytes: 64,
    blockRowBytes: 64,
  }
  const { program } = check(graph, { target: small })
  expect(program.steps.some((s) => s.kind === 'kernel' && s.stage === 'finishing')).toBe(true)
})
