/** Hard cases of the rest: views, random bits, recurrences, disjoint unions, packed formats, data-dependent indices. */
import { type RandomDType, randomElement } from '../../../src/scalar/eval.ts'
import { type Buffers, type HardCase, junk, noise, random, range, reader } from './case.ts'

const recurrence = (b: Buffers): number[] => {
  const [a, x] = [reader(b, 'a', 3, 13, 6), reader(b, 'x', 3, 13, 6)]
  const h = new Float64Array(3 * 13 * 6)
  for (let n = 0; n < 3; n++)
    for (let d = 0; d < 6; d++) {
      let state = 0
      for (let t = 0; t < 13; t++) {
        state = a(n, t, d) * state + x(n, t, d)
        h[(n * 13 + t) * 6 + d] = state
      }
    }
  return [...h]
}

const adamSizes = [7, 15, 1]

export const otherCases: readonly HardCase[] = [
  {
    name: 'concat and pad inside',
    file: 'concat_pad',
    buffers: () => ({ x: random(50, 20), y: random(51, 24, 1, 2), z: junk(78) }),
    expected: (b) => {
      const [x, y] = [reader(b, 'x', 4, 5), reader(b, 'y', 4, 6)]
      const joined = (i: number, j: number): number => (j < 5 ? Math.exp(x(i, j)) : Math.log(y(i, j - 5)))
      return {
        z: range(78, (n) => {
          const [i, j] = [Math.floor(n / 13) - 1, (n % 13) - 1]
          return i < 0 || i >= 4 || j < 0 || j >= 11 ? 0 : 2 * joined(i, j)
        }),
      }
    },
  },
  {
    name: 'dropout inside',
    file: 'dropout',
    buffers: () => ({
      x: random(52, 259),
      s: random(53, 37),
      res: random(54, 259),
      key: Uint32Array.of(0xdeadbeef, 7),
      y: junk(259),
    }),
    expected: (b) => {
      const [x, s, res] = [reader(b, 'x', 7, 37), reader(b, 's', 37), reader(b, 'res', 7, 37)]
      return {
        y: range(259, (i) => {
          const [r, c] = [Math.floor(i / 37), i % 37]
          const kept = randomElement('u16', 0xdeadbeef, 7, i) >= 19661
          return (kept ? (x(r, c) * s(c)) / 0.7 : 0) + res(r, c)
        }),
      }
    },
  },
  {
    name: 'random bits of every width, where threads hold neighbours of a call and where they do not',
    file: 'random_bits',
    buffers: () => ({
      key: Uint32Array.of(5, 0xfedcba98),
      words: new Uint32Array(5 * 48),
      halves: new Uint16Array(5 * 48),
      bytes: new Uint8Array(5 * 48),
      odd: new Uint16Array(5 * 48),
      odd8: new Uint8Array(5 * 48),
      turned: new Uint32Array(5 * 48),
    }),
    expected: () => {
      const bits = (dtype: RandomDType, at: (i: number) => number): number[] =>
        range(240, (i) => randomElement(dtype, 5, 0xfedcba98, at(i)))
      const column = (i: number): number => 5 * (i % 48) + Math.floor(i / 48)
      return {
        words: bits('u32', (i) => i),
        halves: bits('u16', (i) => i),
        bytes: bits('u8', (i) => i),
        odd: bits('u16', (i) => i + 3),
        odd8: bits('u8', (i) => i + 2),
        turned: bits('u32', column),
      }
    },
  },
  {
    name: 'a gated linear recurrence, step by step and in chunks',
    file: 'linear_recurrence',
    buffers: () => ({ a: random(55, 234, 0.2, 0.75), x: random(56, 234), h: junk(234), h2: junk(234) }),
    expected: (b) => ({ h: recurrence(b), h2: recurrence(b) }),
  },
  {
    name: 'an optimiser step over unequal tensors',
    file: 'optimiser',
    buffers: () => {
      const out: Buffers = { rate: Float32Array.of(0.01) }
      adamSizes.forEach((n, i) => {
        out[`p${i}`] = random(60 + i, n)
        out[`m${i}`] = random(63 + i, n, 0.1)
        out[`v${i}`] = random(66 + i, n, 0.01, 0.02)
        out[`g${i}`] = random(69 + i, n)
      })
      return out
    },
    expected: (b) => {
      const out: Record<string, number[]> = {}
      adamSizes.forEach((n, i) => {
        const [p, m] = [reader(b, `p${i}`, n), reader(b, `m${i}`, n)]
        const [v, g] = [reader(b, `v${i}`, n), reader(b, `g${i}`, n)]
        const m2 = range(n, (k) => 0.9 * m(k) + 0.1 * g(k))
        const v2 = range(n, (k) => 0.99 * v(k) + 0.01 * g(k) ** 2)
        out[`m${i}`] = m2
        out[`v${i}`] = v2
        out[`p${i}`] = range(n, (k) => p(k) - ((m2[k] ?? 0) / (Math.sqrt(v2[k] ?? 0) + 1e-8)) * Math.fround(0.01))
      })
      return out
    },
  },
  {
    name: 'a bit-packed comparison written by one kernel and read by another',
    file: 'packed_comparison',
    buffers: () => ({
      x: random(72, 35),
      y: junk(35),
      positive: new Uint8Array(5).fill(0xa5),
      dy: random(73, 35),
      dx: junk(35),
    }),
    expected: (b) => {
      const [x, dy] = [reader(b, 'x', 35), reader(b, 'dy', 35)]
      return {
        y: range(35, (i) => Math.max(0, x(i))),
        dx: range(35, (i) => (x(i) > 0 ? dy(i) : 0)),
        // 35 bits: the five spare ones keep what stood there.
        positive: range(5, (k) =>
          range(8, (j) => (8 * k + j < 35 ? Number(x(8 * k + j) > 0) : (0xa5 >> j) & 1) << j).reduce(
            (a, c) => a | c,
            0,
          ),
        ),
      }
    },
  },
  {
    name: 'embedding and its gradient: gather and scatter',
    file: 'embedding',
    buffers: () => ({
      table: random(74, 45),
      position: random(75, 30),
      token: BigInt64Array.of(3n, 8n, 3n, 0n, -2n, 99n, 1n, 3n, 8n, 8n, 5n, 4294967298n),
      y: junk(60),
      dy: random(76, 60),
      dtable: Float32Array.from(noise(77, 45)),
    }),
    expected: (b) => {
      const [table, position] = [reader(b, 'table', 9, 5), reader(b, 'position', 6, 5)]
      const [token, dy] = [reader(b, 'token', 12), reader(b, 'dy', 12, 5)]
      const dtable = range(45, reader(b, 'dtable', 45))
      for (let p = 0; p < 12; p++)
        for (let d = 0; d < 5; d++) {
          const at = token(p) * 5 + d
          if (token(p) >= 0 && token(p) < 9) dtable[at] = (dtable[at] ?? 0) + dy(p, d)
        }
      return {
        y: range(60, (i) => {
          const row = Math.min(8, Math.max(0, token(Math.floor(i / 5))))
          return table(row, i % 5) + position(Math.floor(i / 5) % 6, i % 5)
        }),
        dtable,
      }
    },
  },
]
