/** Hard cases of attention: forward and backward with score modifications, one query row without any key. */
import { type Buffers, type HardCase, junk, random, range, reader, sum } from './case.ts'

const [B, H, S, T, D] = [2, 4, 7, 11, 5]

const inputs = (): Buffers => {
  const valid = new Uint8Array(B * T).fill(1)
  // The second batch: query 0 sees keys 0 to 4 only, and none of them is valid.
  valid.fill(0, T, T + 5)
  valid[3] = 0
  return {
    query: random(40, B * H * S * D, 3),
    key: random(41, B * 2 * T * D, 3),
    val: random(42, B * 2 * T * D),
    slope: Float32Array.of(0.5, 0.25, 0.125, 0.0625),
    valid,
  }
}

/** Capped, biased scores where the mask allows them, and the slope of the cap. */
function scores(b: Buffers, n: number, h: number, q: number): { t: number; score: number; capSlope: number }[] {
  const query = reader(b, 'query', B, H, S, D)
  const key = reader(b, 'key', B, 2, T, D)
  const [slope, valid] = [reader(b, 'slope', H), reader(b, 'valid', B, T)]
  return range(T, (t) => t)
    .filter((t) => q - t + 4 >= 0 && q - t + 4 < 6 && valid(n, t) === 1)
    .map((t) => {
      const u = sum(range(D, (d) => query(n, h, q, d) * key(n, h >> 1, t, d))) / Math.sqrt(D)
      const capped = Math.tanh(u / 3)
      return { t, score: 3 * capped + slope(h) * (t - q - 4), capSlope: 1 - capped * capped }
    })
}

interface Row {
  readonly n: number
  readonly h: number
  readonly q: number
  readonly lse: number
  readonly out: readonly number[]
  readonly weights: readonly { readonly t: number; readonly p: number; readonly capSlope: number }[]
}

function forward(b: Buffers): Row[] {
  const val = reader(b, 'val', B, 2, T, D)
  return range(B * H * S, (i) => {
    const [n, h, q] = [Math.floor(i / (H * S)), Math.floor(i / S) % H, i % S]
    const s = scores(b, n, h, q)
    const lse = Math.log(sum(s.map((x) => Math.exp(x.score))))
    const weights = s.map((x) => ({ t: x.t, p: Math.exp(x.score - lse), capSlope: x.capSlope }))
    const out = range(D, (d) => sum(weights.map((w) => w.p * val(n, h >> 1, w.t, d))))
    return { n, h, q, lse, out, weights }
  })
}

export const attentionCases: readonly HardCase[] = [
  {
    name: 'attention forward: causal window, ALiBi, soft cap, grouped heads, padded keys',
    file: 'attention_forward',
    buffers: () => ({ ...inputs(), out: junk(B * H * S * D), lse: junk(B * H * S) }),
    expected: (b) => {
      const rows = forward(b)
      return { out: rows.flatMap((r) => r.out), lse: rows.map((r) => r.lse) }
    },
  },
  {
    name: 'attention backward in two kernels',
    file: 'attention_backward',
    buffers: () => {
      const b = inputs()
      const rows = forward(b)
      return {
        ...b,
        out: Float32Array.from(rows.flatMap((r) => r.out)),
        lse: Float32Array.from(rows, (r) => r.lse),
        dout: random(43, B * H * S * D),
        delta: junk(B * H * S),
        dquery: junk(B * H * S * D),
        dkey: junk(B * 2 * T * D),
        dval: junk(B * 2 * T * D),
      }
    },
    expected: (b) => {
      const query = reader(b, 'query', B, H, S, D)
      const [key, val] = [reader(b, 'key', B, 2, T, D), reader(b, 'val', B, 2, T, D)]
      const dout = reader(b, 'dout', B, H, S, D)
      const dquery = new Float64Array(B * H * S * D)
      const dkey = new Float64Array(B * 2 * T * D)
      const dval = new Float64Array(B * 2 * T * D)
      const add = (to: Float64Array, at: number, v: number): void => {
        to[at] = (to[at] ?? 0) + v
      }
      forward(b).forEach((row, i) => {
        const { n, h, q } = row
        const delta = sum(row.out.map((o, d) => o * dout(n, h, q, d)))
        for (const { t, p, capSlope } of row.weights) {
          const dp = sum(range(D, (d) => dout(n, h, q, d) * val(n, h >> 1, t, d)))
          const du = (p * (dp - delta) * capSlope) / Math.sqrt(D)
          const at = ((n * 2 + (h >> 1)) * T + t) * D
          for (let d = 0; d < D; d++) {
            add(dval, at + d, p * dout(n, h, q, d))
            add(dquery, i * D + d, du * key(n, h >> 1, t, d))
            add(dkey, at + d, du * query(n, h, q, d))
          }
        }
      })
      return { dquery: [...dquery], dkey: [...dkey], dval: [...dval] }
    },
    tolerance: 1e-4,
  },
]
