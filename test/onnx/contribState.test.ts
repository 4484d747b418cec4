/** Recurrences, mixtures of experts, regions and single operators of onnxruntime against loops from their definitions. */
import { describe, expect, test } from 'vitest'
import {
  type Attributes,
  compiled,
  distance,
  f32,
  fixed,
  i32,
  i64,
  type NodeCase,
  numbers,
  run,
  runCompiled,
  u8,
  wholes,
} from './contribNode.ts'
import { errorOf } from './models.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0)
const at = (v: readonly number[], i: number): number => v[i] ?? Number.NaN
const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v))

describe('LinearAttention', () => {
  /** One batch; heads of queries and of keys; a decay for each key dimension. */
  const layer = (hq: number, hk: number, steps: number, window: number) => {
    const [dk, dv, heads] = [3, 2, Math.max(hq, hk)]
    const q = numbers(steps * hq * dk, 1)
    const k = numbers(steps * hk * dk, 2)
    const v = numbers(steps * hk * dv, 3)
    const decay = numbers(steps * hk * dk, 4).map((x) => x - 1)
    const beta = numbers(steps, 5)
    const past = numbers(hk * dk * dv, 6)
    const state = [...past]
    const states: number[][] = []
    const y: number[] = []
    for (let t = 0; t < steps; t++) {
      for (let h = 0; h < hk; h++) {
        const cell = (i: number, j: number): number => (h * dk + i) * dv + j
        const key = (i: number): number => at(k, (t * hk + h) * dk + i)
        for (let i = 0; i < dk; i++)
          for (let j = 0; j < dv; j++)
            state[cell(i, j)] = at(state, cell(i, j)) * Math.exp(at(decay, (t * hk + h) * dk + i))
        const predicted = range(dv).map((j) => sum(range(dk).map((i) => at(state, cell(i, j)) * key(i))))
        for (let i = 0; i < dk; i++)
          for (let j = 0; j < dv; j++)
            state[cell(i, j)] =
              at(state, cell(i, j)) + at(beta, t) * key(i) * (at(v, (t * hk + h) * dv + j) - at(predicted, j))
      }
      for (let h = 0; h < heads; h++)
        for (let j = 0; j < dv; j++) {
          const [query, kept] = [Math.floor((h * hq) / heads), Math.floor((h * hk) / heads)]
          y.push(
            0.5 * sum(range(dk).map((i) => at(q, (t * hq + query) * dk + i) * at(state, (kept * dk + i) * dv + j))),
          )
        }
      states.push([...state])
    }
    const slots = range(window).map((j) => states[steps - window + j] ?? state.map(() => 0))
    const given = window === 0 ? past : [...range(window - 1).flatMap(() => past.map(() => 9)), ...past]
    const node: NodeCase = {
      op: 'LinearAttention',
      outputs: 2,
      inputs: [
        f32([1, steps, hq * dk], q),
        f32([1, steps, hk * dk], k),
        f32([1, steps, hk * dv], v),
        f32(window === 0 ? [1, hk, dk, dv] : [window, 1, hk, dk, dv], given),
        f32([1, steps, hk * dk], decay),
        f32([1, steps, 1], beta),
      ],
      attrs: {
        q_num_heads: { int: hq },
        kv_num_heads: { int: hk },
        scale: { float: 0.5 },
        state_window: { int: window },
      },
    }
    return { node, y, present: window === 0 ? state : slots.flat() }
  }

  test.each([
    [4, 2, 5, 0],
    [4, 2, 21, 0],
    [2, 4, 21, 0],
    [2, 2, 20, 3],
    [2, 2, 2, 4],
  ])('%i query heads, %i key heads, %i steps, a window of %i', (hq, hk, steps, window) => {
    const { node, y, present } = layer(hq, hk, steps, window)
    const [got, state] = run(node)
    expect(distance(got?.data, y)).toBeLessThan(1e-5)
    expect(distance(state?.data, present)).toBeLessThan(1e-5)
    expect(distance(runCompiled(node)[0], y)).toBeLessThan(1e-5)
  })

  test('long sequences are a loop of the program, not written out', () => {
    const kernels = (steps: number): number => compiled(layer(2, 2, steps, 0).node).report.totals.kernels
    expect(kernels(300)).toBe(kernels(30))
  })
})

test('a dilated causal convolution of data with channels last, with a window of states', () => {
  const [batch, length, channels, taps, dilation, window] = [2, 5, 3, 3, 2, 2]
  const before = (taps - 1) * dilation
  const x = numbers(batch * length * channels, 1)
  const w = numbers(channels * taps, 2)
  const bias = numbers(channels, 3)
  const past = numbers(batch * before * channels, 4)
  const value = (b: number, t: number, c: number): number =>
    t < 0 ? at(past, (b * before + t + before) * channels + c) : at(x, (b * length + t) * channels + c)
  const wanted = range(batch).flatMap((b) =>
    range(length).flatMap((t) =>
      range(channels).map((c) => {
        const taken = range(taps).map((j) => at(w, c * taps + j) * value(b, t - (taps - 1 - j) * dilation, c))
        const v = sum(taken) + at(bias, c)
        return v * sigmoid(v)
      }),
    ),
  )
  const states = range(window).flatMap((j) =>
    range(batch).flatMap((b) =>
      range(before).flatMap((i) => range(channels).map((c) => value(b, length - window + j + 1 - before + i, c))),
    ),
  )
  const [y, present] = run({
    op: 'CausalConvWithState',
    outputs: 2,
    inputs: [
      f32([batch, length, channels], x),
      f32([channels, 1, taps], w),
      f32([channels], bias),
      f32([window, batch, before, channels], [...past.map(() => 9), ...past]),
    ],
    attrs: {
      activation: { string: 'silu' },
      channels_last: { int: 1 },
      dilation: { int: dilation },
      state_window: { int: window },
    },
  })
  expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  expect(present?.shape).toEqual([window, batch, before, channels])
  expect(distance(present?.data, states)).toBeLessThan(1e-6)
})

describe('mixtures of experts', () => {
  const [experts, hidden, inner, k] = [6, 4, 5, 2]
  const w1 = numbers(experts * 2 * inner * hidden, 1)
  const b1 = numbers(experts * 2 * inner, 2)
  const w2 = numbers(experts * hidden * inner, 3)
  const b2 = numbers(experts * hidden, 4)

  // Few tokens take the weights of their experts, many take all experts.
  test.each([2, 9])('%i tokens, gates and values in halves, limited', (tokens) => {
    const x = numbers(tokens * hidden, 5)
    const scores = numbers(tokens * experts, 6)
    const wanted = range(tokens).flatMap((t) => {
      const mine = range(experts).map((e) => [at(scores, t * experts + e), e] as const)
      const chosen = mine.sort((a, b) => b[0] - a[0]).slice(0, k)
      const total = sum(chosen.map(([s]) => Math.exp(s)))
      const parts = chosen.map(([s, e]) => {
        const first = range(2 * inner).map(
          (f) =>
            sum(range(hidden).map((h) => at(x, t * hidden + h) * at(w1, (e * 2 * inner + f) * hidden + h))) +
            at(b1, e * 2 * inner + f),
        )
        const mid = range(inner).map((f) => {
          const [g, l] = [Math.min(0.7, at(first, f)), Math.max(-0.7, Math.min(0.7, at(first, inner + f)))]
          return g * sigmoid(1.5 * g) * (l + 0.25)
        })
        const weight = Math.exp(s) / total
        return range(hidden).map(
          (o) => weight * (sum(mid.map((m, f) => m * at(w2, (e * hidden + o) * inner + f))) + at(b2, e * hidden + o)),
        )
      })
      return range(hidden).map((o) => sum(parts.map((p) => at(p, o))))
    })
    const [y] = run({
      op: 'MoE',
      inputs: [
        f32([tokens, hidden], x),
        f32([tokens, experts], scores),
        f32([experts, 2 * inner, hidden], w1),
        f32([experts, 2 * inner], b1),
        f32([experts, hidden, inner], w2),
        f32([experts, hidden], b2),
      ],
      attrs: {
        k: { int: k },
        activation_type: { string: 'swiglu' },
        swiglu_fusion: { int: 2 },
        swiglu_limit: { float: 0.7 },
        activation_alpha: { float: 1.5 },
        activation_beta: { float: 0.25 },
        normalize_routing_weights: { int: 1 },
      },
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-5)
  })

  test('weights of four bits in blocks, with zero points and weights of routing', () => {
    const [count, width, size, block] = [3, 32, 32, 16]
    const x = numbers(2 * width, 7)
    const scores = numbers(2 * count, 8)
    const routing = numbers(2 * count, 9).map(Math.abs)
    const codes = (seed: number): number[] => wholes(count * size * width, 16, seed)
    const packed = (v: readonly number[]): number[] =>
      range(v.length / 2).map((i) => at(v, 2 * i) + 16 * at(v, 2 * i + 1))
    const [c1, c2] = [codes(10), codes(11)]
    const [s1, s2] = [numbers(count * size * 2, 12), numbers(count * width * 2, 13)]
    const [z1, z2] = [wholes(count * size * 2, 16, 14), wholes(count * width * 2, 16, 15)]
    const weight = (
      c: readonly number[],
      s: readonly number[],
      z: readonly number[],
      e: number,
      o: number,
      i: number,
    ) => {
      const row = e * size + o
      const b = 2 * row + Math.floor(i / block)
      return (at(c, row * width + i) - at(z, b)) * at(s, b)
    }
    const wanted = range(2).flatMap((t) => {
      const best = range(count).reduce((p, e) => (at(scores, t * count + e) > at(scores, t * count + p) ? e : p), 0)
      const mid = range(size).map((f) =>
        Math.max(0, sum(range(width).map((h) => at(x, t * width + h) * weight(c1, s1, z1, best, f, h)))),
      )
      return range(width).map(
        (o) => at(routing, t * count + best) * sum(mid.map((m, f) => m * weight(c2, s2, z2, best, o, f))),
      )
    })
    const bytes = (v: readonly number[]) => fixed(u8([count, size, width / 2], packed(v)))
    const zero = (v: readonly number[]) => fixed(u8([count, size, 1], packed(v)))
    const none = undefined
    const [y] = run({
      op: 'QMoE',
      inputs: [
        f32([2, width], x),
        f32([2, count], scores),
        bytes(c1),
        fixed(f32([count, size, 2], s1)),
        none,
        bytes(c2),
        fixed(f32([count, width, 2], s2)),
        none,
        none,
        none,
        none,
        zero(z1),
        zero(z2),
        none,
        f32([2, count], routing),
      ],
      attrs: { expert_weight_bits: { int: 4 }, block_size: { int: block }, k: { int: 1 } },
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-5)
  })
})

describe('regions', () => {
  const [height, width] = [7, 9]
  const x = numbers(2 * height * width, 1)
  const pixel = (b: number, i: number, j: number): number => at(x, (b * height + i) * width + j)

  /** The four neighbours of a sample by their weights. */
  const neighbours = (b: number, y: number, z: number): number[] => {
    if (y < -1 || y > height || z < -1 || z > width) return [0, 0, 0, 0]
    const hold = (v: number, extent: number): readonly [number, number, number] => {
      const held = Math.max(0, v)
      const low = Math.min(Math.floor(held), extent - 1)
      return [low, Math.min(low + 1, extent - 1), Math.min(held, extent - 1) - low]
    }
    const [t, u, fy] = hold(y, height)
    const [l, r, fx] = hold(z, width)
    return [
      pixel(b, t, l) * (1 - fy) * (1 - fx),
      pixel(b, t, r) * (1 - fy) * fx,
      pixel(b, u, l) * fy * (1 - fx),
      pixel(b, u, r) * fy * fx,
    ]
  }

  test.each(['avg', 'max'])('RoiAlign with as many samples as each region asks for: %s', (mode) => {
    const boxes = [
      [0.5, 1, 8, 6.5],
      [-2, -1, 3, 2],
      [1, 1, 1.5, 1.2],
    ]
    const images = [1, 0, 1]
    const [rows, columns] = [2, 3]
    const wanted = boxes.flatMap(([x1 = 0, y1 = 0, x2 = 0, y2 = 0], k) => {
      const [top, left] = [y1 - 0.5, x1 - 0.5]
      const [tall, wide] = [(y2 - y1) / rows, (x2 - x1) / columns]
      const [ny, nx] = [Math.ceil(tall), Math.ceil(wide)]
      return range(rows).flatMap((i) =>
        range(columns).map((j) => {
          const samples = range(ny).flatMap((p) =>
            range(nx).map((q) =>
              neighbours(
                images[k] ?? 0,
                top + i * tall + ((p + 0.5) * tall) / ny,
                left + j * wide + ((q + 0.5) * wide) / nx,
              ),
            ),
          )
          return mode === 'avg' ? sum(samples.map(sum)) / (ny * nx) : Math.max(...samples.flat())
        }),
      )
    })
    const node: NodeCase = {
      domain: '',
      op: 'RoiAlign',
      inputs: [f32([2, 1, height, width], x), f32([3, 4], boxes.flat()), i64([3], images)],
      attrs: { output_height: { int: rows }, output_width: { int: columns }, mode: { string: mode } },
    }
    expect(distance(run(node)[0]?.data, wanted)).toBeLessThan(1e-5)
    expect(distance(runCompiled(node)[0], wanted)).toBeLessThan(1e-5)
  })

  test('MaxRoiPool of regions beyond the image, cells without elements', () => {
    const boxes = [
      [1, 2, 1, 6, 5],
      [0, 7, 5, 14, 12],
    ]
    const [rows, columns] = [2, 2]
    const wanted = boxes.flatMap(([b = 0, x1 = 0, y1 = 0, x2 = 0, y2 = 0]) =>
      range(rows).flatMap((i) =>
        range(columns).map((j) => {
          const span = (first: number, last: number, cell: number, count: number, extent: number): number[] => {
            const size = Math.max(last - first + 1, 1) / count
            const clip = (v: number): number => Math.min(extent, Math.max(0, v + first))
            return range(extent).filter(
              (p) => p >= clip(Math.floor(cell * size)) && p < clip(Math.ceil((cell + 1) * size)),
            )
          }
          const ys = span(y1, y2, i, rows, height)
          const xs = span(x1, x2, j, columns, width)
          const all = ys.flatMap((y) => xs.map((z) => pixel(b, y, z)))
          return all.length === 0 ? 0 : Math.max(...all)
        }),
      ),
    )
    const [y] = run({
      domain: '',
      op: 'MaxRoiPool',
      inputs: [f32([2, 1, height, width], x), f32([2, 5], boxes.flat())],
      attrs: { pooled_shape: { ints: [rows, columns] } },
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('CropAndResize outside of the image, and of one row', () => {
    const [y] = run({
      op: 'CropAndResize',
      inputs: [f32([2, 1, height, width], x), f32([1, 4], [0, -0.5, 0.5, 1]), i32([1], [1]), fixed(i32([2], [1, 3]))],
      attrs: { mode: { string: 'nearest' }, extrapolation_value: { float: 7 } },
    })
    // Row 0.25 * 6 = 1.5, to 2; columns -4 (outside), 2 and 8.
    expect(distance(y?.data, [7, pixel(1, 2, 2), pixel(1, 2, 8)])).toBeLessThan(1e-6)
  })
})

describe('single operators', () => {
  const one = (op: string, inputs: NodeCase['inputs'], attrs: Attributes = {}): number[] | undefined =>
    run({ op, inputs, attrs })[0]?.data

  test('Inverse by pivots: products with the matrices are the unit', () => {
    const size = 5
    // A zero where the first pivot would be.
    const m = [...numbers(size * size, 1), ...numbers(size * size, 2)].map((v, i) => (i === 0 ? 0 : v))
    const inverse = one('Inverse', [f32([2, size, size], m)]) ?? []
    const product = range(2).flatMap((b) =>
      range(size * size).map((o) =>
        sum(
          range(size).map(
            (k) => at(m, b * 25 + Math.floor(o / size) * size + k) * at(inverse, b * 25 + k * size + (o % size)),
          ),
        ),
      ),
    )
    const unit = range(2 * size * size).map((o) => (Math.floor((o % 25) / size) === o % size ? 1 : 0))
    expect(distance(product, unit)).toBeLessThan(1e-4)
  })

  test('MurmurHash3 of 32 and 64 bits', () => {
    // Values of an independent implementation on the bytes, which gives the vectors of its reference.
    expect(one('MurmurHash3', [i32([2], [3, 4])])).toEqual([847579505, 1889779975])
    expect(one('MurmurHash3', [i64([1], [0])])).toEqual([1669671676])
    expect(one('MurmurHash3', [i64([1], [-2])], { seed: { int: 42 }, positive: { int: 0 } })).toEqual([-981642528])
  })

  test.each([
    ['cityblock', (a: number[], b: number[]) => sum(a.map((v, i) => Math.abs(v - at(b, i))))],
    ['chebyshev', (a: number[], b: number[]) => Math.max(...a.map((v, i) => Math.abs(v - at(b, i))))],
    ['euclidean', (a: number[], b: number[]) => Math.hypot(...a.map((v, i) => v - at(b, i)))],
    [
      'cosine',
      (a: number[], b: number[]) => 1 - sum(a.map((v, i) => v * at(b, i))) / (Math.hypot(...a) * Math.hypot(...b)),
    ],
  ] as const)('CDist by %s', (metric, f) => {
    const [a, b] = [numbers(8, 3), numbers(12, 4)]
    const wanted = range(2).flatMap((i) => range(3).map((j) => f(a.slice(4 * i, 4 * i + 4), b.slice(4 * j, 4 * j + 4))))
    expect(
      distance(one('CDist', [f32([2, 4], a), f32([3, 4], b)], { metric: { string: metric } }), wanted),
    ).toBeLessThan(1e-5)
  })

  test('a transform of real numbers and back', () => {
    const x = numbers(16, 5)
    const there = run({ op: 'Rfft', inputs: [f32([2, 8], x)], attrs: { signal_ndim: { int: 1 } } })[0]
    expect(there?.shape).toEqual([2, 5, 2])
    expect(distance(one('Irfft', [f32([2, 5, 2], there?.data ?? [])], { signal_ndim: { int: 1 } }), x)).toBeLessThan(
      1e-5,
    )
    expect(errorOf(() => one('Rfft', [f32([2, 8], x)], { signal_ndim: { int: 2 } })).message).toContain(
      'transforms of 2 axes',
    )
  })

  test('UnfoldTensor, ComplexMulConj, IsAllFinite, a trigram', () => {
    expect(
      run({
        op: 'UnfoldTensor',
        inputs: [f32([5, 1], [1, 2, 3, 4, 5])],
        attrs: { dim: { int: 0 }, size: { int: 3 }, step: { int: 2 } },
      })[0],
    ).toEqual({
      shape: [2, 1, 3],
      data: [1, 2, 3, 3, 4, 5],
    })
    // (1 + 2i) (3 - 4i) conjugated: (1 + 2i) (3 + 4i) = -5 + 10i.
    expect(one('ComplexMulConj', [f32([2], [1, 2]), f32([2], [3, -4])])).toEqual([-5, 10])
    expect(one('IsAllFinite', [f32([2], [1, 2]), f32([1], [Number.NaN])], { isinf_only: { int: 1 } })).toEqual([1])
    expect(one('IsAllFinite', [f32([2], [1, 2]), f32([1], [Number.NaN])])).toEqual([0])
    const scores = one('NGramRepeatBlock', [i64([1, 5], [1, 2, 3, 1, 2]), f32([1, 5], [0, 1, 2, 3, 4])], {
      ngram_size: { int: 3 },
    })
    expect(scores).toEqual([0, 1, 2, Number.NEGATIVE_INFINITY, 4])
  })
})
