/** Results of products in 16 bits: lanes put groups of neighbours together before they store. What stands in shared memory beside: rings, totals. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { printThreadSchedule } from '../../../src/schedule/simt/print.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTargetOf } from '../../../src/target/cuda.ts'
import { at, trace } from '../../compile/support.ts'
import { some } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

const { library: _, ...given } = cudaTargetOf({
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
  readonly dtype?: 'bf16' | 'f16'
  readonly order?: 'nn' | 'nt' | 'tn'
  readonly isExchanged: boolean
  readonly end?: (y: Node) => Node
}

const cases: readonly Case[] = [
  { name: 'whole blocks', m: 256, k: 128, n: 256, isExchanged: true },
  { name: 'blocks that end', m: 200, k: 77, n: 136, isExchanged: true },
  { name: 'f16, columns as given', m: 136, k: 192, n: 264, dtype: 'f16', order: 'nt', isExchanged: true },
  { name: 'rows as columns', m: 128, k: 256, n: 200, order: 'tn', isExchanged: true },
  { name: 'few rows', m: 16, k: 256, n: 512, isExchanged: true },
  {
    name: 'a mask of groups',
    m: 128,
    k: 128,
    n: 256,
    isExchanged: true,
    end: (y) =>
      c.pad(y, [
        [1, 3],
        [8, 16],
      ]),
  },
  { name: 'rows of the result that are no whole groups', m: 128, k: 128, n: 132, isExchanged: false },
  { name: 'a result that is turned', m: 128, k: 128, n: 256, isExchanged: true, end: (y) => c.transpose(y, [1, 0]) },
]

const graphOf = ({ m, k, n, dtype = 'bf16', order = 'nn', end = (y) => y }: Case): Graph =>
  trace(
    [
      { shape: order === 'tn' ? [k, m] : [m, k], dtype },
      { shape: order === 'nt' ? [n, k] : [k, n], dtype },
    ],
    (p) => {
      const [x, w] = [at(p, 0), at(p, 1)]
      return end(c.matmul(order === 'tn' ? c.transpose(x, [1, 0]) : x, order === 'nt' ? c.transpose(w, [1, 0]) : w))
    },
  )

const programOf = (given: Case) => compileGraph(graphOf(given), { mode: 'fast', target: h100, verify: true }).program
const kernelsOf = (given: Case) => programOf(given).steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

test.skipIf(!hasCompiler()).each(some(cases, 3))('$name', { timeout: 120_000 }, async (given) => {
  const program = programOf(given)
  const sources = program.steps.flatMap((s) => (s.kind === 'kernel' ? emitKernel(s.kernel, h100.simt).source : []))
  expect(sources.some((s) => s.includes('__shfl_xor_sync') && s.includes('= make_uint4('))).toBe(given.isExchanged)
  await expectEmulated(graphOf(given), program)
})

const scheduleOf = (given: Case) => {
  const [kernel] = kernelsOf(given)
  if (kernel === undefined) throw new Error('no kernel')
  return scheduleThreads(kernel, h100.simt)
}
const printed = (given: Case): string => printThreadSchedule(scheduleOf(given)).join('\n')

test('four lanes of a product store eight results of a row', () => {
  const text = printed({ name: '', m: 4096, k: 1024, n: 4096, isExchanged: true })
  expect(text).toContain('store y0 (8 at a time, put together among 4 lanes)')
})

test('what is written behind a product in a loop is put together in it', () => {
  const mish = (x: Node): Node => c.mul(x, c.tanh(c.softplus(x)))
  const text = printed({ name: '', m: 4096, k: 1024, n: 4096, isExchanged: true, end: mish })
  expect(text).toMatch(/loop over 4 times 4 repeats of j: .* in own cells/)
  expect(text).toContain('store y0 (8 at a time, put together among 4 lanes)')
})

test('a ring has no more tiles than its loop has blocks', () => {
  const bytes = (k: number): number =>
    scheduleOf({ name: '', m: 8192, k, n: 4096, isExchanged: true }).schedule.sharedBytes
  const tiles = 2 * 128 * 64 * 2
  expect([bytes(128), bytes(192), bytes(256)]).toEqual([2 * tiles, 3 * tiles, 3 * tiles])
})

test.skipIf(!hasCompiler())('totals leave the room of a second block', { timeout: 120_000 }, async () => {
  // One multiprocessor, so that a few programs are more than one for each.
  const facts = { capability: 90, multiprocessors: 1, sharedBytes: 232448, hasLibrary: false }
  const target = { ...cudaTargetOf(facts), minPrograms: 2 }
  const graph = trace([{ shape: [64, 1664] }, { shape: [1664, 256] }], (p) => c.matmul(at(p, 0), at(p, 1)))
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true, precision: 'tf32x3' })
  const [kernel] = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  if (kernel === undefined) throw new Error('no kernel')
  const scheduled = scheduleThreads(kernel, target.simt)
  expect(printThreadSchedule(scheduled).join('\n')).toMatch(/totals of %\d+ stand apart in registers/)
  expect(2 * (scheduled.schedule.sharedBytes + 1024)).toBeLessThanOrEqual(target.simt.maxSharedBytes + 1024)
  await expectEmulated(graph, program)
})
