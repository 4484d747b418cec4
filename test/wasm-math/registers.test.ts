/** Memory forms of registers (whole, single lanes, partial vectors), constants, horizontal folds, multiply-add, Threefry. */
import { describe, expect, test, vi } from 'vitest'
import { Builder } from '../../src/codegen/vector/ir/builder.ts'
import type { Register } from '../../src/codegen/vector/ir/ir.ts'
import * as T from '../../src/codegen/vector/ir/types.ts'
import * as L from '../../src/codegen/vector/value/lanes.ts'
import { ModuleBuilder } from '../../src/codegen/wasm/binary/builder.ts'
import { Bytes } from '../../src/codegen/wasm/binary/encoder.ts'
import { printFunction } from '../../src/codegen/wasm/print.ts'
import { evalScalar, roundTo, threefry2x32 } from '../../src/scalar/eval.ts'
import { f16Values, numberToBf16, numberToF16 } from '../../src/scalar/half.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import { combinerOp, type Scalar } from '../../src/scalar/ops.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { allDTypes, type DType, dtypeBytes, isFloat } from '../../src/types/dtype.ts'
import { type HostArray, hostView } from '../../src/types/host.ts'
import { mapArrays, runnable, words } from './harness.ts'
import { edges, randoms } from './values.ts'

const source = 64
const target = 1024

/** Runs a body over a memory with `data` at `source` and 0xa5 bytes elsewhere; gives the memory. */
function withMemory(
  data: HostArray | undefined,
  body: (f: Builder, env: L.Env, n: Register) => void,
  n = 0,
  env: Pick<L.Env, 'mode' | 'hasMultiplyAdd'> = { mode: 'fast', hasMultiplyAdd: true },
): ArrayBufferLike {
  const memory = new WebAssembly.Memory({ initial: 1 })
  new Uint8Array(memory.buffer).fill(0xa5)
  if (data !== undefined)
    new Uint8Array(memory.buffer, source, data.byteLength).set(
      new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    )
  runnable(memory, (f, count) => body(f, { ...env, machine: wasmTarget }, count))(n)
  return memory.buffer
}

const bytesAt = (memory: ArrayBufferLike, at: number, n: number): number[] => [...new Uint8Array(memory, at, n)]
const bytesOf = (a: HostArray): number[] => bytesAt(a.buffer, a.byteOffset, a.byteLength)

/** Four values that survive a trip through registers bit for bit. */
const four = (dtype: DType): HostArray =>
  toHost(dtype === 'bool' ? [true, false, true, true] : edges(dtype).slice(2, 6), dtype)

describe.each(allDTypes)('memory of %s', (dtype) => {
  const size = dtypeBytes(dtype)
  const data = four(dtype)
  const untouched = Array.from({ length: 32 }, () => 0xa5)

  test('four elements, at an odd offset in elements', () => {
    const memory = withMemory(data, (f, env) => {
      const r = L.emitLoadConvert(f, env, dtype, 4, source - size, size)
      L.emitStoreConvert(f, env, r, target, size)
      L.releaseReg(f, r)
    })
    expect(bytesAt(memory, target + size, 4 * size)).toEqual(bytesOf(data))
    expect(bytesAt(memory, target + 5 * size, 32)).toEqual(untouched)
  })

  test('one element, splat and lane stores', () => {
    const memory = withMemory(data, (f, env) => {
      const one = L.emitLoadConvert(f, env, dtype, 1, source, size)
      L.emitStoreConvert(f, env, one, target)
      const wide = L.emitLoadSplat(f, env, dtype, source, 2 * size)
      for (let lane = 0; lane < 4; lane++) L.emitLaneStore(f, env, wide, lane, target, (lane + 1) * size)
      const spread = L.emitSplat(f, one)
      const back = L.emitExtractLane(f, spread, 3)
      L.emitStoreConvert(f, env, back, target, 5 * size)
      L.releaseReg(f, one, wide, spread, back)
    })
    const all = bytesOf(data)
    const element = (i: number): number[] => all.slice(i * size, (i + 1) * size)
    expect(bytesAt(memory, target, 6 * size)).toEqual([1, 2, 2, 2, 2, 1].flatMap(element))
    expect(bytesAt(memory, target + 6 * size, 32)).toEqual(untouched)
  })

  test('gathers lane by lane', () => {
    const memory = withMemory(data, (f, env) => {
      const r = L.emitConst(f, dtype, 4, dtype === 'bool' ? false : dtype.endsWith('64') && dtype !== 'f64' ? 0n : 0)
      for (let lane = 0; lane < 4; lane++) L.emitLaneLoad(f, env, r, lane, source, (3 - lane) * size)
      L.emitStoreConvert(f, env, r, target)
      L.releaseReg(f, r)
    })
    const all = bytesOf(data)
    expect(bytesAt(memory, target, 4 * size)).toEqual([3, 2, 1, 0].flatMap((i) => all.slice(i * size, (i + 1) * size)))
  })

  test('partial loads and stores', () => {
    for (let n = 0; n < 4; n++)
      for (const constant of [true, false]) {
        const memory = withMemory(
          data,
          (f, env, count) => {
            const c = constant ? n : count
            const whole = L.emitLoadConvert(f, env, dtype, 4, source)
            const fill = L.emitSplat(f, whole)
            const some = L.emitLoadLanes(f, env, dtype, c, source, fill)
            L.emitStoreLanes(f, env, some, c, target)
            L.emitStoreConvert(f, env, some, target + 256)
            L.releaseReg(f, whole, fill, some)
          },
          n,
        )
        expect(bytesAt(memory, target, n * size)).toEqual(bytesOf(data).slice(0, n * size))
        expect(bytesAt(memory, target + n * size, 32)).toEqual(untouched)
        expect(bytesAt(memory, target + 256, 4 * size)).toEqual(bytesOf(data))
      }
  })

  test('horizontal folds', () => {
    const values: Scalar[] = randoms(dtype, 4, 99).map((v) =>
      isFloat(dtype) ? roundTo(dtype, Number(v) % 7 || 1.5) : v,
    )
    for (const combiner of ['sum', 'prod', 'max', 'min'] as const) {
      if (dtype === 'bool' && (combiner === 'sum' || combiner === 'prod')) continue
      for (const mode of ['fast', 'strict'] as const) {
        const memory = withMemory(
          toHost(values, dtype),
          (f, env) => {
            const r = L.emitLoadConvert(f, env, dtype, 4, source)
            const total = L.emitReduceLanes(f, env, combiner, r)
            L.emitStoreConvert(f, env, total, target)
            L.releaseReg(f, r, total)
          },
          0,
          { mode, hasMultiplyAdd: true },
        )
        const got = readElement(hostView(dtype, memory, target, 1), dtype, 0)
        const [a = 0, b = 0, c = 0, d = 0] = values
        const rounds = mode === 'strict' || dtype === 'f32' || dtype === 'f64' || !isFloat(dtype)
        const fold = (x: Scalar, y: Scalar): Scalar =>
          roundTo(rounds ? dtype : 'f32', evalScalar(combinerOp[combiner], dtype, dtype, [x, y]))
        const expected = mode === 'strict' ? fold(fold(fold(a, b), c), d) : fold(fold(a, c), fold(b, d))
        expect(got).toBe(roundTo(dtype, expected))
      }
    }
  })
})

describe('half precision', () => {
  test('every f16 decodes', () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, i) => i)
    const got = mapArrays(['f16'], 'f32', 4, { mode: 'fast', relaxed: true }, [bits], (f, env, [x]) =>
      L.emitScalarOp(f, env, 'cast', 'f16', 'f32', x === undefined ? [] : [x]),
    )
    expect(got).toEqual(f16Values())
  })

  test('f32 encodes to the nearest even f16 and bf16, ties among them', () => {
    const next = words(7)
    const n = 200_000
    const bits = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      const w = next()
      // A third are ties of bf16, a third ties of f16 (normal or not).
      bits[i] =
        i % 3 === 0
          ? w
          : i % 3 === 1
            ? (w & 0xffff0000) | 0x8000
            : ((w & 0x8fffe000) | 0x1000) + ((next() % 48) << 23) + 0x30000000
    }
    const x = new Float32Array(bits.buffer)
    for (const [dtype, encode] of [
      ['f16', numberToF16],
      ['bf16', numberToBf16],
    ] as const) {
      const got = mapArrays(['f32'], dtype, 4, { mode: 'fast', relaxed: true }, [x], (f, env, [r]) =>
        L.emitScalarOp(f, env, 'cast', 'f32', dtype, r === undefined ? [] : [r]),
      )
      const wrong = []
      for (let i = 0; i < n; i++) {
        const want = encode(x[i] ?? 0)
        const isNaN16 = Number.isNaN(x[i])
        const g = Number(got[i])
        const fine = isNaN16 ? (dtype === 'f16' ? (g & 0x7fff) > 0x7c00 : (g & 0x7fff) > 0x7f80) : g === want
        if (!fine) wrong.push([x[i], g, want])
      }
      expect(wrong.slice(0, 5)).toEqual([])
    }
  })
})

test('multiply-add: fused or not, the result is one of the two roundings', () => {
  const [a = [], b = [], c = []] = [11, 12, 13].map((s) => randoms('f32', 400, s).map((v) => Number(v) % 100))
  const inputs = [a, b, c].map((v) => toHost(v, 'f32'))
  for (const lanes of [1, 4] as const)
    for (const [mode, relaxed] of [
      ['fast', true],
      ['fast', false],
      ['strict', true],
    ] as const) {
      const got = mapArrays(['f32', 'f32', 'f32'], 'f32', lanes, { mode, relaxed }, inputs, (f, env, [x, y, z]) => {
        if (x === undefined || y === undefined || z === undefined) throw new Error('three operands')
        return L.emitFma(f, env, x, y, z)
      })
      for (let i = 0; i < got.length; i++) {
        const [x, y, z] = inputs.map((v) => Number(v[i]))
        if (x === undefined || y === undefined || z === undefined) continue
        const apart = Math.fround(Math.fround(x * y) + z)
        const g = Number(got[i])
        if (mode === 'strict' || !relaxed || lanes === 1) expect(g).toBe(apart)
        else expect(Math.abs(g - (x * y + z))).toBeLessThanOrEqual(2 ** -22 * (Math.abs(x * y) + Math.abs(z)))
      }
    }
})

test('Threefry words agree with the oracle', () => {
  const next = words(3)
  const columns = Array.from({ length: 3 }, () => Uint32Array.from({ length: 64 }, next))
  const [k0, k1, counter] = columns
  for (const lanes of [1, 4] as const)
    for (const [word, rounds] of [
      [0, 20],
      [1, 20],
      [1, 13],
    ] as const) {
      const got = mapArrays(
        ['u32', 'u32', 'u32'],
        'u32',
        lanes,
        { mode: 'fast', relaxed: true },
        columns,
        (f, _, args) => {
          const [a, b, c] = args
          if (a === undefined || b === undefined || c === undefined) throw new Error('three operands')
          const both = L.emitThreefry(f, a, b, c, rounds)
          L.releaseReg(f, both[1 - word] ?? both[0])
          return both[word]
        },
      )
      const want = Uint32Array.from(
        { length: 64 },
        (_, i) => threefry2x32(k0?.[i] ?? 0, k1?.[i] ?? 0, 0, counter?.[i] ?? 0, rounds)[word],
      )
      expect(got).toEqual(want)
    }
})

test('constant shift counts agree with counts in registers', () => {
  for (const dtype of ['i8', 'u16', 'i32', 'u32', 'i64', 'u64'] as const)
    for (const op of ['shl', 'shr'] as const)
      for (const count of [0, 1, 7, 8, 16, 31, 32, 63, 64]) {
        const values = randoms(dtype, 16, 21)
        const amount: Scalar = dtype.endsWith('64') ? BigInt(count) : count
        const got = mapArrays(
          [dtype],
          dtype,
          4,
          { mode: 'fast', relaxed: false },
          [toHost(values, dtype)],
          (f, env, [x]) => {
            if (x === undefined) throw new Error('an operand')
            const c = L.emitConst(f, dtype, 4, amount)
            const r = L.emitScalarOp(f, env, op, dtype, dtype, [x, c])
            L.releaseReg(f, c)
            return r
          },
        )
        expect([...got]).toEqual(values.map((v) => evalScalar(op, dtype, dtype, [v, amount])))
      }
})

test('a long body costs as much an operation as a short one, in the same locals', () => {
  /** A body of pairs of operations: its statements after each pair, its registers, and the bytes written to make the module. */
  const emit = (pairs: number) => {
    const sizes: number[] = []
    let locals = 0
    const [byte, bytes] = [vi.spyOn(Bytes.prototype, 'byte'), vi.spyOn(Bytes.prototype, 'bytes')]
    const m = new ModuleBuilder()
    const env: L.Env = { mode: 'fast', hasMultiplyAdd: true, machine: wasmTarget }
    m.importMemory('env', 'memory', { min: 1 })
    const fn = Builder.function('run', [T.i32], (f, [p]) => {
      if (p === undefined) return
      let x = L.emitLoadConvert(f, env, 'f32', 4, p)
      for (let i = 0; i < pairs; i++) {
        for (const op of ['tanh', 'add'] as const) {
          const y = L.emitScalarOp(f, env, op, 'f32', 'f32', op === 'tanh' ? [x] : [x, x])
          L.releaseReg(f, x)
          x = y
        }
        sizes.push(f.size)
      }
      L.emitStoreConvert(f, env, x, p)
      // Twenty registers empty the pool: the greatest number counts them all.
      const drawn = Array.from({ length: 20 }, () => f.register(T.f32x4).index)
      locals = Math.max(...drawn)
    })
    printFunction(fn, m, new Map())
    const { length } = m.finish()
    const written = byte.mock.calls.length + bytes.mock.calls.reduce((n, [b]) => n + b.length, 0)
    vi.restoreAllMocks()
    return { sizes, locals, length, written }
  }
  const [short, long] = [emit(10), emit(200)]
  const steps = long.sizes.slice(1).map((size, i) => size - (long.sizes[i] ?? 0))
  expect(new Set(steps).size).toBe(1)
  expect(long.locals).toBe(short.locals)
  // Into the code of the body, the body, its section and the module: once each.
  for (const { written, length } of [short, long]) expect(written).toBeLessThan(4 * length)
})
