/** Products whose depth is cut into parts, a program each: partial results, a finishing stage, and products that stay whole. */
import { describe, expect, test } from 'vitest'
import { type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize, type LetStmt, type Stmt } from '../../src/kernel/ir.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, check, type Input, trace } from '../compile/support.ts'
import { atNight, nightly } from '../support/nightly.ts'

/** Small products take long. */
const target: Machine = { ...wasmTarget, matrixRate: 1e8 }

function stages(
  inputs: readonly Input[],
  build: (p: readonly Node[]) => Node | Node[],
  options: Partial<CompileOptions> = {},
) {
  const { program } = check(trace(inputs, build), { target, ...options })
  return program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [[s.stage, s.kernel.parts.reduce((n, p) => n + gridSize(p), 0)] as const] : [],
  )
}

const product = (p: readonly Node[]): Node => c.matmul(at(p, 0), at(p, 1))
const pair = (m: number, k: number, n: number): Input[] => [{ shape: [m, k] }, { shape: [k, n] }]

/** The statements of a body, loops' included. */
const letsOf = (body: readonly Stmt[]): LetStmt[] =>
  body.flatMap((s) => (s.kind === 'let' ? [s] : s.kind === 'loop' ? letsOf(s.body) : []))

describe('few blocks and much depth', () => {
  test.each([
    [16, 1024, 16, 8],
    [16, 1000, 16, 8],
    [7, 999, 13, 9],
    [5, 1331, 6, 11],
  ])('%i x %i x %i: %i parts', (m, k, n, parts) => {
    expect(stages(pair(m, k, n), product)).toEqual([
      ['main', parts],
      ['finishing', expect.any(Number)],
    ])
  })

  test.each([
    [8192, 8192, 512],
    [4096, 14336, 448],
  ])('16 rows times %i x %i weights through WebGPU: programs enough', (k, n, programs) => {
    const graph = trace(
      [
        { shape: [16, k], dtype: 'bf16' },
        { shape: [k, n], dtype: 'i8' },
      ],
      (p) => c.matmul(at(p, 0), c.cast(at(p, 1), 'bf16')),
    )
    const { program } = compileGraph(graph, {
      mode: 'fast',
      target: webgpuTarget({ storageBuffers: 8, sharedBytes: 32768 }),
    })
    const sizes = program.steps.flatMap((s) =>
      s.kind === 'kernel' ? s.kernel.parts.reduce((sum, p) => sum + gridSize(p), 0) : [],
    )
    expect(sizes).toHaveLength(2)
    expect(at(sizes, 0)).toBe(programs)
  })

  test('transposed operands, and what follows in the finishing stage', () => {
    const shapes: Input[] = [{ shape: [960, 12] }, { shape: [20, 960] }, { shape: [12, 20] }, { shape: [20] }]
    const steps = stages(shapes, (p) => {
      const y = c.matmul(c.transpose(at(p, 0)), c.transpose(at(p, 1)))
      const moved = c.sub(at(p, 2), c.mul(y, 0.125))
      return [moved, c.exp(c.add(c.mul(y, 0.01), at(p, 3)))]
    })
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
    expect(at(at(steps, 0), 1)).toBe(8)
  })

  test('a prologue and a batch', () => {
    const steps = stages([{ shape: [2, 9, 640] }, { shape: [2, 640, 11] }], (p) => c.matmul(c.relu(at(p, 0)), at(p, 1)))
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
    expect(at(at(steps, 0), 1)).toBe(8)
  })

  test('windows', () => {
    const steps = stages([{ shape: [8, 3, 10, 10] }, { shape: [8, 4, 10, 10] }], (p) => {
      const padded = c.pad(at(p, 0), [
        [0, 0],
        [0, 0],
        [1, 1],
        [1, 1],
      ])
      const shifted = c.slice(padded, [{}, {}, { start: 1, stop: 11 }, { start: 2 }])
      const rows = (x: Node, channels: number): Node => c.reshape(c.permute(x, [1, 0, 2, 3]), [channels, 800])
      return c.matmul(rows(shifted, 3), c.transpose(rows(at(p, 1), 4)))
    })
    expect(steps.map(([stage]) => stage)).toEqual(['main', 'finishing'])
  })
})

describe('a machine of which a program uses a share', () => {
  const { depthSplit: _, ...record } = wasmTarget
  const shared: Machine = {
    ...record,
    name: 'shared',
    launch: 1e-7,
    minPrograms: 64,
    dotBlock: { m: 64, n: 64, k: 32, stepSeconds: 1e-6 },
    programShare: { moving: 1 / 16, computing: 1 / 16 },
  }
  const cut = (inputs: readonly Input[], build: (p: readonly Node[]) => Node | Node[]) =>
    stages(inputs, build, { target: shared })

  const sizes = [
    [16, 1024, 16],
    [16, 1021, 16],
    [5, 2049, 3],
    [7, 697, 5],
    [130, 769, 70],
  ] as const
  test.each(nightly ? sizes : sizes.slice(0, 4))(
    '%i x %i x %i: parts of whole steps, the last one shorter',
    (m, k, n) => {
      const [main, finishing] = cut(pair(m, k, n), product)
      expect(at(main ?? [], 0)).toBe('main')
      expect(at(main ?? [], 1)).toBeGreaterThan(4)
      expect(at(finishing ?? [], 0)).toBe('finishing')
    },
  )

  test.each([
    [1024, 0],
    [1021, 2],
  ])('a depth of %i: loads that ask whether they are within it: %i', (k, masked) => {
    const { program } = compileGraph(trace(pair(16, k, 16), product), { mode: 'fast', target: shared })
    const loads = program.steps.flatMap((s) =>
      s.kind === 'kernel' ? s.kernel.parts.flatMap((p) => [...letsOf(p.body)]) : [],
    )
    expect(loads.filter((l) => l.op.kind === 'load' && l.op.mask.length > 0)).toHaveLength(masked)
  })

  test.each([
    ['a quotient, infinite behind the axis', (x: Node): Node => c.div(1, x)],
    ['an exponential', (x: Node): Node => c.exp(c.mul(x, 0.1))],
    ['ones at both ends', (x: Node): Node => c.padInterior(x, [0, 1], [0, 2], [0, 0], 1)],
    ['numbers of places', (x: Node): Node => c.add(x, c.mul(0.001, c.iota([9, 1013], 1, 'f32')))],
  ])('a prologue: %s', (_name, prologue) => {
    for (const swap of nightly ? [false, true] : [false]) {
      const steps = cut([{ shape: [9, 1013] }, { shape: [1013, 11] }, { shape: [1016, 11] }], (p) => {
        const x = prologue(at(p, 0))
        const w = x.shape[1] === 1013 ? at(p, 1) : at(p, 2)
        return swap ? c.matmul(c.transpose(w), c.transpose(x)) : c.matmul(x, w)
      })
      expect(steps.map(([stage]) => stage)).toContain('finishing')
    }
  })
})

describe('whole', () => {
  const whole = [['main', expect.any(Number)]]
  test('in strict mode, whose sums are in order', () => {
    expect(stages(pair(16, 1024, 16), product, { mode: 'strict' })).toEqual(whole)
  })
  test('where the depth has no even parts', () => {
    expect(stages(pair(16, 1021, 16), product)).toEqual(whole)
  })
  atNight('where the result has blocks enough', () => {
    const inputs = pair(40, 1024, 40)
    expect(stages(inputs, product)).toHaveLength(2)
    expect(stages(inputs, product, { target: { ...target, minPrograms: 4 } })).toEqual(whole)
  })
  test('where the product is short', () => {
    expect(stages(pair(16, 1024, 16), product, { target: wasmTarget })).toEqual(whole)
  })
})
