/** Transposed convolution against its definition as a scatter, at random strides, paddings, dilations, groups and extents. */
import { expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { lit, numbers } from './run.ts'

interface Drawn {
  readonly x: readonly number[]
  readonly w: readonly number[]
  readonly stride: readonly number[]
  readonly dilation: readonly number[]
  readonly padding: readonly (readonly [number, number])[]
  readonly outputPadding: readonly number[]
  readonly groups: number
}

/** Numbers below `n`, the same for a seed. */
function drawer(seed: number): (n: number) => number {
  let s = seed
  return (n) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return Math.floor((s / 2 ** 32) * n)
  }
}

function draw(seed: number): Drawn {
  const below = drawer(seed * 7919 + 1)
  const axes = 1 + below(3)
  const groups = 1 + below(2)
  const each = <T>(f: () => T): T[] => Array.from({ length: axes }, f)
  const stride = each(() => 1 + below(4))
  const kernel = each(() => 1 + below(axes === 3 ? 3 : 5))
  const dilation = each(() => 1 + below(4))
  const span = kernel.map((k, i) => (k - 1) * (dilation[i] ?? 1) + 1)
  return {
    x: [1 + below(2), 2 * groups, ...each(() => 2 + below(4))],
    w: [2 * groups, 1 + below(3), ...kernel],
    stride,
    dilation,
    padding: span.map((s): [number, number] => [below(s), below(s)]),
    outputPadding: stride.map((s) => below(s)),
    groups,
  }
}

const ramp = (n: number): number[] => Array.from({ length: n }, (_, i) => ((i * 7) % 11) - 5)
const sizeOf = (s: readonly number[]): number => s.reduce((p, e) => p * e, 1)

/** y[o] += x[i] w[k] for o = i stride + k dilation - padding. */
function scattered({ x, w, stride, dilation, padding, outputPadding, groups }: Drawn): number[] {
  const [n = 1, channels = 1, ...extents] = x
  const [, perGroup = 1, ...kernel] = w
  const out = extents.map(
    (e, i) =>
      (e - 1) * (stride[i] ?? 1) +
      ((kernel[i] ?? 1) - 1) * (dilation[i] ?? 1) +
      1 -
      (padding[i]?.[0] ?? 0) -
      (padding[i]?.[1] ?? 0) +
      (outputPadding[i] ?? 0),
  )
  if (out.some((e) => e < 0)) return []
  const [data, weights] = [ramp(sizeOf(x)), ramp(sizeOf(w))]
  const y = new Array<number>(n * groups * perGroup * sizeOf(out)).fill(0)
  const digits = (flat: number, shape: readonly number[]): number[] => {
    let rest = flat
    return [...shape]
      .reverse()
      .map((e) => {
        const d = rest % e
        rest = Math.floor(rest / e)
        return d
      })
      .reverse()
  }
  for (let b = 0; b < n; b++)
    for (let ch = 0; ch < channels; ch++)
      for (let m = 0; m < perGroup; m++)
        for (let i = 0; i < sizeOf(extents); i++)
          for (let k = 0; k < sizeOf(kernel); k++) {
            const [is, ks] = [digits(i, extents), digits(k, kernel)]
            const o = is.map(
              (v, d) => v * (stride[d] ?? 1) + (ks[d] ?? 0) * (dilation[d] ?? 1) - (padding[d]?.[0] ?? 0),
            )
            if (o.some((v, d) => v < 0 || v >= (out[d] ?? 0))) continue
            const channel = Math.floor(ch / (channels / groups)) * perGroup + m
            const at = o.reduce((p, v, d) => p * (out[d] ?? 1) + v, b * groups * perGroup + channel)
            const product =
              (data[(b * channels + ch) * sizeOf(extents) + i] ?? 0) *
              (weights[(ch * perGroup + m) * sizeOf(kernel) + k] ?? 0)
            y[at] = (y[at] ?? 0) + product
          }
  return y
}

test('by phases, by zeros and between zeros, 200 drawn ones', () => {
  let compared = 0
  let sparse = 0
  for (let seed = 0; seed < 200; seed++) {
    const drawn = draw(seed)
    const want = scattered(drawn)
    if (want.length === 0) continue
    compared++
    if (drawn.stride.some((v, i) => v > 1 && v === drawn.dilation[i])) sparse++
    const { x, w, ...options } = drawn
    const [data, weights] = [lit(ramp(sizeOf(x)), x), lit(ramp(sizeOf(w)), w)]
    const got = numbers(c.convTranspose(data, weights, options))
    expect(got, `seed ${seed}: ${JSON.stringify(drawn)}`).toEqual(want)
  }
  expect(compared).toBeGreaterThan(150)
  expect(sparse).toBeGreaterThan(20)
})

test.each([
  // Of stride, dilation and kernel: how many results of a row of 16 elements are sums.
  [2, 2, 3, 18],
  [4, 2, 3, 33],
  [2, 4, 3, 20],
  [3, 3, 2, 17],
  [3, 2, 1, 16],
  [3, 5, 1, 16],
])('stride %i, dilation %i, %i taps: %i results are computed, zeros stand between', (stride, dilation, taps, sums) => {
  const y = c.convTranspose(lit(ramp(32), [1, 2, 16]), lit(ramp(6 * taps), [2, 3, taps]), { stride, dilation })
  const products = nodesOf({ params: [], outputs: [y], effects: [] }).filter((n) => n.op === 'contract')
  // Phases of an odd extent count one beyond it.
  const computed = products.map((n) => sizeOf(n.shape) / 3)
  expect(computed).toHaveLength(1)
  for (const n of computed) expect([sums, sums + 1]).toContain(n)
  expect(sums).toBeLessThan(y.shape[2] ?? 0)
})
