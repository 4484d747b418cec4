/**
 * Kernels of CUDA that programs over wide tensors rarely have, from their text: bools of one bit an element beyond 2^32 elements, unions
 * whose parts are each beyond 2^31 (with a table of addresses and without), and rows that a cluster holds in tensors beyond 2^31 elements.
 * They run on the host, over address space that has memory only where elements are read and written.
 *
 * Sites looked at: simt/words.ts and memory.ts (bits of a word), union.ts and member.ts (extents and first programs in the table),
 * launchShape.ts, exchangeInCluster.ts and partial.ts (threads of a cluster), arg-folds over such rows (fold.ts), prefetchNext.ts.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { verifyThreadCode } from '../../src/codegen/simt/ir/verify.ts'
import { threadCodeOf } from '../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { type SparseBuffer, SparseEmulated } from '../simt/dialects/emulator/sparse.ts'
import { G2, G4 } from './wideCases.ts'

const bits = G4 + 4099
const packed = parseKernel(`kernel k0_bits {
  param x: bool[${bits}] read bits
  param y: bool[${bits}] write bits
  axes i: ${bits}
  grid i/4096
  %0 bool{i} = load x[i]
  %1 bool{i} = not %0
  store y[i] = %1
}`)

/** Parts of one code, u8, in the order in which their programs are numbered, and one of another. */
const extents = [G2 + 5, G4 + 7, G2 - 3, 1000] as const
const halves = G2 + 77
const union = parseKernel(`kernel k1_union {
${extents.map((n, i) => `  param x${i}: u8[${n}] read\n  param y${i}: u8[${n}] write`).join('\n')}
  param a: i16[${halves}] read
  param b: f32[${halves}] write
${extents
  .map(
    (n, i) => `  part {
    axes i: ${n}
    grid i/${Math.min(n, 4096)}
    %0 u8{i} = load x${i}[i]
    %1 u8 = const 1
    %2 u8{i} = add %0, %1
    store y${i}[i] = %2
  }`,
  )
  .join('\n')}
  part {
    axes i: ${halves}
    grid i/2048
    %0 i16{i} = load a[i]
    %1 f32{i} = cast %0
    store b[i] = %1
  }
}`)

const [rows, row] = [G2 / 65536 + 9, 65536]
const cluster = parseKernel(`kernel k2_cluster {
  param x: f32[${rows}, ${row}] read
  param y: f32[${rows}, ${row}] write
  param p: i32[${rows}] write
  axes i: ${rows}, j: ${row}
  grid i
  %0 f32{i, j} = load x[i, j]
  %1 f32{i} = reduce max %0 over j
  %2 f32{i, j} = sub %0, %1
  %3 i32{i} = reduce argmax %2 over j
  store y[i, j] = %2
  store p[i] = %3
}`)

describe.skipIf(!hasCompiler())('kernels over tensors beyond 32 bits (skipped without a C++ compiler)', () => {
  const kernels = [packed, union, cluster]
  const built = hasCompiler() ? new SparseEmulated(kernels) : undefined
  afterAll(() => built?.dispose())
  const run = (i: number, programs: readonly number[], buffers: Record<string, SparseBuffer>): Uint8Array[] => {
    if (built === undefined) throw new Error('nothing is built')
    return built.run(
      i,
      [...new Set(programs)].sort((p, q) => p - q),
      buffers,
    )
  }
  const only = (bytes: number, at: readonly number[], each: number): SparseBuffer => ({
    bytes,
    given: new Map(),
    wanted: at.map((p) => ({ at: p * each, bytes: each })),
  })

  test('the code has the types that it says', () => {
    for (const k of kernels) verifyThreadCode(threadCodeOf(scheduleThreads(k, cudaSimt)))
  })

  test('bits of a word beyond 2^32 elements', () => {
    const bytes = Math.ceil(bits / 8)
    const at = [0, 4096 / 8, G2 / 8 - 1, G2 / 8, G4 / 8 - 1, G4 / 8, G4 / 8 + 511, bytes - 2]
    const value = (p: number): number => (p * 37 + 11) % 256
    const got = run(
      0,
      at.map((p) => Math.floor((8 * p) / 4096)),
      {
        x: { bytes, given: new Map(at.map((p) => [p, Uint8Array.of(value(p))])), wanted: [] },
        y: only(bytes, at, 1),
      },
    )
    expect(got.map((b) => b[0])).toEqual(at.map((p) => 255 - value(p)))
  })

  test('parts of a union, each beyond 2^31', () => {
    const programs: number[] = []
    const buffers: Record<string, SparseBuffer> = {}
    const wanted: number[] = []
    let before = 0
    const value = (p: number): number => (p * 31 + 7) % 200
    extents.forEach((n, i) => {
      const at = [0, 999, G2 - 4, G2 - 1, G2 + 4, G4 - 1, G4 + 6, n - 1].filter(
        (p, k, all) => p < n && all.indexOf(p) === k,
      )
      for (const p of at) programs.push(before + Math.floor(p / 4096))
      before += Math.ceil(n / 4096)
      buffers[`x${i}`] = { bytes: n, given: new Map(at.map((p) => [p, Uint8Array.of(value(p))])), wanted: [] }
      buffers[`y${i}`] = only(n, at, 1)
    })
    const last = [0, G2 - 1, G2, halves - 1]
    for (const p of last) programs.push(before + Math.floor(p / 2048))
    buffers.a = {
      bytes: 2 * halves,
      given: new Map(last.map((p, k) => [2 * p, new Uint8Array(Int16Array.of(-300 - k).buffer)])),
      wanted: [],
    }
    buffers.b = only(4 * halves, last, 4)
    // Results come in the order of the kernel's buffers: by the positions that were asked of each.
    const got = run(1, programs, buffers)
    const asked = (built?.sources[1]?.table ?? []).length
    expect(asked).toBeGreaterThan(0)
    let next = 0
    const seen = new Map<string, Uint8Array[]>()
    for (const name of orderOf(1)) {
      const count = buffers[name]?.wanted.length ?? 0
      seen.set(name, got.slice(next, next + count))
      next += count
    }
    extents.forEach((_, i) => {
      const places = buffers[`y${i}`]?.wanted.map((w) => w.at) ?? []
      wanted.push(...places)
      expect(seen.get(`y${i}`)?.map((b) => b[0])).toEqual(places.map((p) => value(p) + 1))
    })
    expect(wanted.length).toBeGreaterThan(16)
    expect(seen.get('b')?.map((b) => new Float32Array(b.slice().buffer)[0])).toEqual(last.map((_, k) => -300 - k))
  })

  /** Names of a kernel's buffers as they are bound. */
  const orderOf = (i: number): string[] => {
    const source = built?.sources[i]
    if (source === undefined) throw new Error('nothing is built')
    const named = (source.table ?? []).filter((e): e is string => typeof e === 'string')
    return [...new Set([...source.bindings.map((b) => b.name), ...named])]
  }

  test('rows that a cluster holds', () => {
    expect(built?.sources[2]?.cluster).toBeGreaterThan(1)
    const programs = [0, rows - 10, rows - 9, rows - 1]
    const top = (r: number): number => (r * 7919 + 40000) % row
    const given = new Map(
      programs.flatMap((r): [number, Uint8Array][] => [
        [4 * (r * row + top(r)), new Uint8Array(Float32Array.of(8 + (r % 5)).buffer)],
        [4 * (r * row + row - 1), new Uint8Array(Float32Array.of(3).buffer)],
      ]),
    )
    const at = programs.flatMap((r) => [r * row + top(r), r * row + row - 1, r * row])
    const got = run(2, programs, {
      x: { bytes: 4 * rows * row, given, wanted: [] },
      y: only(4 * rows * row, at, 4),
      p: only(4 * rows, programs, 4),
    })
    const floats = got.slice(0, at.length).map((b) => new Float32Array(b.slice().buffer)[0])
    expect(floats).toEqual(programs.flatMap((r) => [0, 3 - 8 - (r % 5), -8 - (r % 5)]))
    const places = got.slice(at.length).map((b) => new Int32Array(b.slice().buffer)[0])
    expect(places).toEqual(programs.map(top))
  })
})
