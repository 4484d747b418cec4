/**
 * Sums against the mean of a row too long for registers (variance, layer normalisation) stream beside the sum: nothing cancels
 * wherever a row lies, the row is walked once less, and rows that stay resident are lowered as they were.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../../src/api/index.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { makeRng } from '../../random/rng.ts'
import { some } from '../../support/nightly.ts'
import { all, centred, check, dataFor, normalised, others, type SumName } from './centred.ts'
import { type Case, chunk, cuda, loopsOf, named, testLongRows, walks, wgsl } from './longRows.ts'

const cases: readonly Case[] = [
  named('sums of resident rows', 1999, 0, centred(all, 1999, 'f32')),
  named('sums of odd rows', chunk + 3, 1, centred(all, chunk + 3, 'f32')),
  named('sums of whole chunks', 2 * chunk, 1, centred(all, 2 * chunk, 'f32')),
  named('sums with whole chunks and a tail', 4 * chunk + 809, 1, centred(all, 4 * chunk + 809, 'f32')),
  named('sums of rows in f16', 2 * chunk + 8, 1, centred(all, 2 * chunk + 8, 'f16')),
  named('sums of rows in bf16', 4 * chunk + 16, 1, centred(all, 4 * chunk + 16, 'bf16')),
  named('sums of several rows a program', chunk + 100, 1, centred(all, chunk + 100, 'f32', 3)),
  named('layer normalisation in f32', 4 * chunk + 1, 2, normalised(4 * chunk + 1, 'f32')),
  named('layer normalisation in bf16', 2 * chunk + 24, 2, normalised(2 * chunk + 24, 'bf16')),
  named('sums of a walk backward, the tail first', 5 * chunk + 3, 2, centred(all, 5 * chunk + 3, 'f32', 1, true)),
  named('sums of a walk backward from a short tail', chunk + 1, 2, centred(all, chunk + 1, 'f32', 1, true)),
  named('what does not stream', chunk + 5, 3, others(chunk + 5)),
]

testLongRows(
  {
    // By day the half of which what they share takes some again.
    cases: some(cases, 2),
    random: (seed) => {
      const rng = makeRng(seed)
      const n = rng.int(chunk + 1, 6 * chunk)
      const which = rng.shuffle([...all]).slice(0, rng.int(1, 4))
      return { n, kernel: centred(which, n, rng.pick(['f32', 'f16', 'bf16']), rng.int(1, 3)) }
    },
    clustered: { n: 3 * chunk + 7, kernel: centred(all, 3 * chunk + 7, 'f32') },
  },
  { dataFor, check },
)

describe('walks over a row', () => {
  test('strict sums walk again, in order', () => {
    const { source } = emitKernel(normalised(chunk + 5, 'f32', 'strict'), cuda)
    expect(walks(source)).toBe(3)
    expect(source).not.toContain('anchor')
  })

  test('a sum of squares is never below zero', () => {
    const clamped = (name: SumName): boolean =>
      /sum_(\d+) = f32_max\(sum_\1, 0\.0f\)/.test(emitKernel(centred([name], 2 * chunk, 'f32'), cuda).source)
    expect(all.filter(clamped)).toEqual(['squares', 'far'])
  })

  test('whole chunks count their terms at once', () => {
    const { source } = emitKernel(centred(['squares'], 2 * chunk, 'f32'), wgsl)
    expect(source.match(/met_f32 = met_f32 \+ .*/g)).toEqual(['met_f32 = met_f32 + 16.0;'])
  })

  const loops = (columns: number, f: (x: api.Tensor, g: api.Tensor) => unknown): number[] =>
    loopsOf({ x: { shape: [64, columns] }, g: { shape: [64, columns] } }, ({ x, g }) => f(x, g))

  test('functions of long rows', () => {
    expect(loops(32000, (x) => x.std(-1))).toEqual([1])
    expect(loops(32000, (x) => api.nn.layerNorm(x))).toEqual([2])
    const backward = (x: api.Tensor, g: api.Tensor): unknown =>
      api.grad((y: api.Tensor) => api.nn.layerNorm(y).mul(g).sum())(x)
    // The gradient's own sum waits for both sums against the mean.
    expect(loops(32000, backward)).toEqual([3])
    expect(loops(4096, (x) => api.nn.layerNorm(x))).toEqual([])
  })
})
