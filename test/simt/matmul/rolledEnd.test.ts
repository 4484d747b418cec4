/** What follows a product is a loop over repeats of an axis where it would be written out many times. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTargetOf } from '../../../src/target/cuda.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { at, trace } from '../../compile/support.ts'
import { nightly } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

const {
  library: _,
  programShare: __,
  ...given
} = cudaTargetOf({
  capability: 90,
  multiprocessors: 132,
  sharedBytes: 232448,
  hasLibrary: true,
})

/** Multiplications in kernels, and programs enough wherever there are two, so that small products have large blocks. */
const h100 = { ...given, minPrograms: 2 }

interface Case {
  readonly name: string
  readonly m: number
  readonly k: number
  readonly n: number
  readonly dtype?: 'bf16' | 'f32'
  readonly precision?: 'tf32' | 'tf32x3'
  readonly end: (y: Node, columns: Node, rows: Node) => Node
}

const mish = (x: Node): Node => c.mul(x, c.tanh(c.softplus(x)))
const twice = (y: Node, columns: Node): Node => mish(mish(c.add(y, columns)))

const cases: readonly Case[] = [
  { name: 'functions of columns', m: 256, k: 256, n: 256, precision: 'tf32', end: twice },
  { name: 'blocks that end', m: 250, k: 200, n: 244, precision: 'tf32', end: twice },
  { name: 'f32 as two numbers', m: 256, k: 256, n: 512, precision: 'tf32x3', end: twice },
  {
    name: 'what rows and columns have',
    m: 256,
    k: 256,
    n: 384,
    precision: 'tf32',
    end: (y, columns, rows) =>
      c.mul(twice(c.add(y, c.reshape(rows, [-1, 1])), columns), c.reshape(c.exp(rows), [-1, 1])),
  },
  {
    name: '16-bit operands',
    m: 256,
    k: 256,
    n: 256,
    dtype: 'bf16',
    end: (y, columns) => twice(c.cast(y, 'f32'), c.cast(columns, 'f32')),
  },
  {
    name: '16-bit results',
    m: 256,
    k: 256,
    n: 256,
    dtype: 'bf16',
    end: (y, columns) => {
      const x = c.unary('sin', twice(c.cast(y, 'f32'), c.cast(columns, 'f32')))
      return c.cast(c.compare('lt', x, 0.3), 'bf16')
    },
  },
]

const graphOf = ({ m, k, n, dtype = 'f32', end }: Case): Graph =>
  trace(
    [
      { shape: [m, k], dtype },
      { shape: [k, n], dtype },
      { shape: [n], dtype },
      { shape: [m], dtype },
    ],
    (p) => end(c.matmul(at(p, 0), at(p, 1)), at(p, 2), at(p, 3)),
  )

/** -1, 0 and 1, whose sums of products are exact in all precisions. */
function inputsOf(graph: Graph): HostArray[] {
  let s = 4321
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < out.length; i++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      writeElement(out, p.dtype, i, Math.floor((3 * s) / 2 ** 32) - 1)
    }
    return out
  })
}

const compiled = (given: Case) =>
  compileGraph(graphOf(given), {
    mode: 'fast',
    target: h100,
    verify: true,
    ...(given.precision === undefined ? {} : { precision: given.precision }),
  }).program

// By day every other one, blocks that end among them.
const own = cases.filter((_, i) => nightly || i % 2 === 1)
test.skipIf(!hasCompiler()).each(own)('$name', { timeout: 120_000 }, async (given) => {
  const program = compiled(given)
  const sources = program.steps.flatMap((s) => (s.kind === 'kernel' ? emitKernel(s.kernel, h100.simt) : []))
  expect(sources.map((s) => s.source).join()).toContain('_cells = ')
  const graph = graphOf(given)
  await expectEmulated(graph, program, inputsOf(graph))
})

test('cells take no memory of their own, and little that follows is written out', () => {
  const kernelOf = (end: Case['end']) => {
    const program = compiled({ name: '', m: 4096, k: 4096, n: 4096, precision: 'tf32', end })
    const [kernel] = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    if (kernel === undefined) throw new Error('no kernel')
    return scheduleThreads(kernel, h100.simt).schedule
  }
  const [rolled, plain] = [kernelOf(twice), kernelOf((y, columns) => c.relu(c.add(y, columns)))]
  const kinds = (s: typeof rolled): string[] => s.parts.flatMap((p) => p.body.entries.map((e) => e.kind))
  expect(kinds(rolled)).toContain('rolled')
  expect(kinds(plain)).not.toContain('rolled')
  expect(rolled.sharedBytes).toBe(plain.sharedBytes)
})
