/**
 * CUDA code over tensors beyond 2^31 and 2^32 elements and bytes: programs at their beginning, around both limits and at their end run
 * on the host, over address space that has memory only where elements are read and written; around it lies memory that nothing may touch.
 *
 * Sites looked at: index expressions, quotients, remainders and predicates (simt/point.ts); coordinates, blocks, chunks and loops
 * (scope.ts, kernel.ts, walks.ts, loop.ts, prefetch.ts, scan.ts, multiplyVectors.ts); positions of arg-folds and their exchange
 * (fold.ts, partial.ts, exchangeInCluster.ts); counters of random bits (point.ts); extents in tables (member.ts, union.ts); reads for
 * later programs (prefetchNext.ts); rows of the grid (kernel.ts, dialects/cuda.ts, cuda/ffi.ts); indices from data and iota
 * (plan/body/instances.ts, lower/scatter.ts, lower/rowLoop.ts, compose/indexing.ts); dtypes of arg-folds (compose/reduce.ts, graph/ops/reduction.ts).
 *
 * NVIDIA's compiler moves constants out of multiples of a block's number as if these fitted 32 bits always. The host's does not, so for
 * it the code is verified instead. Sites: numbers of programs of a union and of groups in its table (simt/programNumber.ts, member.ts,
 * kernel.ts); sums whose terms leave 32 bits and whose offset brings them back (kernel/indexType.ts).
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { flatten, rangeOf, strideOf } from '../../src/affine/expr.ts'
import { verifyThreadCode } from '../../src/codegen/simt/ir/verify.ts'
import { emitKernel, threadCodeOf } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import { typeOfExpr } from '../../src/kernel/indexType.ts'
import type { Kernel, Stmt, StoreStmt } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { hostArray, hostView } from '../../src/types/host.ts'
import { maxElements, sizeOf } from '../../src/types/shape.ts'
import { hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { type SparseBuffer, SparseEmulated } from '../simt/dialects/emulator/sparse.ts'
import { allCases, type Case, G2, num, pattern, type Read } from './wideCases.ts'

/** A shape of a graph holds at most `maxElements`. */
const cases = allCases.filter(
  ({ specs, at, through = 0 }) =>
    Math.max(through, ...at) < maxElements && specs.every(([shape]) => shape.reduce((n, d) => n * d, 1) <= maxElements),
)

interface Built {
  readonly kernel: Kernel
  /** The input that a parameter is; undefined for the result. */
  readonly inputOf: ReadonlyMap<string, number | undefined>
}

const builtOf = ({ specs, build }: Case, i: number): Built => {
  const graph = withOrigin('wide', undefined, () =>
    withContext(() => {
      const params = specs.map(([shape, dtype = 'f32'], i) => param(i, shape, dtype))
      return { params, outputs: [build(...params)], effects: [] }
    }),
  )
  const { steps, buffers } = compileGraph(graph, { mode: 'fast', target: cudaTarget }).program
  const [only, second] = steps
  if (only?.kind !== 'kernel' || second !== undefined)
    throw new Error(`${steps.length} steps, the first a ${only?.kind}`)
  const inputOf = new Map(
    only.kernel.params.map((p, at) => {
      const source = buffers[only.buffers[at] ?? -1]?.source
      return [p.name, source?.kind === 'input' ? source.index : undefined]
    }),
  )
  return { kernel: { ...only.kernel, name: `k${i}_wide` }, inputOf }
}

function* storesIn(body: readonly Stmt[]): Generator<StoreStmt> {
  for (const s of body)
    if (s.kind === 'store') yield s
    else if (s.kind === 'loop') yield* storesIn(s.body)
}

/** The number of the program that stores an element: its coordinates from the strides of the store. */
function programOf(kernel: Kernel, at: number): number {
  let before = 0
  for (const part of kernel.parts) {
    const programs = part.grid.reduce(
      (n, g) => n * Math.ceil((part.axes.find((a) => a.name === g.axis)?.extent ?? 1) / g.block),
      1,
    )
    for (const s of storesIn(part.body)) {
      const shape = kernel.params.find((p) => p.name === s.param)?.shape ?? []
      const flat = flatten(s.index, shape)
      const { lo, hi } = rangeOf(flat)
      if (at < lo || at > hi) continue
      let rest = at - flat.offset
      const coordinates = new Map<string, number>()
      const strides = part.axes.map((a) => ({ ...a, stride: strideOf(flat, a.name) ?? 0 })).filter((a) => a.stride > 0)
      for (const a of strides.sort((p, q) => q.stride - p.stride)) {
        const x = Math.min(Math.floor(rest / a.stride), a.extent - 1)
        coordinates.set(a.name, x)
        rest -= x * a.stride
      }
      if (rest !== 0) continue
      const own = part.grid.reduce((n, g) => {
        const extent = part.axes.find((a) => a.name === g.axis)?.extent ?? 1
        return n * Math.ceil(extent / g.block) + Math.floor((coordinates.get(g.axis) ?? 0) / g.block)
      }, 0)
      return before + own
    }
    before += programs
  }
  throw new Error(`no program stores element ${at}`)
}

const hasNvcc = (): boolean => spawnSync('nvcc', ['--version']).status === 0

describe.skipIf(!hasCompiler())('programs over tensors beyond 32 bits (skipped without a C++ compiler)', () => {
  const made = cases.map(builtOf)
  const kernels = made.map((x) => x.kernel)
  const built = hasCompiler() ? new SparseEmulated(kernels) : undefined
  afterAll(() => built?.dispose())

  test.each(cases.map((x, i) => [x.name, i] as const))('%s', (_, i) => {
    const [x, kernel] = [cases[i], kernels[i]]
    if (x === undefined || kernel === undefined || built === undefined) throw new Error('no case')
    const value = x.value ?? pattern
    const given = x.specs.map(() => new Map<number, Uint8Array>())
    const read: Read = (input, at) => {
      const dtype = x.specs[input]?.[1] ?? 'f32'
      const one = hostArray(dtype, 1)
      writeElement(one, dtype, 0, value(input, at))
      given[input]?.set(at * dtypeBytes(dtype), new Uint8Array(one.buffer))
      return readElement(one, dtype, 0)
    }
    const expected = x.at.map((at) => x.expected(read, at))
    const buffers: Record<string, SparseBuffer> = {}
    const output = kernel.params.find((p) => p.access !== 'read')
    if (output === undefined) throw new Error('no result')
    for (const p of kernel.params) {
      const bytes = sizeOf(p.shape) * dtypeBytes(p.dtype)
      const wanted =
        p === output ? x.at.map((at) => ({ at: at * dtypeBytes(p.dtype), bytes: dtypeBytes(p.dtype) })) : []
      buffers[p.name] = { bytes, given: given[made[i]?.inputOf.get(p.name) ?? -1] ?? new Map(), wanted }
    }
    const programs = [...new Set(x.at.map((at) => programOf(kernel, at)))]
    const got = built
      .run(i, programs, buffers)
      .map((b) => readElement(hostView(output.dtype, b.slice().buffer, 0, 1), output.dtype, 0))
    expected.forEach((want, k) => {
      const close =
        x.tolerance === undefined
          ? Object.is(got[k], want)
          : Math.abs(num(got[k] ?? 0) - num(want)) <= x.tolerance * Math.max(1, Math.abs(num(want)))
      expect(close, `element ${x.at[k]}: ${String(got[k])}, expected ${String(want)}`).toBe(true)
    })
  })

  test('the code of all has the types that it says', () => {
    for (const k of kernels) verifyThreadCode(threadCodeOf(scheduleThreads(k, cudaSimt)))
    expect(kernels.some((k) => threadCodeOf(scheduleThreads(k, cudaSimt)).body.length > 0)).toBe(true)
  })

  test.skipIf(!hasNvcc())('compiles for a GPU without spills (skipped without nvcc)', { timeout: 120_000 }, () => {
    const few = kernels.filter((_, i) => i % 4 === 0)
    const folder = mkdtempSync(join(tmpdir(), 'sinter-wide-'))
    try {
      const file = join(folder, 'wide.cu')
      const sources = few.map((k, i) => `namespace n${i} {\n${emitKernel(k, cudaSimt).source}\n}`)
      writeFileSync(file, sources.join('\n'))
      const args = ['-w', '-cubin', '-arch=sm_90a', '--resource-usage', '-o', join(folder, 'wide.cubin'), file]
      const run = spawnSync('nvcc', args, { encoding: 'utf8' })
      expect(run.status, run.stderr).toBe(0)
      const spills = [...`${run.stdout}${run.stderr}`.matchAll(/(\d+) bytes spill stores/g)].map(([, n]) => Number(n))
      expect(spills).toEqual(few.map(() => 0))
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test.each([
    ['after 32767 programs, rows of 65536', 32767, 64, 65536, true],
    ['after 7 programs, as many rows as 32 bits hold', 7, 2 ** 15 - 1, 65536, true],
    ['after 100 programs, 64 rows', 100, 64, 65536, false],
  ])('numbers of programs are hidden where their multiples leave 32 bits: %s', (_, first, rows, columns, isHidden) => {
    const kernel = parseKernel(`kernel k0_after {
  param x: u8[${rows}, ${columns}] read
  param y: u8[${rows}, ${columns}] write
  param z: u8[${first}] write
  part {
    axes i: ${first}
    grid i
    %0 u8 = const 1
    store z[i] = %0
  }
  part {
    axes i: ${rows}, j: ${columns}
    grid i
    %1 u8{i, j} = load x[i, j]
    store y[i, j] = %1
  }
}`)
    const code = threadCodeOf(scheduleThreads(kernel, cudaSimt))
    verifyThreadCode(code)
    expect(emitKernel(kernel, cudaSimt).source.includes(`i32_runtime(program - ${first})`)).toBe(isHidden)
  })

  test('a sum that only its offset brings back into 32 bits is one of 64', () => {
    const sum = ix.add(ix.mul(ix.axis('i', 2 ** 21), 1023), ix.mul(ix.axis('j', 2 ** 10), 4096))
    expect(rangeOf(ix.addConst(sum, -(2 ** 22))).hi).toBeLessThan(2 ** 31)
    expect(typeOfExpr(ix.addConst(sum, -(2 ** 22)))).toBe('i64')
    expect(typeOfExpr(ix.axis('i', 2 ** 31 - 1))).toBe('i32')
  })

  test('more programs than a row of the grid has', () => {
    const [n, each] = [2 ** 31 + 5, 3]
    const kernel = parseKernel(`kernel k0_rows {
  param x: u8[${n}, ${each}] read
  param y: i32[${n}] write
  axes i: ${n}, j: ${each}
  grid i
  %0 u8{i, j} = load x[i, j]
  %1 i32{i, j} = cast %0
  %2 i32{i} = reduce sum %1 over j
  store y[i] = %2
}`)
    verifyThreadCode(threadCodeOf(scheduleThreads(kernel, cudaSimt)))
    const rows = new SparseEmulated([kernel])
    try {
      expect(rows.sources[0]).toMatchObject({ programs: n, rows: 2 })
      const at = [0, 1, G2 - 2, G2 - 1, G2, n - 1]
      const given = new Map(
        at.flatMap((p) => [0, 1, 2].map((j): [number, Uint8Array] => [p * each + j, Uint8Array.of((p % 7) + j)])),
      )
      const got = rows.run(0, at, {
        x: { bytes: n * each, given, wanted: [] },
        y: { bytes: 4 * n, given: new Map(), wanted: at.map((p) => ({ at: 4 * p, bytes: 4 })) },
      })
      expect(got.map((b) => new Int32Array(b.slice().buffer)[0])).toEqual(at.map((p) => 3 * (p % 7) + 3))
    } finally {
      rows.dispose()
    }
  })
})
