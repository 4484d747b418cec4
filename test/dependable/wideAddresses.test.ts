/**
 * CUDA code over tensors beyond 2^31 and 2^32 elements and bytes: programs at their beginning, around both limits and at their end run
 * on the host, over address space that has memory only where elements are read and written; around it lies memory that nothing may touch.
 *
 * Sites looked at: index expressions, quotients, remainders and predicates (simt/point.ts); coordinates, blocks, chunks and loops
 * (scope.ts, kernel.ts, chunks.ts, loop.ts, pipeline.ts, scan.ts, multiplyVectors.ts); positions of arg-folds and their exchange
 * (fold.ts, partial.ts, exchangeInCluster.ts); counters of random bits (point.ts); extents in tables (member.ts, union.ts); reads for
 * later programs (upcoming.ts); rows of the grid (kernel.ts, dialects/cuda.ts, cuda/ffi.ts); indices from data and iota
 * (plan/instances.ts, lower/scatter.ts, lower/rowLoop.ts, compose/indexing.ts); dtypes of arg-folds (compose/reduce.ts, graph/ops/reduction.ts).
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { cudaCaps } from '../../src/codegen/simt/capability.ts'
import { emitKernel, threadCodeOf } from '../../src/codegen/simt/kernel.ts'
import { verifyThreadCode } from '../../src/codegen/simt/verify.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Node } from '../../src/graph/node.ts'
import { flatten, rangeOf, strideOf } from '../../src/index/expr.ts'
import type { Kernel, Stmt, StoreStmt } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { cudaTarget } from '../../src/plan/target.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import { randomElement } from '../../src/scalar/threefry.ts'
import { type DType, dtypeBytes } from '../../src/types/dtype.ts'
import { hostArray, hostView } from '../../src/types/host.ts'
import { maxElements, sizeOf } from '../../src/types/shape.ts'
import { hasCompiler } from '../simt/emulator/emulator.ts'
import { type SparseBuffer, SparseEmulated } from '../simt/emulator/sparse.ts'

const [G2, G4] = [2 ** 31, 2 ** 32]

type Spec = readonly [shape: readonly number[], dtype?: DType]
/** An element of an input, by its flat position. */
type Read = (input: number, at: number) => Scalar

interface Case {
  readonly name: string
  readonly specs: readonly Spec[]
  readonly build: (...inputs: readonly Node[]) => Node
  /** Elements of the result to look at, by flat position. */
  readonly at: readonly number[]
  readonly expected: (read: Read, at: number) => Scalar
  /** Values of an input; small integers unless given. */
  readonly value?: (input: number, at: number) => Scalar
  readonly tolerance?: number
  /** Elements of views that no kernel stores. */
  readonly through?: number
}

/** Odd sizes end in a tail. */
const long = G4 + 7
/** Around the limits, and the ends. */
const places = (n: number, ...more: readonly number[]): number[] =>
  [0, 1, G2 - 1, G2, G2 + 1, G4 - 1, G4, G4 + 1, n - 1, ...more].filter((p) => p >= 0 && p < n)

/** Small integers that differ from place to place, none of them zero. */
const pattern = (input: number, at: number): number => {
  const x = (at % 61) + 7 * (Math.floor(at / 65536) % 5) + 3 * (Math.floor(at / G2) % 3) + input
  return (x % 50) + 1
}
const num = (x: Scalar): number => Number(x)

const all: readonly Case[] = [
  ...(
    [
      ['f32', long],
      ['f64', G2 + 9],
      ['bf16', G4 + 5],
      ['i8', G4 + 3],
      ['i64', G2 - 1],
      ['i16', G2],
      ['bool', G4 + 1],
    ] as const
  ).map(
    ([dtype, n]): Case => ({
      name: `elementwise ${dtype}[${n}]`,
      specs: [[[n], dtype]],
      build: (x) => (dtype === 'bool' ? c.unary('not', x) : c.add(x, 3)),
      at: places(n, 4099, G2 + 4095),
      value: (i, at) => (dtype === 'bool' ? at % 3 === 0 : dtype === 'i64' ? BigInt(pattern(i, at)) : pattern(i, at)),
      expected: (read, at) => {
        const x = read(0, at)
        return typeof x === 'boolean' ? !x : typeof x === 'bigint' ? x + 3n : num(x) + 3
      },
    }),
  ),
  {
    name: 'positions as f64 and i64',
    specs: [[[long], 'i8']],
    build: (x) => c.add(c.cast(x, 'i64'), c.iota([long], 0, 'i64')),
    at: places(long),
    expected: (read, at) => BigInt(at) + BigInt(num(read(0, at))),
  },
  {
    name: 'a slice at the end',
    specs: [[[long], 'f32']],
    build: (x) => c.mul(c.sliceAxis(x, 0, G4 - 100, long), 2),
    at: [0, 99, 100, 106],
    expected: (read, at) => 2 * num(read(0, G4 - 100 + at)),
  },
  {
    name: 'joined pieces',
    specs: [
      [[G2 + 5], 'i8'],
      [[G2 + 5], 'i8'],
    ],
    build: (x, y) => c.concat([x, y], 0),
    at: places(2 * G2 + 10, G2 + 4, G2 + 5, G2 + 6),
    expected: (read, at) => (at < G2 + 5 ? read(0, at) : read(1, at - G2 - 5)),
  },
  {
    name: 'a strided view, turned round',
    specs: [[[65536, 65537], 'bf16']],
    build: (x) => c.flip(c.sliceAxis(x, 1, 1, 65537, 2), [0]),
    at: [0, 32767, 32768, G2 - 1],
    expected: (read, at) => {
      const [row, column] = [Math.floor(at / 32768), at % 32768]
      return read(0, (65535 - row) * 65537 + 1 + 2 * column)
    },
  },
  {
    name: 'a transposed matrix',
    specs: [[[65536, 65540], 'f32']],
    build: (x) => c.add(c.transpose(x), 1),
    at: places(65536 * 65540),
    expected: (read, at) => num(read(0, (at % 65536) * 65540 + Math.floor(at / 65536))) + 1,
  },
  {
    name: 'a reshaped sum of a row and a column',
    specs: [
      [[65536, 3, 21847], 'i16'],
      [[65536 * 3], 'i16'],
    ],
    build: (x, y) => c.add(c.reshape(x, [65536 * 3, 21847]), c.expandDims(y, 1)),
    at: places(65536 * 3 * 21847),
    expected: (read, at) => num(read(0, at)) + num(read(1, Math.floor(at / 21847))),
  },
  {
    name: 'rows gathered by i64 indices',
    specs: [
      [[long], 'f32'],
      [[64], 'i64'],
    ],
    build: (x, i) => c.take(x, i, 0),
    at: [0, 5, 63],
    value: (input, at) => (input === 1 ? BigInt(at === 5 ? -3 : long - 1 - 40 * at) : pattern(input, at)),
    expected: (read, at) => {
      const i = num(read(1, at))
      return read(0, i < 0 ? i + long : i)
    },
  },
  {
    name: 'rows gathered by i32 indices from more than i32 holds',
    specs: [
      [[long], 'u8'],
      [[64], 'i32'],
    ],
    build: (x, i) => c.take(x, i, 0),
    at: [0, 5, 63],
    value: (input, at) => (input === 1 ? (at === 5 ? -2 : G2 - 1 - at) : pattern(input, at)),
    expected: (read, at) => {
      const i = num(read(1, at))
      return read(0, i < 0 ? i + long : i)
    },
  },
  {
    name: 'sums of short rows',
    specs: [[[G2 / 16, 33], 'bf16']],
    build: (x) => c.sum(c.cast(x, 'f32'), 1),
    at: [0, G2 / 33 - 1, G2 / 33 + 1, G2 / 16 - 1].map(Math.floor),
    expected: (read, at) => Array.from({ length: 33 }, (_, j) => num(read(0, at * 33 + j))).reduce((a, b) => a + b),
  },
  {
    name: 'the places of the greatest of rows',
    specs: [[[G2 / 512, 1025], 'i8']],
    build: (x) => c.argmax(x, 1),
    at: [0, 2 ** 21, G2 / 512 - 1],
    value: (_, at) => (at * 37) % 113,
    expected: (read, at) => {
      const row = Array.from({ length: 1025 }, (_, j) => num(read(0, at * 1025 + j)))
      return row.indexOf(Math.max(...row))
    },
  },
  {
    name: 'running sums of rows',
    specs: [[[G2 / 128, 257], 'i32']],
    build: (x) => c.cumsum(x, 1),
    at: [0, 256, G2 + 300, 2 * G2 + 5, (G2 / 128) * 257 - 1],
    expected: (read, at) => {
      const row = Math.floor(at / 257) * 257
      let sum = 0
      for (let j = row; j <= at; j++) sum += num(read(0, j))
      return sum
    },
  },
  ...(['u8', 'u32'] as const).map(
    (dtype): Case => ({
      name: `random bits ${dtype} with counters beyond 32 bits`,
      specs: [[[2], 'u32']],
      build: (key) => c.randomBits(key, [dtype === 'u8' ? 2 ** 35 + 64 : 2 ** 33 + 64], dtype),
      at:
        dtype === 'u8'
          ? [0, G2, G4, 2 ** 35 - 1, 2 ** 35, 2 ** 35 + 63]
          : [0, G2 - 1, G4 + 1, 2 ** 33 - 1, 2 ** 33, 2 ** 33 + 63],
      value: (_, at) => 1234567 + at,
      expected: (read, at) => randomElement(dtype, num(read(0, 0)), num(read(0, 1)), at),
    }),
  ),
  ...([11, 1] as const).map((stride): Case => {
    const side = Math.floor((2048 - 11) / stride) + 1
    return {
      name: `averages of 11 x 11 windows of [16, 64, 2048, 2048], ${stride} apart`,
      specs: [[[16, 64, 2048, 2048]]],
      build: (x) => c.averagePool(x, [11, 11], { stride }),
      at: [0, 16 * 32 * side * side - 1, 16 * 32 * side * side + 5, 16 * 64 * side * side - 1],
      expected: (read, at) => {
        const [plane, row, column] = [Math.floor(at / side ** 2), Math.floor(at / side) % side, at % side]
        let sum = 0
        for (let i = 0; i < 11; i++)
          for (let j = 0; j < 11; j++)
            sum += num(read(0, plane * 2048 ** 2 + (row * stride + i) * 2048 + column * stride + j))
        return sum / 121
      },
      tolerance: 1e-5,
      through: 2 ** 40,
    }
  }),
  {
    name: 'a product of many matrices on tensor cores',
    specs: [
      [[4097, 1024, 1024], 'bf16'],
      [[1024, 64], 'bf16'],
    ],
    build: (x, y) => c.matmul(x, y),
    at: [0, 4097 * 1024 * 64 - 1],
    value: (input, at) => (((at * 7 + input) % 5) - 2) / 4,
    expected: (read, at) => {
      const [row, column] = [Math.floor(at / 64), at % 64]
      return Array.from(
        { length: 1024 },
        (_, k) => num(read(0, row * 1024 + k)) * num(read(1, k * 64 + column)),
      ).reduce((a, b) => a + b)
    },
    tolerance: 0.01,
  },
]

/** A shape of a graph holds at most `maxElements`. */
const cases = all.filter(
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
      return part.grid.reduce((n, g) => {
        const extent = part.axes.find((a) => a.name === g.axis)?.extent ?? 1
        return n * Math.ceil(extent / g.block) + Math.floor((coordinates.get(g.axis) ?? 0) / g.block)
      }, before)
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
    for (const k of kernels) verifyThreadCode(threadCodeOf(k, 'cuda', cudaCaps))
    expect(kernels.some((k) => threadCodeOf(k, 'cuda', cudaCaps).body.length > 0)).toBe(true)
  })

  test.skipIf(!hasNvcc())('compiles for a GPU without spills (skipped without nvcc)', { timeout: 120_000 }, () => {
    const few = kernels.filter((_, i) => i % 4 === 0)
    const folder = mkdtempSync(join(tmpdir(), 'sinter-wide-'))
    try {
      const file = join(folder, 'wide.cu')
      const sources = few.map((k, i) => `namespace n${i} {\n${emitKernel(k, 'cuda', cudaCaps).source}\n}`)
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
    verifyThreadCode(threadCodeOf(kernel, 'cuda', cudaCaps))
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
