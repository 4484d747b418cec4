/** Kernels compiled to WebAssembly against the kernel interpreter, in both modes, on repeatable data. */
import { expect } from 'vitest'
import { isHalf } from '../../src/codegen/vector/value/reg.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernels } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostView } from '../../src/types/host.ts'
import { bytesOf } from './program.ts'
import { type Buffers, type RunOptions, runKernels } from './run.ts'

/** Repeatable 32-bit words. */
function* words(seed: number): Generator<number, never> {
  let s = (seed * 2654435761 + 12345) >>> 0
  for (;;) {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    yield (s >>> 8) & 0xffff
  }
}

const asHalf = (v: number, dtype: 'f16' | 'bf16'): number => {
  // Multiples of 1/8 below 16 are values of both formats; their bits follow from the f32's.
  const bits = new Uint32Array(Float32Array.of(v).buffer)[0] ?? 0
  if (dtype === 'bf16') return bits >>> 16
  if (v === 0) return 0
  return ((bits >>> 16) & 0x8000) | ((((bits >>> 23) & 0xff) - 112) << 10) | ((bits >>> 13) & 0x3ff)
}

/** Data of a dtype: small values, a few of them equal. */
function fill(p: Kernel['params'][number], seed: number): HostArray {
  const bytes = bytesOf(p)
  const next = words(seed)
  if (p.format !== 'plain') return Uint8Array.from({ length: bytes + 8 }, () => next.next().value & 255)
  const n = p.shape.reduce((a, b) => a * b, 1)
  const data = hostView(p.dtype, new ArrayBuffer(bytes), 0, n)
  for (let i = 0; i < n; i++) {
    const v = ((next.next().value % 65) - 32) / 8
    const { dtype } = p
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(Math.round(Math.abs(v * 100)))
    else if (isHalf(dtype)) data[i] = asHalf(v, dtype)
    else if (dtype === 'bool') data[i] = v > 0 ? 1 : 0
    else data[i] = p.name.startsWith('index') ? Math.abs(Math.round(v)) : v
  }
  return data
}

const halfValue = (bits: number, dtype: DType): number => {
  if (dtype === 'bf16') return new Float32Array(Uint32Array.of(bits << 16).buffer)[0] ?? 0
  const e = (bits >> 10) & 31
  const m = bits & 1023
  const v =
    e === 0
      ? m * 2 ** -24
      : e === 31
        ? m === 0
          ? Number.POSITIVE_INFINITY
          : Number.NaN
        : (1 + m / 1024) * 2 ** (e - 15)
  return bits & 0x8000 ? -v : v
}

export function compare(text: string, options: RunOptions & { tolerance?: number } = {}): void {
  const kernels = parseKernels(text)
  for (const mode of ['fast', 'strict'] as const) {
    const moded = kernels.map((k) => ({ ...k, mode }))
    moded.forEach(verifyKernel)
    const params = new Map(moded.flatMap((k) => k.params.map((p) => [p.name, p] as const)))
    const make = (): Buffers => Object.fromEntries([...params.values()].map((p, i) => [p.name, fill(p, i + 1)]))
    const want = make()
    const got = make()
    for (const k of moded) interpretKernel(k, want, { rounding: 'dtype' })
    runKernels(moded, got, options)
    for (const p of params.values()) {
      const [a, b] = [want[p.name], got[p.name]]
      if (a === undefined || b === undefined) throw new Error(`no buffer ${p.name}`)
      for (let i = 0; i < a.length; i++) {
        const read = (x: HostArray): number => (isHalf(p.dtype) ? halfValue(Number(x[i]), p.dtype) : Number(x[i]))
        const w: number = read(a)
        const g: number = read(b)
        const loose = options.tolerance ?? (isHalf(p.dtype) ? (p.dtype === 'bf16' ? 8e-3 : 1e-3) : 2e-6)
        const close = Object.is(w, g) || w === g || Math.abs(w - g) <= loose * Math.max(1, Math.abs(w))
        if (!close) expect.fail(`${mode}: ${p.name}[${i}] is ${g}, expected ${w}`)
      }
    }
  }
}
