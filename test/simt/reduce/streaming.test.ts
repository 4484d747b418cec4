/**
 * Sums that stream along rows too long for registers: against the interpreter, on rows whose anchors move, are infinite or NaN, or lie
 * in one chunk alone; how often the emitted code walks a row; and that rows which stay resident are lowered as they were.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../../src/api/index.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { noise } from '../../kernel/hard-cases/case.ts'
import { makeRng } from '../../random/rng.ts'
import { some } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice, runWgsl } from '../dialects/wgsl.ts'
import { type Case, chunk, cuda, emulate, loopsOf, named, testLongRows, threads, walks, wgsl } from './longRows.ts'
import {
  all,
  check,
  columns,
  dataFor,
  looped,
  manySums,
  more,
  others,
  picked,
  rows,
  type Sum,
  softmax,
  sums,
} from './streamed.ts'

const cases: readonly Case[] = [
  named('sums of resident rows', 1999, 0, manySums(all, 1999, 'f32')),
  named('sums of odd rows', chunk + 3, 1, manySums(all, chunk + 3, 'f32')),
  named('more sums of odd rows', chunk + 3, 1, manySums(more, chunk + 3, 'f32')),
  named('sums of whole chunks', 2 * chunk, 1, manySums(all, 2 * chunk, 'f32')),
  named('more sums with whole chunks and a tail', 4 * chunk + 809, 1, manySums(more, 4 * chunk + 809, 'f32')),
  named('sums of rows in f16', 2 * chunk + 8, 1, manySums(all, 2 * chunk + 8, 'f16')),
  named('more sums of rows in bf16', 4 * chunk + 16, 1, manySums(more, 4 * chunk + 16, 'bf16')),
  named('sums of several rows a program', chunk + 100, 1, manySums(all, chunk + 100, 'f32', 3)),
  named('softmax in f32', 2 * chunk + 1, 2, softmax(2 * chunk + 1, 'f32')),
  named('softmax in bf16', 4 * chunk + 24, 2, softmax(4 * chunk + 24, 'bf16')),
  named('an element of each row', 4 * chunk + 8, 2, picked(4 * chunk + 8)),
  named('rows that a loop goes through', chunk + 1, 1, looped(chunk + 1)),
  named('columns', 1501, 1, columns(1501)),
  named('what does not stream', chunk + 5, 3, others(chunk + 5)),
]

testLongRows(
  {
    cases,
    every: 4,
    random: (seed) => {
      const rng = makeRng(seed)
      const names = Object.keys(sums).filter((s): s is Sum => s in sums)
      const n = rng.int(chunk + 1, 5 * chunk)
      const which = rng.shuffle(names).slice(0, rng.int(1, 4))
      return { n, kernel: manySums(which, n, rng.pick(['f32', 'f16', 'bf16']), rng.int(1, 3)) }
    },
    clustered: { n: 3 * chunk + 7, kernel: manySums([...all, ...more], 3 * chunk + 7, 'f32') },
  },
  { dataFor, check },
)

describe('exact to what docs/numerics.md says', () => {
  test.for(some([3, 30, 300], 2))('exponents up to about -%i', async (scale, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const n = 9 * chunk + 5
    const k = manySums(['guarded'], n, 'f32')
    const buffers = dataFor(k, n)
    const x = buffers.x ?? new Float32Array(0)
    noise(scale, x.length).forEach((v, i) => {
      x[i] = v * scale
    })
    await runWgsl({ ...machine, limits: { ...machine.limits, maxThreads: threads } }, [k], buffers)
    // Each thread adds n / 64 terms one after another.
    const bound = (3 + 2.5 * Math.log2(n)) * 2 ** -23 + (n / 64 + 8) * 2 ** -24
    for (let r = 0; r < rows.length; r++) {
      const row = Array.from(x.subarray(r * n, (r + 1) * n), Number)
      const greatest = row.reduce((a, b) => Math.max(a, b))
      const total = row.reduce((a, b) => a + Math.exp(b - greatest), 0)
      expect(Math.abs(Number(buffers.guarded?.[r]) - total)).toBeLessThanOrEqual(bound * total)
    }
  })
})

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  test('in doubles', { timeout: 240_000 }, () => {
    const n = chunk + 77
    const kernel = softmax(n, 'f64')
    emulate([{ n, kernel }], cuda, { dataFor, check })
    expect(walks(emitKernel(kernel, cuda).source)).toBe(2)
  })
})

describe('walks over a row', () => {
  test('a choice for one index of the row is made where that index is', () => {
    const n = 4 * chunk + 8
    const source = emitKernel(picked(n), wgsl).source
    const [, body = ''] = source.split('for (var c_at')
    const inside = body.slice(0, body.indexOf('var best'))
    const branch = inside.slice(inside.indexOf('  if (('))
    // The choices of all elements that a thread has of a chunk, and none beside the branch.
    expect(branch.match(/select_\d+ = /g)).toHaveLength(branch.match(/sum_7(_terms)? = /g)?.length ?? 0)
    expect(branch.match(/select_\d+ = /g)?.length).toBeGreaterThan(8)
    expect(branch).not.toContain('else')
    expect(inside.slice(0, -branch.length)).not.toContain('== t_')
  })

  test('the second walk turns back where the first ended', () => {
    const n = 2 * chunk + 1
    /** Where the threads of each walk begin in a chunk, and how far it is to the next. */
    const courses = (k: Kernel): (readonly [string, number])[] =>
      emitKernel(k, cuda)
        .source.split('for (int c_at')
        .slice(1)
        .map((body) => [/int c0\w* = (\S+)/.exec(body)?.[1] ?? '', Number(/ \+= (\d+)/.exec(body)?.[1])])
    const [first, second] = courses(softmax(n, 'f32'))
    const step = second?.[1] ?? 0
    expect([first?.[0], second?.[0]]).toEqual(['c_at', `(${(Math.ceil(n / step) - 1) * step}`])
    expect(courses({ ...softmax(n, 'f32'), mode: 'strict' }).every(([at]) => at.startsWith('c_at'))).toBe(true)
  })

  test('strict sums walk again, in order', () => {
    const strict: Kernel = { ...softmax(chunk + 5, 'f32'), mode: 'strict' }
    expect(walks(emitKernel(strict, cuda).source)).toBe(3)
    expect(emitKernel(strict, cuda).source).not.toContain('anchor')
  })

  /** Of logits with so many classes. */
  const loops = (classes: number, f: (x: api.Tensor, t: api.Tensor) => unknown): number[] =>
    loopsOf({ x: { shape: [64, classes], dtype: 'bf16' }, t: { shape: [64], dtype: 'i32' } }, ({ x, t }) => f(x, t))

  test('functions of long rows', () => {
    const of = (x: api.Tensor): api.Tensor => x.astype('f32')
    expect(loops(32000, (x) => of(x).logsumexp(-1))).toEqual([1])
    expect(loops(32000, (x) => x.softmax(-1))).toEqual([2])
    expect(loops(32000, (x) => api.nn.logSoftmax(x, -1))).toEqual([2])
    expect(
      loops(32000, (x, t) => api.valueAndGrad((l: api.Tensor) => api.nn.crossEntropy(of(l), t).mean())(x)),
    ).toEqual([2])
    expect(loops(4096, (x) => x.softmax(-1))).toEqual([])
  })
})
