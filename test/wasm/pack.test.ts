/** Operands of matrix products copied into scratch, against the kernel interpreter: runs, transposes, windows with padding, tails. */
import { describe, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
import { compare } from './compare.ts'

const k = (body: string, params: string, axes: string, grid: string): string =>
  `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

/** y[m, n] = sum over k in blocks of `depth`, the operands loaded as told. */
const product = (
  a: string,
  b: string,
  params: string,
  [m, n, depth]: readonly [number, number, number],
  grid: string,
  block: number,
): string =>
  k(
    ` %0 f32{m, n} = const 0
 %1 = loop k/${block} {
  carry %2 f32{m, n} = %0
  %3 f32{m, k} = load ${a}
  %4 f32{k, n} = load ${b}
  %5 f32{m, n} = dot %3, %4 over k acc %2
  next %5
 }
 store y[m, n] = %1`.replace('%4 f32{k, n}', '%4 f32{n, k}'),
    `${params}\n param y: f32[${m}, ${n}] write`,
    `m: ${m}, n: ${n}, k: ${depth}`,
    grid,
  )

const sizes = [
  [4, 8, 8],
  [5, 9, 7],
  [13, 17, 19],
  [16, 64, 33],
  [31, 10, 66],
  [70, 70, 70],
] as const

describe.each(some(sizes, 3))('%i x %i, depth %i', (m, n, depth) => {
  const grids = some(['1', 'm/8', 'm/5, n/16', 'n/12'], 2)
  test.each(grids)('every layout, grid %s', (grid) => {
    for (const block of turn([depth, 16], grids.indexOf(grid)))
      for (const [a, ashape] of [
        ['x[m, k]', `${m}, ${depth}`],
        ['x[k, m]', `${depth}, ${m}`],
        ['x[m, k, 1]', `${m}, ${depth}, 3`],
        [`x[${m - 1} - m, k]`, `${m}, ${depth}`],
      ])
        for (const [b, bshape] of [
          ['w[k, n]', `${depth}, ${n}`],
          ['w[n, k]', `${n}, ${depth}`],
          ['w[k, n, 2]', `${depth}, ${n}, 3`],
          [`w[${n - 1} - n, k]`, `${n}, ${depth}`],
        ])
          compare(
            product(
              a ?? '',
              b ?? '',
              ` param x: f32[${ashape}] read\n param w: f32[${bshape}] read`,
              [m, n, depth],
              grid,
              block,
            ),
          )
  })

  test.each(grids)('padded, grid %s', (grid) => {
    for (const other of turn([0, -1.5], grids.indexOf(grid)))
      for (const [a, b] of [
        [`x[m, k - 1] where 1 <= k < ${depth - 1}`, `w[n, k - 2] where 2 <= k < ${depth}`],
        [`x[m - 1, k] where 1 <= m < ${m}`, `w[k, n - 1] where 1 <= n < ${n} and 0 <= k < ${depth - 2}`],
        [`x[k, m + 2] where 0 <= m < ${m - 2}`, `w[n + 1, k] where 0 <= n < ${n - 1} and 3 <= k < ${depth}`],
        [`x[m, k] where 2 <= m + k < ${depth}`, `w[n, k] where 3 <= n - k + ${depth} < ${n + depth - 2}`],
      ]) {
        const shape = (s: string): string =>
          ['x[k', 'w[k'].some((p) => s.startsWith(p))
            ? `${depth}, ${s.startsWith('x') ? m : n}`
            : `${s.startsWith('x') ? m : n}, ${depth}`
        compare(
          product(
            `${a} else ${other}`,
            `${b} else ${other}`,
            ` param x: f32[${shape(a ?? '')}] read\n param w: f32[${shape(b ?? '')}] read`,
            [m, n, depth],
            grid,
            16,
          ),
        )
      }
  })
})

describe.each(
  some(
    [
      [1, 5, 6, 3],
      [3, 7, 7, 3],
      [2, 9, 17, 2],
      [4, 14, 14, 5],
    ] as const,
    2,
  ),
)('images of %i channels, %i x %i, windows of %i', (c, h, w, r) => {
  const lo = Math.floor((r - 1) / 2)
  const inside = `0 <= p + u - ${lo} < ${h} and 0 <= q + v - ${lo} < ${w}`
  const window = `x[i, c, p + u - ${lo}, q + v - ${lo}] where ${inside} else 0`
  const params = ` param x: f32[2, ${c}, ${h}, ${w}] read`
  const axes = `i: 2, o: 6, c: ${c}, p: ${h}, q: ${w}, u: ${r}, v: ${r}`
  test.each(some(['i', 'o/4, i', 'i, p/3, q', 'i, p/2'], 2))('convolution, grid %s', (grid) => {
    compare(
      k(
        ` %0 f32{o, i, p, q} = const 0
 %1 = loop c/2 {
  carry %2 f32{o, i, p, q} = %0
  %3 f32{i, p, q, c, u, v} = load ${window}
  %4 f32{o, c, u, v} = load w[o, c, u, v]
  %5 f32{o, c, u, v} = stage %4
  %6 f32{c, u, v, i, p, q} = stage %3
  %7 f32{o, i, p, q} = dot %5, %6 over c, u, v acc %2
  next %7
 }
 store y[i, o, p, q] = %1`,
        `${params}\n param w: f32[6, ${c}, ${r}, ${r}] read\n param y: f32[2, 6, ${h}, ${w}] write`,
        axes,
        grid,
      ),
    )
  })

  test.each(some(['1', 'o/4', 'c'], 3))('gradient of the weights, grid %s', (grid) => {
    for (const swap of [false, true]) {
      const [dy, windows] = ['%5 f32{o, i, p, q} = stage %4', '%6 f32{i, p, q, c, u, v} = stage %3']
      compare(
        k(
          ` %0 f32{${swap ? 'c, u, v, o' : 'o, c, u, v'}} = const 0
 %1 = loop i {
  carry %2 f32{${swap ? 'c, u, v, o' : 'o, c, u, v'}} = %0
  %3 f32{i, p, q, c, u, v} = load ${window}
  %4 f32{o, i, p, q} = load d[i, o, p, q]
  ${swap ? '%5 f32{i, p, q, o} = stage %4' : dy}
  ${swap ? '%6 f32{c, u, v, i, p, q} = stage %3' : windows}
  %7 f32{${swap ? 'c, u, v, o' : 'o, c, u, v'}} = dot ${swap ? '%6, %5' : '%5, %6'} over i, p, q acc %2
  next %7
 }
 store y[o, c, u, v] = %1`,
          `${params}\n param d: f32[2, 6, ${h}, ${w}] read\n param y: f32[6, ${c}, ${r}, ${r}] write`,
          axes,
          grid,
        ),
      )
    }
  })
})

describe.each(some([1, 3, 4, 5, 8, 15, 16, 33, 70], 4))('%i rows read across', (n) => {
  test.each(some(['1', 'a/4', 'a/16, b/16', 'b/6', 'a, b/32'], 2))('grid %s', (grid) => {
    for (const [i, m] of [4, 7, 16, 37].entries())
      for (const dtype of turn(['f32', 'i32', 'f16', 'f64'], i + n))
        compare(
          k(
            ` %0 ${dtype}{a, b} = load x[b, a]\n %1 ${dtype}{a, b} = load u[a, b]\n %2 ${dtype}{a, b} = mul %0, %1
 %3 ${dtype}{a, b} = load x[b + 1, a - 2] where 0 <= b < ${m - 1} and 2 <= a < ${n} else 3\n %4 ${dtype}{a, b} = sub %2, %3
 %5 ${dtype}{a} = load u[a, 0]\n %6 ${dtype}{a, b} = add %4, %5\n store y[a, b] = %6\n store z[a, b] = %0`,
            ` param x: ${dtype}[${m}, ${n}] read\n param u: ${dtype}[${n}, ${m}] read\n param y: ${dtype}[${n}, ${m}] write\n param z: ${dtype}[${n}, ${m}] write`,
            `a: ${n}, b: ${m}`,
            grid,
          ),
        )
  })
})
