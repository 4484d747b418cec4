/** Dots against the kernel interpreter: register-blocked products, their tails and layouts, and dots that are none. */
import { describe, expect, test } from 'vitest'
import { parseKernels } from '../../src/kernel/parse.ts'
import { compare } from './compare.ts'
import { type Buffers, runKernels } from './run.ts'

const blocked = (
  m: number,
  n: number,
  k: number,
  bm: number,
  bn: number,
  bk: number,
  d = 'f32',
  a = 'm, k',
  b = 'k, n',
) => {
  const shape = (axes: string): string =>
    axes
      .split(', ')
      .map((x) => ({ m, n, k })[x])
      .join(', ')
  return `kernel mm {
  param x: ${d}[${shape(a)}] read
  param w: ${d}[${shape(b)}] read
  param bias: ${d}[${n}] read
  param y: ${d}[${m}, ${n}] write
  axes m: ${m}, n: ${n}, k: ${k}
  grid m/${bm}, n/${bn}
  %0 ${d}{m, n} = const 0
  %9 = loop k/${bk} {
    carry %1 ${d}{m, n} = %0
    %2 ${d}{${a}} = load x[${a}]
    %3 ${d}{${b}} = load w[${b}]
    %4 ${d}{m, n} = dot %2, %3 over k acc %1
    next %4
  }
  %5 ${d}{n} = load bias[n]
  %6 ${d}{m, n} = add %9, %5
  %7 ${d}{m, n} = max %6, %0
  store y[m, n] = %7
}`
}

const sizes = [
  [16, 16, 16, 16, 16, 16],
  [13, 17, 11, 8, 8, 4],
  [7, 9, 33, 7, 9, 8],
  [6, 8, 5, 6, 8, 5],
  [25, 40, 20, 12, 24, 16],
  [2, 5, 64, 2, 5, 16],
  [33, 4, 9, 16, 4, 9],
] as const

describe.each(sizes)('%i x %i x %i in blocks of %i x %i x %i', (...s) => {
  test.each(['f32', 'i32'])('%s', (d) => compare(blocked(...s, d), { tolerance: 1e-5 }))
  test('transposed operands', () => {
    compare(blocked(...s, 'f32', 'k, m', 'k, n'), { tolerance: 1e-5 })
    compare(blocked(...s, 'f32', 'm, k', 'n, k'), { tolerance: 1e-5 })
    compare(blocked(...s, 'f32', 'k, m', 'n, k'), { tolerance: 1e-5 })
  })
  test('double precision', () => compare(blocked(...s, 'f64').replaceAll('max', 'sub'), { tolerance: 1e-12 }))
  test('prologues, a reduction as epilogue, no loop', () => {
    const [m, n, k, bm] = s
    compare(
      `kernel p {
  param x: f32[${m}, ${k}] read
  param w: i8[${k}, ${n}] read
  param scale: f32[${n}] read
  param y: f32[${m}] write
  axes m: ${m}, n: ${n}, k: ${k}
  grid m/${bm}
  %0 f32{m, k} = load x[m, k]
  %1 f32{m, k} = tanh %0
  %2 i8{k, n} = load w[k, n]
  %3 f32{k, n} = cast %2
  %4 f32{n} = load scale[n]
  %5 f32{k, n} = mul %3, %4
  %6 f32{m, n} = dot %1, %5 over k
  %7 f32{m} = reduce max %6 over n
  store y[m] = %7
}`,
      { tolerance: 1e-4 },
    )
  })
  test('half precision', () => {
    const [m, n, k, bm] = s
    for (const d of ['f16', 'bf16'])
      compare(
        `kernel h {
  param x: ${d}[${m}, ${k}] read
  param w: ${d}[${k}, ${n}] read
  param y: ${d}[${m}, ${n}] write
  axes m: ${m}, n: ${n}, k: ${k}
  grid m/${bm}
  %0 ${d}{m, k} = load x[m, k]
  %1 ${d}{k, n} = load w[k, n]
  %2 f32{m, n} = dot %0, %1 over k
  %3 ${d}{m, n} = cast %2
  store y[m, n] = %3
}`,
      )
  })
})

const convolution = (h: number, w: number, bh: number, bc: number): string => `kernel conv {
  param x: f32[5, ${h}, ${w}] read
  param f: f32[7, 5, 3, 3] read
  param y: f32[7, ${h}, ${w}] write
  axes o: 7, c: 5, i: ${h}, j: ${w}, p: 3, q: 3
  grid i/${bh}
  %0 f32{o, i, j} = const 0
  %9 = loop c/${bc} {
    carry %1 f32{o, i, j} = %0
    %2 f32{o, c, p, q} = load f[o, c, p, q]
    %3 f32{c, p, q, i, j} = load x[c, i + p - 1, j + q - 1] where 0 <= i + p - 1 < ${h} and 0 <= j + q - 1 < ${w}
    %4 f32{o, i, j} = dot %2, %3 over c, p, q acc %1
    next %4
  }
  store y[o, i, j] = %9
}`

test.each([
  [7, 9, 2, 2],
  [8, 8, 4, 5],
  [5, 3, 5, 1],
  [6, 14, 1, 2],
])('convolution of %i x %i', (h, w, bh, bc) => compare(convolution(h, w, bh, bc), { tolerance: 1e-5 }))

test('depthwise convolution, matrix by vector, vector by matrix, inner and outer products, batches', () => {
  compare(
    `kernel d {\n param x: f32[6, 9, 11] read\n param f: f32[6, 3, 3] read\n param y: f32[6, 7, 9] write\n axes c: 6, i: 7, j: 9, p: 3, q: 3\n grid c
 %0 f32{c, p, q} = load f[c, p, q]\n %1 f32{c, i, j, p, q} = load x[c, i + p, j + q]\n %2 f32{c, i, j} = dot %0, %1 over p, q\n store y[c, i, j] = %2\n}`,
    { tolerance: 1e-5 },
  )
  for (const grid of ['1', 'm/4', 'm'])
    compare(
      `kernel v {\n param x: f32[13, 37] read\n param w: f32[37] read\n param y: f32[13] write\n axes m: 13, k: 37\n grid ${grid}
 %0 f32{m, k} = load x[m, k]\n %1 f32{k} = load w[k]\n %2 f32{m} = dot %0, %1 over k\n store y[m] = %2\n}`,
      { tolerance: 1e-5 },
    )
  compare(
    `kernel v {\n param x: f32[37] read\n param w: f32[37, 13] read\n param y: f32[13] write\n axes n: 13, k: 37\n grid n/8
 %0 f32{k, n} = load w[k, n]\n %1 f32{k} = load x[k]\n %2 f32{n} = dot %1, %0 over k\n store y[n] = %2\n}`,
    { tolerance: 1e-5 },
  )
  compare(
    `kernel b {\n param x: f32[3, 5, 6] read\n param w: f32[3, 6, 10] read\n param y: f32[3, 5, 10] write\n axes b: 3, m: 5, n: 10, k: 6\n grid 1
 %0 f32{b, m, k} = load x[b, m, k]\n %1 f32{b, k, n} = load w[b, k, n]\n %2 f32{b, m, n} = dot %0, %1 over k\n store y[b, m, n] = %2\n}`,
    { tolerance: 1e-5 },
  )
  compare(
    `kernel o {\n param x: f32[9] read\n param w: f32[9] read\n param y: f32[9, 9] write\n param s: f32[1] write\n axes m: 9, n: 9\n grid 1
 %0 f32{m} = load x[m]\n %1 f32{n} = load w[n]\n %2 f32{m, n} = mul %0, %1\n store y[m, n] = %2\n %3 f32{m} = load w[m]\n %4 f32 = dot %0, %3 over m\n store s[0] = %4\n}`,
    { tolerance: 1e-5 },
  )
})

test('a strict product does not depend on its blocks', () => {
  const data = (n: number, seed: number): Float32Array =>
    Float32Array.from({ length: n }, (_, i) => Math.sin(i * 1.7 + seed) * 3)
  const run = (bm: number, bn: number, bk: number): Float32Array => {
    const [m, n, k] = [19, 21, 50]
    const kernels = parseKernels(blocked(m, n, k, bm, bn, bk)).map((x) => ({ ...x, mode: 'strict' as const }))
    const buffers: Buffers = { x: data(m * k, 1), w: data(k * n, 2), bias: data(n, 3), y: new Float32Array(m * n) }
    runKernels(kernels, buffers)
    return buffers.y as Float32Array
  }
  const want = run(19, 21, 50)
  expect(run(6, 8, 16)).toEqual(want)
  expect(run(1, 1, 50)).toEqual(want)
  expect(run(4, 21, 7)).toEqual(want)
})
