/** Attention operators of onnxruntime against loops over batches, heads, queries and keys, for what its cases do not ask. */
import { describe, expect, test } from 'vitest'
import {
  type Attributes,
  distance,
  f32,
  i32,
  i64,
  numbers,
  type Operand,
  run,
  runCompiled,
  wholes,
} from './contribNode.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** Values at places of several extents. */
class Grid {
  readonly extents: readonly number[]
  readonly data: number[]
  constructor(extents: readonly number[], data: readonly number[]) {
    this.extents = extents
    this.data = [...data]
  }
  private place(at: readonly number[]): number {
    return at.reduce((p, v, i) => p * (this.extents[i] ?? 1) + v, 0)
  }
  get(...at: number[]): number {
    return this.data[this.place(at)] ?? Number.NaN
  }
  set(value: number, ...at: number[]): void {
    this.data[this.place(at)] = value
  }
}
const zeros = (...extents: number[]): Grid =>
  new Grid(extents, new Array<number>(extents.reduce((a, b) => a * b, 1)).fill(0))
const drawn = (seed: number, ...extents: number[]): Grid =>
  new Grid(
    extents,
    numbers(
      extents.reduce((a, b) => a * b, 1),
      seed,
    ),
  )
const operand = (g: Grid): Operand => f32(g.extents, g.data)

interface Loop {
  readonly q: (b: number, h: number, s: number, d: number) => number
  readonly k: (b: number, h: number, t: number, d: number) => number
  readonly v: (b: number, h: number, t: number, d: number) => number
  readonly batch: number
  readonly heads: number
  readonly queries: number
  readonly keys: number
  readonly width: number
  readonly scale?: number
  readonly score?: (raw: number, b: number, h: number, s: number, t: number) => number
  readonly sees?: (b: number, s: number, t: number) => boolean
  readonly sink?: (h: number) => number
}

/** softmax(score(scale q k)) v, heads side by side: [batch, queries, heads * width]; and what the softmax gives. */
function attended(l: Loop): { readonly y: number[]; readonly weights: Grid; readonly scores: Grid } {
  const y = zeros(l.batch, l.queries, l.heads, l.width)
  const weights = zeros(l.batch, l.heads, l.queries, l.keys)
  const scores = zeros(l.batch, l.heads, l.queries, l.keys)
  for (let b = 0; b < l.batch; b++)
    for (let h = 0; h < l.heads; h++)
      for (let s = 0; s < l.queries; s++) {
        const e = range(l.keys).map((t) => {
          if (l.sees?.(b, s, t) === false) return 0
          const dot = range(l.width).reduce((p, d) => p + l.q(b, h, s, d) * l.k(b, h, t, d), 0)
          const raw = dot * (l.scale ?? 1 / Math.sqrt(l.width))
          const score = l.score === undefined ? raw : l.score(raw, b, h, s, t)
          scores.set(score, b, h, s, t)
          return Math.exp(score)
        })
        const total = e.reduce((p, v) => p + v, 0) + (l.sink === undefined ? 0 : Math.exp(l.sink(h)))
        e.forEach((v, t) => {
          weights.set(v / total, b, h, s, t)
          for (let d = 0; d < l.width; d++) y.set(y.get(b, s, h, d) + (v / total) * l.v(b, h, t, d), b, s, h, d)
        })
      }
  return { y: y.data, weights, scores }
}

describe('GroupQueryAttention', () => {
  const [batch, many, few, width, queries, past] = [2, 4, 2, 8, 2, 5]
  const total = past + queries
  const attributes: Attributes = { num_heads: { int: many }, kv_num_heads: { int: few } }
  const q = drawn(1, batch, queries, many, width)
  const k = drawn(2, batch, queries, few, width)
  const v = drawn(3, batch, queries, few, width)
  const pastKey = drawn(4, batch, few, past, width)
  const pastValue = drawn(5, batch, few, past, width)
  // Tokens of each sequence, the new ones among them: one shorter than the other.
  const lengths = [5, total]
  const merged = (g: Grid, heads: number): Operand => f32([batch, queries, heads * width], g.data)
  const inputs = (...more: (Operand | undefined)[]): (Operand | undefined)[] => [
    merged(q, many),
    merged(k, few),
    merged(v, few),
    operand(pastKey),
    operand(pastValue),
    i32(
      [batch],
      lengths.map((n) => n - 1),
    ),
    { ...i32([], [total]), fixed: true },
    ...more,
  ]
  const group = many / few
  /** Keys or values after the step: what is valid of the past, then the new ones. */
  const cache = (before: Grid, now: Grid, turned: (x: Grid, b: number, h: number, s: number, d: number) => number) => {
    const made = zeros(batch, few, total, width)
    for (let b = 0; b < batch; b++) {
      const kept = (lengths[b] ?? 0) - queries
      for (let h = 0; h < few; h++)
        for (let d = 0; d < width; d++) {
          for (let t = 0; t < kept; t++) made.set(before.get(b, h, t, d), b, h, t, d)
          for (let s = 0; s < queries; s++) made.set(turned(now, b, h, s, d), b, h, kept + s, d)
        }
    }
    return made
  }
  const plain = (x: Grid, b: number, h: number, s: number, d: number): number => x.get(b, s, h, d)
  const end = (b: number, s: number): number => Math.min((lengths[b] ?? 0) - queries + s + 1, lengths[b] ?? 0)
  const loop = (keys: Grid, values: Grid, more: Partial<Loop> = {}): Loop => ({
    q: (b, h, s, d) => q.get(b, s, h, d),
    k: (b, h, t, d) => keys.get(b, Math.floor(h / group), t, d),
    v: (b, h, t, d) => values.get(b, Math.floor(h / group), t, d),
    batch,
    heads: many,
    queries,
    keys: total,
    width,
    sees: (b, s, t) => t < end(b, s),
    ...more,
  })
  const node = { op: 'GroupQueryAttention', outputs: 4 }

  test('sequences of different lengths after a past, with bias, softcap, sinks and a window; scores', () => {
    const [keys, values] = [cache(pastKey, k, plain), cache(pastValue, v, plain)]
    const bias = drawn(6, 1, many, queries, total)
    const sinks = numbers(many, 7)
    const window = 3
    const attrs = {
      ...attributes,
      softcap: { float: 2 },
      scale: { float: 0.5 },
      local_window_size: { int: window },
      qk_output: { int: 1 },
    }
    const wanted = attended(
      loop(keys, values, {
        scale: 0.5,
        score: (raw, _, h, s, t) => 2 * Math.tanh(raw / 2) + bias.get(0, h, s, t),
        sees: (b, s, t) => t < end(b, s) && t >= end(b, s) - window,
        sink: (h) => sinks[h] ?? 0,
      }),
    )
    const more = [undefined, undefined, undefined, operand(bias), f32([many], sinks)]
    const given = { ...node, inputs: inputs(...more), attrs }
    const [y, presentKey, presentValue, scores] = run(given)
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
    expect(distance(presentKey?.data, keys.data)).toBeLessThan(1e-6)
    expect(distance(presentValue?.data, values.data)).toBeLessThan(1e-6)
    expect(distance(scores?.data, wanted.scores.data)).toBeLessThan(1e-5)
    expect(distance(runCompiled(given)[0], wanted.y)).toBeLessThan(1e-5)
    const [, , , weights] = run({ ...given, attrs: { ...attrs, qk_output: { int: 2 } } })
    expect(distance(weights?.data, wanted.weights.data)).toBeLessThan(1e-5)
  })

  test('half of each head rotated by neighbours, at positions of the sequence', () => {
    const turned = width / 2
    const [cos, sin] = [drawn(8, 16, turned / 2), drawn(9, 16, turned / 2)]
    const rotated = (value: (d: number) => number, position: number, d: number): number => {
      if (d >= turned) return value(d)
      const pair = Math.floor(d / 2)
      const [c, s] = [cos.get(position, pair), sin.get(position, pair)]
      const [a, b] = [value(2 * pair), value(2 * pair + 1)]
      return d % 2 === 0 ? a * c - b * s : b * c + a * s
    }
    const position = (b: number, s: number): number => (lengths[b] ?? 0) - queries + s
    const turn = (x: Grid, b: number, h: number, s: number, d: number): number =>
      rotated((e) => x.get(b, s, h, e), position(b, s), d)
    const [keys, values] = [cache(pastKey, k, turn), cache(pastValue, v, plain)]
    const wanted = attended(loop(keys, values, { q: (b, h, s, d) => turn(q, b, h, s, d) }))
    const [y, presentKey] = run({
      op: 'GroupQueryAttention',
      outputs: 3,
      inputs: inputs(operand(cos), operand(sin)),
      attrs: { ...attributes, do_rotary: { int: 1 }, rotary_interleaved: { int: 1 } },
    })
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
    expect(distance(presentKey?.data, keys.data)).toBeLessThan(1e-6)
  })

  test('not causal, with a smooth softmax', () => {
    const [keys, values] = [cache(pastKey, k, plain), cache(pastValue, v, plain)]
    const wanted = attended(loop(keys, values, { sees: (b, _, t) => t < (lengths[b] ?? 0), sink: () => 0 }))
    const [y] = run({
      op: 'GroupQueryAttention',
      outputs: 3,
      inputs: inputs(),
      attrs: { ...attributes, causal: { int: 0 }, smooth_softmax: { int: 1 } },
    })
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
  })
})

describe('SparseAttention', () => {
  test('blocks of a layout for each head in turn', () => {
    const [heads, width, total, size] = [2, 4, 64, 16]
    const blocks = 4
    const layouts = [
      [[0], [0, 1], [1, 2], [1, 2, 3]],
      [[0], [1], [0, 2], [0, 3]],
    ]
    const rows = layouts.flatMap((l) => range(blocks + 1).map((i) => l.slice(0, i).flat().length))
    const columns = layouts.flatMap((l) => {
      const flat = l.flat()
      return [...flat, ...new Array<number>(8 - flat.length).fill(-1)]
    })
    const [q, k, v] = [
      drawn(1, 1, total, heads, width),
      drawn(2, 1, total, heads, width),
      drawn(3, 1, total, heads, width),
    ]
    const merged = (g: Grid): Operand => f32([1, total, heads * width], g.data)
    const empty = f32([1, heads, total, width], new Array<number>(heads * total * width).fill(0))
    const [y] = run({
      op: 'SparseAttention',
      outputs: 3,
      inputs: [
        merged(q),
        merged(k),
        merged(v),
        empty,
        empty,
        i32([2, blocks + 1], rows),
        i32([2, 8], columns),
        { ...i32([], [total]), fixed: true },
        i32([1], [total]),
      ],
      attrs: { num_heads: { int: heads }, kv_num_heads: { int: heads }, sparse_block_size: { int: size } },
    })
    const wanted = range(heads).map((h) =>
      attended({
        q: (b, _, s, d) => q.get(b, s, h, d),
        k: (b, _, t, d) => k.get(b, t, h, d),
        v: (b, _, t, d) => v.get(b, t, h, d),
        batch: 1,
        heads: 1,
        queries: total,
        keys: total,
        width,
        sees: (_, s, t) => t <= s && (layouts[h]?.[Math.floor(s / size)] ?? []).includes(Math.floor(t / size)),
      }),
    )
    const both = range(total).flatMap((s) => wanted.flatMap((w) => w.y.slice(s * width, (s + 1) * width)))
    expect(distance(y?.data, both)).toBeLessThan(1e-5)
  })
})

describe('Attention', () => {
  const [batch, heads, queries, input, width] = [2, 2, 3, 5, 4]
  const hidden = heads * width
  const x = drawn(1, batch, queries, input)
  const w = drawn(2, input, 3 * hidden)
  const shift = numbers(3 * hidden, 3)
  const projected = (part: number) => (b: number, h: number, s: number, d: number) => {
    const column = part * hidden + h * width + d
    return range(input).reduce((p, i) => p + x.get(b, s, i) * w.get(i, column), shift[column] ?? 0)
  }
  const loop = (more: Partial<Loop> = {}): Loop => ({
    q: projected(0),
    k: projected(1),
    v: projected(2),
    batch,
    heads,
    queries,
    keys: queries,
    width,
    ...more,
  })
  const given = (mask: Operand | undefined, attrs: Attributes = {}) => ({
    op: 'Attention',
    inputs: [operand(x), operand(w), f32([3 * hidden], shift), mask],
    attrs: { num_heads: { int: heads }, ...attrs },
  })

  test('a mask of ends and starts', () => {
    const [ends, starts] = [
      [3, 2],
      [1, 0],
    ]
    const wanted = attended(
      loop({ score: (raw, b, _, __, t) => raw + (t < (ends[b] ?? 0) && t >= (starts[b] ?? 0) ? 0 : -10000) }),
    )
    const [y] = run(given(i32([2 * batch], [...ends, ...starts])))
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
  })

  test('masks of queries and keys, and of a longest sequence', () => {
    const mask = new Grid([batch, queries, queries], wholes(batch * queries * queries, 2, 4))
    const wanted = attended(loop({ score: (raw, b, _, s, t) => raw + (mask.get(b, s, t) > 0 ? 0 : -100) }))
    const filter = { mask_filter_value: { float: -100 } }
    const [y] = run(given(i32(mask.extents, mask.data), filter))
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
    const wide = zeros(batch, 1, 5, 5)
    for (let b = 0; b < batch; b++)
      for (let s = 0; s < queries; s++) for (let t = 0; t < queries; t++) wide.set(mask.get(b, s, t), b, 0, s, t)
    const [z] = run(given(i32(wide.extents, wide.data), filter))
    expect(distance(z?.data, wanted.y)).toBeLessThan(1e-5)
  })

  test('without padding: tokens behind each other', () => {
    // The first sequence has two tokens, the second three.
    const lengths = [2, 3]
    const tokens = [...x.data.slice(0, 2 * input), ...x.data.slice(3 * input)]
    const [y] = run({
      op: 'PackedAttention',
      inputs: [
        f32([5, input], tokens),
        operand(w),
        f32([3 * hidden], shift),
        i32([batch, queries], [0, 1, 3, 4, 5, 2]),
        i32([batch + 1], [0, 2, 5]),
      ],
      attrs: { num_heads: { int: heads } },
    })
    const wanted = attended(loop({ sees: (b, _, t) => t < (lengths[b] ?? 0) }))
    expect(distance(y?.data, [...wanted.y.slice(0, 2 * hidden), ...wanted.y.slice(3 * hidden)])).toBeLessThan(1e-5)
  })
})

describe('MultiHeadAttention', () => {
  const [batch, heads, queries, keys, width] = [2, 2, 3, 4, 4]
  const hidden = heads * width

  test('packed keys and values, a mask of queries and keys, scores', () => {
    const q = drawn(1, batch, queries, heads, width)
    const pair = drawn(2, batch, keys, heads, 2, width)
    const mask = new Grid([batch, queries, keys], wholes(batch * queries * keys, 2, 3))
    const [y, , , scores] = run({
      op: 'MultiHeadAttention',
      outputs: 4,
      inputs: [
        f32([batch, queries, hidden], q.data),
        operand(pair),
        undefined,
        undefined,
        i32(mask.extents, mask.data),
      ],
      attrs: { num_heads: { int: heads }, mask_filter_value: { float: -7 } },
    })
    const wanted = attended({
      q: (b, h, s, d) => q.get(b, s, h, d),
      k: (b, h, t, d) => pair.get(b, t, h, 0, d),
      v: (b, h, t, d) => pair.get(b, t, h, 1, d),
      batch,
      heads,
      queries,
      keys,
      width,
      score: (raw, b, _, s, t) => raw + (mask.get(b, s, t) > 0 ? 0 : -7),
    })
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
    expect(distance(scores?.data, wanted.scores.data)).toBeLessThan(1e-5)
  })

  test('packed query, key and value', () => {
    const all = drawn(4, batch, queries, heads, 3, width)
    const [y] = run({ op: 'MultiHeadAttention', inputs: [operand(all)], attrs: { num_heads: { int: heads } } })
    const part = (i: number) => (b: number, h: number, s: number, d: number) => all.get(b, s, h, i, d)
    const wanted = attended({
      q: part(0),
      k: part(1),
      v: part(2),
      batch,
      heads,
      queries,
      keys: queries,
      width,
    })
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
  })

  test('one step into a buffer that beams share', () => {
    // Two beams of one batch; the past of two tokens came from either.
    const [beams, extent, past] = [2, 6, 2]
    const [q, k, v] = [drawn(5, beams, heads, width), drawn(6, beams, heads, width), drawn(7, beams, heads, width)]
    const [cacheK, cacheV] = [drawn(8, beams, heads, extent, width), drawn(9, beams, heads, extent, width)]
    const origin = new Grid([1, beams, extent], [1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0])
    const merged = (g: Grid): Operand => f32([beams, 1, hidden], g.data)
    const [y, presentKey] = run({
      op: 'DecoderMaskedMultiHeadAttention',
      outputs: 3,
      inputs: [
        merged(q),
        merged(k),
        merged(v),
        undefined,
        undefined,
        operand(cacheK),
        operand(cacheV),
        i32([1], [past]),
        i32([1], [beams]),
        i32(origin.extents, origin.data),
      ],
      attrs: { num_heads: { int: heads }, past_present_share_buffer: { int: 1 } },
    })
    const of = (cache: Grid, now: Grid) => (b: number, h: number, t: number, d: number) =>
      t === past ? now.get(b, h, d) : cache.get(origin.get(0, b, t), h, t, d)
    const wanted = attended({
      q: (b, h, _, d) => q.get(b, h, d),
      k: of(cacheK, k),
      v: of(cacheV, v),
      batch: beams,
      heads,
      queries: 1,
      keys: past + 1,
      width,
    })
    expect(distance(y?.data, wanted.y)).toBeLessThan(1e-5)
    const kept = new Grid(cacheK.extents, cacheK.data)
    for (let b = 0; b < beams; b++)
      for (let h = 0; h < heads; h++) for (let d = 0; d < width; d++) kept.set(k.get(b, h, d), b, h, past, d)
    expect(distance(presentKey?.data, kept.data)).toBeLessThan(1e-6)
  })
})

describe('rotary embedding', () => {
  test('three streams of positions, by sections and interleaved', () => {
    const [heads, width, sequence] = [2, 12, 3]
    const half = width / 2
    const x = drawn(1, 1, heads, sequence, width)
    const [cos, sin] = [drawn(2, 9, half), drawn(3, 9, half)]
    const positions = new Grid([3, 1, sequence], wholes(9, 9, 4))
    const sections = [3, 2, 1]
    for (const layout of [0, 1]) {
      const stream = (i: number): number => {
        if (layout === 0) return i < 3 ? 0 : i < 5 ? 1 : 2
        if (i % 3 === 1 && i < 6) return 1
        return i % 3 === 2 && i < 3 ? 2 : 0
      }
      const wanted = zeros(1, heads, sequence, width)
      for (let h = 0; h < heads; h++)
        for (let s = 0; s < sequence; s++)
          for (let i = 0; i < half; i++) {
            const p = positions.get(stream(i), 0, s)
            const [a, b] = [x.get(0, h, s, i), x.get(0, h, s, i + half)]
            wanted.set(a * cos.get(p, i) - b * sin.get(p, i), 0, h, s, i)
            wanted.set(b * cos.get(p, i) + a * sin.get(p, i), 0, h, s, i + half)
          }
      const [y] = run({
        op: 'MRotaryEmbedding',
        inputs: [operand(x), i64(positions.extents, positions.data), operand(cos), operand(sin)],
        attrs: { mrope_section: { ints: sections }, mrope_layout: { int: layout } },
      })
      expect(distance(y?.data, wanted.data)).toBeLessThan(1e-6)
    }
  })
})
