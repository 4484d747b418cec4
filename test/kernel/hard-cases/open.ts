/** Hard cases with launch scalars: extents and coefficients of index maps that a launch hands over. */
import { type HardCase, junk, noise, random, range, reader, sum } from './case.ts'

const softmaxRow = (row: readonly number[]): number[] => {
  const m = Math.max(...row)
  const e = row.map((v) => Math.exp(v - m))
  const s = sum(e)
  return e.map((v) => v / s)
}

/** What stands in a buffer with its first elements replaced. */
const startingWith = (buffer: ArrayLike<number | bigint> | undefined, values: readonly number[]): number[] => {
  const out = Array.from(buffer ?? [], Number)
  values.forEach((v, i) => {
    out[i] = v
  })
  return out
}

/** The same case at several sizes. */
const each = (
  sizes: readonly (readonly number[])[],
  make: (...n: number[]) => Omit<HardCase, 'name'>,
  name: string,
): HardCase[] => sizes.map((n) => ({ ...make(...n), name: `${name}: ${n.join(' by ')}` }))

const softmaxCases = (
  file: string,
  name: string,
  [rows, columns]: readonly [number, number],
  sizes: number[][],
): HardCase[] =>
  each(
    sizes,
    (r = 0, c = 0) => ({
      file,
      buffers: () => ({
        sizes: Int32Array.of(r, c),
        x: random(r + 3 * c, rows * columns, 9, 30),
        y: junk(rows * columns),
      }),
      expected: (b) => {
        const x = reader(b, 'x', rows * columns)
        return { y: startingWith(b.y, range(r, (i) => softmaxRow(range(c, (j) => x(c * i + j)))).flat()) }
      },
    }),
    name,
  )

const running = (row: readonly number[]): number[] => {
  let s = 0
  return row.map((v) => {
    s += v
    return s
  })
}

/** Numbers that bf16 holds, by their bits. */
const halves = (seed: number, n: number): Uint16Array =>
  new Uint16Array(Float32Array.from(noise(seed, n), (v) => Math.round(v * 64) / 64).buffer).filter(
    (_, i) => i % 2 === 1,
  )

const fromHalves = (bits: ArrayLike<number | bigint> | undefined): Float32Array =>
  new Float32Array(Uint32Array.from(Array.from(bits ?? [], Number), (v) => v << 16).buffer)

export const openCases: readonly HardCase[] = [
  ...each(
    [
      [20, 24, 35],
      [13, 7, 18],
      [1, 24, 1],
      [9, 0, 16],
      [0, 5, 5],
    ],
    (m = 0, k = 0, n = 0) => ({
      file: 'open_matmul',
      buffers: () => ({
        sizes: Int32Array.of(m, k, n),
        x: random(20, 480),
        w: random(21, 840),
        b: random(22, 35),
        y: junk(700),
      }),
      expected: (b) => {
        const [x, w, bias] = [reader(b, 'x', 480), reader(b, 'w', 840), reader(b, 'b', 35)]
        const cell = (i: number, j: number): number => sum(range(k, (l) => x(k * i + l) * w(n * l + j))) + bias(j)
        return { y: startingWith(b.y, range(m, (i) => range(n, (j) => cell(i, j))).flat()) }
      },
    }),
    'a product whose three extents come with the launch',
  ),
  ...each(
    [
      [96, 192, 128],
      [65, 72, 40],
      [3, 8, 8],
    ],
    (m = 0, k = 0, n = 0) => ({
      file: 'open_matmul_half',
      buffers: () => ({ sizes: Int32Array.of(m, k, n), x: halves(28, 18432), w: halves(29, 24576), y: junk(12288) }),
      expected: (b) => {
        const [x, w] = [fromHalves(b.x), fromHalves(b.w)]
        const cell = (i: number, j: number): number => sum(range(k, (l) => (x[k * i + l] ?? 0) * (w[n * l + j] ?? 0)))
        return { y: startingWith(b.y, range(m, (i) => range(n, (j) => cell(i, j))).flat()) }
      },
      tolerance: 5e-4,
    }),
    'a product of half precision with open extents',
  ),
  ...softmaxCases(
    'open_softmax',
    'softmax of open rows',
    [6, 45],
    [
      [6, 45],
      [5, 1],
      [3, 37],
      [0, 9],
    ],
  ),
  ...softmaxCases(
    'open_softmax_streamed',
    'softmax of open rows, streamed',
    [3, 140],
    [
      [3, 140],
      [2, 4],
      [3, 100],
    ],
  ),
  ...each(
    [
      [6, 41],
      [4, 17],
      [6, 1],
      [3, 0],
    ],
    (r = 0, t = 0) => ({
      file: 'open_scan',
      buffers: () => ({
        sizes: Int32Array.of(r, t),
        x: random(23, 246),
        whole: junk(246),
        back: junk(246),
        chunked: junk(246),
      }),
      expected: (b) => {
        const x = reader(b, 'x', 246)
        const rows = range(r, (i) => range(t, (j) => x(t * i + j)))
        const forward = rows.flatMap(running)
        const back = rows.flatMap((row) => running([0, ...row.slice(1).reverse()]).reverse())
        return {
          whole: startingWith(b.whole, forward),
          back: startingWith(b.back, t === 0 ? [] : back),
          chunked: startingWith(b.chunked, forward),
        }
      },
    }),
    'running sums along open rows',
  ),
  ...each(
    [
      [19, 36],
      [8, 5],
      [1, 17],
    ],
    (r = 0, c = 0) => ({
      file: 'open_transpose',
      buffers: () => ({ sizes: Int32Array.of(r, c), x: random(24, 684), y: junk(684) }),
      expected: (b) => {
        const x = reader(b, 'x', 684)
        return { y: startingWith(b.y, range(c, (j) => range(r, (i) => x(c * i + j))).flat()) }
      },
    }),
    'a transpose of open extents',
  ),
  ...each(
    [[19], [1], [6]],
    (n = 0) => ({
      file: 'open_positions',
      buffers: () => ({
        sizes: Int32Array.of(n),
        fresh: random(25, 11),
        cache: random(26, 220),
        half: junk(220),
        place: new Int32Array(19).fill(77),
      }),
      expected: (b) => {
        const fresh = range(11, (d) => reader(b, 'fresh', 11)(d))
        const old = Array.from(b.cache ?? [], Number)
        const cache = [...old.slice(0, 11 * n), ...fresh, ...old.slice(11 * n + 11)]
        const row = (i: number): number[] =>
          range(11, (d) => (n - 2 * i >= 0 ? (cache[11 * (n - i - 1) + d] ?? 0) : -1))
        return {
          cache,
          half: startingWith(b.half, range(n, row).flat()),
          place: startingWith(
            b.place,
            range(n, (i) => 3 * n * Math.floor(i / 2) + n),
          ),
        }
      },
    }),
    'rows behind and before an open end',
  ),
  ...each(
    [
      [40, 100],
      [7, 33],
      [1, 1],
    ],
    (r = 0, c = 0) => ({
      file: 'open_strict',
      buffers: () => ({
        sizes: Int32Array.of(r, c),
        x: Float32Array.from(noise(27, 4000), (v) => Math.round(v * 20)),
        s: junk(40),
        best: new Int32Array(40).fill(77),
      }),
      expected: (b) => {
        const x = reader(b, 'x', 4000)
        const rows = range(r, (i) => range(c, (j) => x(c * i + j)))
        return {
          s: startingWith(b.s, rows.map(sum)),
          best: startingWith(
            b.best,
            rows.map((row) => row.indexOf(Math.max(...row))),
          ),
        }
      },
    }),
    'strict folds of open rows',
  ),
]
