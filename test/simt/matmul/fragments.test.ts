/** Few rows times weights in few bits: columns are computed as fragments where they are multiplied, from copies that run ahead. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { parseKernels } from '../../../src/kernel/parse.ts'
import { readElement, writeElement } from '../../../src/scalar/host.ts'
import { cudaTargetOf } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { hostArray } from '../../../src/types/host.ts'
import { at, trace } from '../../compile/support.ts'
import { some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

interface Case {
  readonly m: number
  readonly k: number
  readonly n: number
  readonly dtype: 'bf16' | 'f16'
  /** Indices of the depth that share a scale, of weights in four bits; absent: eight bits, a scale a column. */
  readonly group?: number
  readonly biased?: true
  /** What is taken from numbers in four bits: 8, numbers of groups in four bits themselves, or they are signed. */
  readonly zero?: 'stored' | 'signed'
  /** Rows are given as [k, m], or computed: they are read from shared memory beside columns there. */
  readonly rows?: 'turned' | 'computed'
}

/** Weights [n, k] in pairs of four bits and scales of groups, as [n, k]. */
function widened(bytes: Node, scales: Node, { k, n, group = k, dtype, zero }: Case, zeros: Node): Node {
  const number = (v: number): Node => c.full(bytes.shape, v, 'u8')
  const pairs = c.stack([c.binary('and', bytes, number(15)), c.binary('shr', bytes, number(4))], -1)
  const grouped = c.reshape(pairs, [n, k / group, group])
  const flipped = zero === 'signed' ? c.binary('xor', grouped, c.full(grouped.shape, 8, 'u8')) : grouped
  const given = c.binary('and', zeros, c.full(zeros.shape, 15, 'u8'))
  const less = zero === 'stored' ? c.cast(c.reshape(given, [n, k / group, 1]), dtype) : 8
  const wide = c.sub(c.cast(flipped, dtype), less)
  return c.reshape(c.mul(wide, c.reshape(scales, [n, k / group, 1])), [n, k])
}

const productOf = (given: Case): Graph => {
  const { m, k, n, dtype, group, biased } = given
  const weights =
    group === undefined
      ? [
          { shape: [n, k], dtype: 'i8' as const },
          { shape: [n, 1], dtype },
        ]
      : [
          { shape: [n, k / 2], dtype: 'u8' as const },
          { shape: [n, k / group], dtype },
          { shape: [n, k / group], dtype: 'u8' as const },
        ]
  const { rows } = given
  return trace([{ shape: rows === 'turned' ? [k, m] : [m, k], dtype }, { shape: [n], dtype }, ...weights], (p) => {
    const [data, bias, w, scales] = [at(p, 0), at(p, 1), at(p, 2), at(p, 3)]
    const x = rows === 'turned' ? c.transpose(data, [1, 0]) : rows === 'computed' ? c.relu(data) : data
    const wide = group === undefined ? c.mul(c.cast(w, dtype), scales) : widened(w, scales, given, at(p, 4))
    const y = c.matmul(x, c.transpose(wide, [1, 0]))
    return biased === true ? c.relu(c.add(y, bias)) : y
  })
}

const h100 = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: true })
/** The same with every multiplication in kernels, and too few programs at once for the depth to be cut into single blocks. */
const { library: _, programShare, ...kernelsAlone } = h100
const small = { ...kernelsAlone, minPrograms: 2 }

const kernelsOf = (graph: Graph, target: Machine) => {
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
  return { program, kernels: program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])) }
}

test.skipIf(!hasCompiler()).each<Case>(
  some<Case>(
    [
      { m: 16, k: 1024, n: 384, dtype: 'bf16' },
      { m: 7, k: 528, n: 301, dtype: 'bf16', biased: true },
      { m: 5, k: 1040, n: 130, dtype: 'f16' },
      { m: 16, k: 1024, n: 384, dtype: 'bf16', group: 32 },
      { m: 3, k: 544, n: 263, dtype: 'f16', group: 32, biased: true },
      { m: 9, k: 1280, n: 77, dtype: 'bf16', group: 64 },
      { m: 5, k: 4096, n: 301, dtype: 'bf16', group: 32 },
      { m: 12, k: 1152, n: 200, dtype: 'bf16', group: 128 },
      { m: 16, k: 2048, n: 256, dtype: 'bf16', group: 64, zero: 'stored' },
      { m: 13, k: 1280, n: 130, dtype: 'f16', group: 32, zero: 'stored' },
      { m: 4, k: 1536, n: 320, dtype: 'bf16', group: 32, zero: 'signed' },
    ],
    4,
  ),
)('$m x $k x $n, $dtype, groups of $group', { timeout: 120_000 }, async (given) => {
  const graph = productOf(given)
  const { program, kernels } = kernelsOf(graph, small)
  const [kernel, ...others] = kernels
  // What follows adds the parts of the depth.
  expect(others.every((k) => k.params.every((p) => p.dtype !== 'u8' && p.dtype !== 'i8'))).toBe(true)
  const source = kernel === undefined ? '' : emitKernel(kernel, small.simt).source
  expect(source).toContain('columns in fragments')
  expect(source).toContain('copy_words_')
  // Numbers of four bits are converted and scaled two at a time.
  if (given.group !== undefined) expect(source).toContain(`${given.dtype}_pairs_mul(`)
  await expectEmulated(graph, program)
})

test.skipIf(!hasCompiler()).each<Case>(
  some<Case>(
    [
      { m: 77, k: 544, n: 263, dtype: 'f16', group: 32, biased: true },
      { m: 64, k: 576, n: 384, dtype: 'bf16', group: 32 },
      { m: 200, k: 320, n: 130, dtype: 'bf16', group: 64, zero: 'stored' },
      { m: 96, k: 352, n: 301, dtype: 'bf16', group: 32, zero: 'signed' },
    ],
    3,
  ),
)('$m x $k x $n, $dtype, groups of $group: tiles are computed two at a time', { timeout: 120_000 }, async (given) => {
  const graph = productOf(given)
  const { program, kernels } = kernelsOf(graph, small)
  const source = kernels.map((k) => emitKernel(k, small.simt).source).join()
  expect(source).not.toContain('columns in fragments')
  expect(source).toContain(`${given.dtype}_pairs_mul(`)
  await expectEmulated(graph, program)
})

test.skipIf(!hasCompiler()).each<Case>(
  some<Case>(
    [
      { m: 16, k: 1024, n: 384, dtype: 'bf16', rows: 'turned' },
      { m: 11, k: 1600, n: 259, dtype: 'f16', rows: 'turned', biased: true },
      { m: 16, k: 2048, n: 130, dtype: 'bf16', rows: 'computed' },
      { m: 6, k: 1088, n: 384, dtype: 'bf16', rows: 'computed', group: 64 },
    ],
    2,
  ),
)('$m x $k x $n, $dtype, rows $rows, groups of $group', { timeout: 120_000 }, async (given) => {
  const graph = productOf(given)
  const { program, kernels } = kernelsOf(graph, small)
  const source = kernels.map((k) => emitKernel(k, small.simt).source).join()
  // Computed rows are a kernel of their own, or share a step's columns.
  if (given.rows === 'turned') expect(source).not.toContain('partial_depth')
  await expectEmulated(graph, program)
})

test.skipIf(!hasCompiler())('warps share the depth of tiles, too', async () => {
  const [m, k, n] = [16, 1000, 64]
  const [kernel] = parseKernels(`kernel shared_depth {
  param x: bf16[${m}, ${k}] read
  param w: i8[${k}, ${n}] read
  param y: f32[${m}, ${n}] write
  axes i: ${m}, j: ${n}, k: ${k}
  grid i/16, j/64
  %0 f32{i, j} = const 0
  %1 = loop k/256 {
    carry %2 f32{i, j} = %0
    %3 bf16{i, k} = load x[i, k] where 0 <= k < ${k} else 0
    %4 i8{k, j} = load w[k, j] where 0 <= k < ${k} else 0
    %5 bf16{k, j} = cast %4
    %6 bf16{i, k} = stage %3
    %7 bf16{k, j} = stage %5
    %8 f32{i, j} = dot %6, %7 over k acc %2
    next %8
  }
  store y[i, j] = %1
}`)
  if (kernel === undefined) throw new Error('no kernel')
  const source = emitKernel(kernel, h100.simt).source
  expect(source).toContain('partial_depth')
  expect(source).not.toContain('columns in fragments')
  const numberAt = (i: number): number => ((i * 7919) % 5) - 2
  const data = { x: hostArray('bf16', m * k), w: hostArray('i8', k * n), y: hostArray('f32', m * n) }
  for (let i = 0; i < m * k; i++) writeElement(data.x, 'bf16', i, numberAt(i))
  for (let i = 0; i < k * n; i++) writeElement(data.w, 'i8', i, numberAt(i + 3))
  const emulated = new Emulated([kernel], h100.simt)
  await emulated.run(0, data)
  emulated.dispose()
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let want = 0
      for (let d = 0; d < k; d++) want += numberAt(i * k + d) * numberAt(d * n + j + 3)
      expect(Number(readElement(data.y, 'f32', i * n + j)), `${i}, ${j}`).toBe(want)
    }
})

test('rows times weights in few bits for few programs are cut along the depth', () => {
  const { kernels } = kernelsOf(productOf({ m: 16, k: 4096, n: 1000, dtype: 'bf16', group: 32 }), h100)
  expect(kernels.map((k) => emitKernel(k, h100.simt).source).join()).not.toContain('partial_depth')
})

test.each([
  { m: 2, group: undefined },
  { m: 16, group: undefined },
  { m: 16, group: 32 },
])('warps share the depth of $m rows times weights in few bits, groups of $group', ({ m, group }) => {
  const given: Case = { m, k: 4096, n: 14336, dtype: 'bf16', ...(group === undefined ? {} : { group }) }
  const { program, kernels } = kernelsOf(productOf(given), h100)
  const [kernel] = kernels
  // No results of parts of the depth, and no stage that adds them.
  expect(program.steps).toHaveLength(1)
  expect(kernel === undefined ? '' : emitKernel(kernel, h100.simt).source).toContain('partial_depth')
})

test('weights whose numbers of the depth lie apart are multiplied by columns', () => {
  const graph = trace(
    [
      { shape: [16, 4096], dtype: 'bf16' },
      { shape: [4096, 14336], dtype: 'i8' },
      { shape: [14336], dtype: 'bf16' },
    ],
    (p) => c.matmul(at(p, 0), c.mul(c.cast(at(p, 1), 'bf16'), at(p, 2))),
  )
  const sources = kernelsOf(graph, h100).kernels.map((k) => emitKernel(k, h100.simt).source)
  expect(sources.join()).not.toContain('partial_depth')
})

test.each([2, 7, 16, 64])('%i rows times weights in four bits are one kernel, beside a library', (m) => {
  const { program, kernels } = kernelsOf(productOf({ m, k: 4096, n: 14336, dtype: 'bf16', group: 32 }), h100)
  expect(program.steps.filter((s) => s.kind === 'product')).toHaveLength(0)
  const [kernel] = kernels
  const source = kernel === undefined ? '' : emitKernel(kernel, h100.simt).source
  // Bytes, and with them the scales, are copied ahead in words.
  expect(source).toContain('copy_words_')
})
