/** What a hard case is: kernels in a file of the text form, the buffers they run on, and plain code for what they give. */
import { readFileSync } from 'node:fs'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernels } from '../../../src/kernel/parse.ts'
import type { HostArray } from '../../../src/types/host.ts'

export type Buffers = Record<string, HostArray>

export interface HardCase {
  readonly name: string
  /** `FILE.kernel` beside this file; its kernels run in order on one set of buffers. */
  readonly file: string
  /** Fresh buffers by parameter name, outputs filled with junk. */
  readonly buffers: () => Buffers
  /** The outputs, computed in double precision from the buffers as they are before the run. */
  readonly expected: (before: Buffers) => Record<string, readonly number[]>
  /** Relative (and absolute) error allowed when every statement rounds to f32. */
  readonly tolerance?: number
}

export const loadKernels = (file: string): Kernel[] =>
  parseKernels(readFileSync(new URL(`./${file}.kernel`, import.meta.url), 'utf8'))

/** Repeatable values in (-1, 1). */
export function noise(seed: number, n: number): number[] {
  let s = (seed * 2654435761 + 12345) >>> 0
  return Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return (s / 2147483648 - 1) * 0.999
  })
}

/** f32 data of a number of elements: noise scaled and shifted. */
export const random = (seed: number, n: number, scale = 1, shift = 0): Float32Array =>
  Float32Array.from(noise(seed, n), (v) => v * scale + shift)

/** An output of n elements that no kernel should leave standing. */
export const junk = (n: number): Float32Array => new Float32Array(n).fill(77)

/** [f(0), ..., f(n-1)]. */
export const range = <T>(n: number, f: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => f(i))

export const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)

/** A reader of a buffer by coordinates. */
export function reader(buffers: Buffers, name: string, ...shape: number[]): (...index: number[]) => number {
  const data = buffers[name]
  if (data === undefined) throw new Error(`no buffer ${name}`)
  return (...index) => {
    const at = index.reduce((n, x, i) => n * (shape[i] ?? 1) + x, 0)
    const v = data[at]
    if (v === undefined || index.some((x, i) => x < 0 || x >= (shape[i] ?? 0)))
      throw new Error(`${name}[${index.join(', ')}] is outside [${shape.join(', ')}]`)
    return Number(v)
  }
}
