/** Hard cases over rows: normalisations, losses, arg-max, dependent reductions resident and streamed. */
import { type HardCase, junk, noise, random, range, reader, sum } from './case.ts'

const softmaxRow = (row: readonly number[]): number[] => {
  const m = Math.max(...row)
  const e = row.map((v) => Math.exp(v - m))
  const s = sum(e)
  return e.map((v) => v / s)
}

const softmaxOf = (rows: number, columns: number): Pick<HardCase, 'expected'> => ({
  expected: (b) => {
    const x = reader(b, 'x', rows, columns)
    return { y: range(rows, (r) => softmaxRow(range(columns, (c) => x(r, c)))).flat() }
  },
})

export const rowCases: readonly HardCase[] = [
  {
    name: 'softmax over a row that fits',
    file: 'softmax',
    // Far from 0, so that exponentials overflow unless the maximum is taken off.
    buffers: () => ({ x: random(1, 5 * 37, 9, 800), y: junk(5 * 37) }),
    ...softmaxOf(5, 37),
  },
  {
    name: 'softmax over a long row, streamed',
    file: 'softmax_streamed',
    buffers: () => {
      const x = random(2, 3 * 101, 30)
      // A whole first block, and single elements, of minus infinity.
      x.fill(Number.NEGATIVE_INFINITY, 101, 101 + 20)
      x.fill(Number.NEGATIVE_INFINITY, 250, 251)
      return { x, y: junk(3 * 101) }
    },
    ...softmaxOf(3, 101),
  },
  {
    name: 'layer normalisation, the whole backward',
    file: 'layernorm_backward',
    buffers: () => {
      const x = random(3, 143, 2, 0.5)
      const rows = range(11, (r) => [...x.subarray(13 * r, 13 * r + 13)])
      const mean = rows.map((row) => sum(row) / 13)
      const rstd = rows.map((row, r) => 1 / Math.sqrt(sum(row.map((v) => (v - (mean[r] ?? 0)) ** 2)) / 13 + 1e-5))
      return {
        x,
        w: random(4, 13),
        dy: random(5, 143),
        mean: Float32Array.from(mean),
        rstd: Float32Array.from(rstd),
        dx: junk(143),
        dw_part: junk(39),
        db_part: junk(39),
        dw: junk(13),
        db: junk(13),
      }
    },
    expected: (b) => {
      const [x, dy] = [reader(b, 'x', 11, 13), reader(b, 'dy', 11, 13)]
      const [w, mean, rstd] = [reader(b, 'w', 13), reader(b, 'mean', 11), reader(b, 'rstd', 11)]
      const xhat = (r: number, c: number): number => (x(r, c) - mean(r)) * rstd(r)
      const dx = range(11, (r) => {
        const g = range(13, (c) => dy(r, c) * w(c))
        const meanG = sum(g) / 13
        const meanGX = sum(g.map((v, c) => v * xhat(r, c))) / 13
        return g.map((v, c) => rstd(r) * (v - meanG - xhat(r, c) * meanGX))
      })
      return {
        dx: dx.flat(),
        dw: range(13, (c) => sum(range(11, (r) => dy(r, c) * xhat(r, c)))),
        db: range(13, (c) => sum(range(11, (r) => dy(r, c)))),
      }
    },
  },
  {
    name: 'residual addition and RMS normalisation, both outputs',
    file: 'residual_rmsnorm',
    buffers: () => ({ x: random(6, 114), res: random(7, 114), w: random(8, 19), h: junk(114), y: junk(114) }),
    expected: (b) => {
      const [x, res, w] = [reader(b, 'x', 6, 19), reader(b, 'res', 6, 19), reader(b, 'w', 19)]
      const h = range(6, (r) => range(19, (c) => x(r, c) + res(r, c)))
      const y = h.map((row) => {
        const rms = Math.sqrt(sum(row.map((v) => v * v)) / 19 + 1e-5)
        return row.map((v, c) => (v / rms) * w(c))
      })
      return { h: h.flat(), y: y.flat() }
    },
  },
  {
    name: 'cross-entropy with its gradient',
    file: 'cross_entropy',
    buffers: () => ({
      x: random(9, 115, 4),
      label: Int32Array.of(3, 0, 22, 40, -1),
      loss: junk(5),
      dx: junk(115),
      total: junk(1),
    }),
    expected: (b) => {
      const [x, label] = [reader(b, 'x', 5, 23), reader(b, 'label', 5)]
      const target = (r: number): number => Math.min(22, Math.max(0, label(r)))
      const p = range(5, (r) => softmaxRow(range(23, (c) => x(r, c))))
      const loss = p.map((row, r) => -Math.log(row[target(r)] ?? 0))
      return {
        loss,
        dx: p.flatMap((row, r) => row.map((v, c) => (v - (c === target(r) ? 1 : 0)) / 5)),
        total: [sum(loss) / 5],
      }
    },
  },
  {
    name: 'RMS normalisation per head and rotary embedding',
    file: 'rmsnorm_rotary',
    buffers: () => {
      const angles = range(25, (i) => Math.floor(i / 5) / 7 ** ((i % 5) / 5))
      return {
        x: random(10, 150),
        w: random(11, 10),
        cosine: Float32Array.from(angles, Math.cos),
        sine: Float32Array.from(angles, Math.sin),
        y: junk(150),
      }
    },
    expected: (b) => {
      const [x, w] = [reader(b, 'x', 5, 3, 10), reader(b, 'w', 10)]
      const [cosine, sine] = [reader(b, 'cosine', 5, 5), reader(b, 'sine', 5, 5)]
      const y = range(5, (t) =>
        range(3, (h) => {
          const ms = sum(range(10, (d) => x(t, h, d) ** 2)) / 10
          const n = range(10, (d) => (x(t, h, d) / Math.sqrt(ms + 1e-6)) * w(d))
          return n.map((v, d) =>
            d < 5
              ? v * cosine(t, d) - (n[d + 5] ?? 0) * sine(t, d)
              : v * cosine(t, d - 5) + (n[d - 5] ?? 0) * sine(t, d - 5),
          )
        }),
      )
      return { y: y.flat(2) }
    },
  },
  {
    name: 'arg-max, resident and streamed',
    file: 'argmax',
    buffers: () => {
      const z = Float32Array.from(noise(12, 115), (v) => Math.round(v * 4))
      const x = z.slice()
      x[23 + 4] = Number.NaN
      x[23 + 19] = Number.NaN
      return { x, z, first: new BigInt64Array(5).fill(77n), last: new Int32Array(5).fill(77), best: new Int32Array(5) }
    },
    expected: (b) => {
      const row = (name: string, r: number): number[] => range(23, (c) => reader(b, name, 5, 23)(r, c))
      const top = (v: readonly number[]): number => (v.some(Number.isNaN) ? Number.NaN : Math.max(...v))
      return {
        first: range(5, (r) => row('x', r).findIndex((v) => Object.is(v + 0, top(row('x', r))))),
        last: range(5, (r) => row('x', r).findLastIndex((v) => Object.is(v + 0, top(row('x', r))))),
        best: range(5, (r) => row('z', r).indexOf(Math.max(...row('z', r)))),
      }
    },
  },
  {
    name: 'a loop whose end depends on data',
    file: 'ragged_mean',
    buffers: () => ({ x: random(13, 115), length: Int32Array.of(23, 1, 9, 8, 0), y: junk(5) }),
    expected: (b) => {
      const [x, length] = [reader(b, 'x', 5, 23), reader(b, 'length', 5)]
      return { y: range(5, (r) => sum(range(length(r), (c) => x(r, c))) / length(r)) }
    },
  },
  {
    name: 'sums of sixteen powers of each column at once',
    file: 'column_powers',
    buffers: () => ({ x: random(14, 512 * 64), y: junk(16 * 64) }),
    expected: (b) => {
      const x = reader(b, 'x', 512, 64)
      return { y: range(16, (k) => range(64, (c) => sum(range(512, (r) => x(r, c) ** (k + 1))))).flat() }
    },
  },
]
