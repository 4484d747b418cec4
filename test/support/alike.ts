/** Results of kernels that sum in another order, and skip roundings between products, beside those of the reference. */
import { expect } from 'vitest'
import type { Graph } from '../../src/graph/node.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at } from '../compile/support.ts'

/** Numbers in [0, 1), the same for a seed. */
export function random(seed: number): () => number {
  let s = (Math.imul(seed, 2654435761) + 12345) >>> 0
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32
  }
}

/** Inputs of a graph in [-most, most), conditions that hold for seven in ten, the same for a seed. */
export function dataOf(graph: Graph, seed: number, most = 1): HostArray[] {
  const next = random(seed)
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < out.length; i++)
      writeElement(out, p.dtype, i, p.dtype === 'bool' ? next() > 0.3 : 2 * most * next() - most)
    return out
  })
}

const tolerances: Partial<Record<DType, number>> = { f32: 3e-5, bf16: 2.5e-2, f16: 4e-3 }

/** Every result is near the reference's, by the greatest of them. */
export function expectAlike(got: readonly HostArray[], want: readonly HostArray[], graph: Graph, what: string): void {
  want.forEach((w, o) => {
    const dtype = graph.outputs[o]?.dtype ?? 'f32'
    const loose = tolerances[dtype] ?? 0
    const sizes = Array.from({ length: w.length }, (_, i) => Math.abs(Number(readElement(w, dtype, i))))
    const scale = Math.max(1, ...sizes.filter(Number.isFinite))
    for (let i = 0; i < w.length; i++) {
      const [a, e] = [Number(readElement(at(got, o), dtype, i)), Number(readElement(w, dtype, i))]
      if (!(Object.is(a, e) || Math.abs(a - e) <= loose * scale))
        expect.fail(`${what}: output ${o} is ${a} at ${i}, not ${e}`)
    }
  })
}
