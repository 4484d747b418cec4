/** Hard cases around contractions: packed, symmetric, quantised, convolved. */
import { erf } from '../../../src/scalar/eval.ts'
import { type HardCase, junk, noise, random, range, reader, sum } from './case.ts'

const bytes = (seed: number, n: number): Int8Array => Int8Array.from(noise(seed, n), (v) => v * 127)

export const productCases: readonly HardCase[] = [
  {
    name: 'gelu(x @ w + b), packed and blocked',
    file: 'gelu_matmul',
    buffers: () => ({
      x: random(20, 210),
      w: random(21, 399),
      b: random(22, 19),
      panels: junk(504),
      y: junk(190),
    }),
    expected: (b) => {
      const [x, w, bias] = [reader(b, 'x', 10, 21), reader(b, 'w', 21, 19), reader(b, 'b', 19)]
      return {
        y: range(190, (i) => {
          const [m, n] = [Math.floor(i / 19), i % 19]
          const z = sum(range(21, (k) => x(m, k) * w(k, n))) + bias(n)
          return 0.5 * z * (1 + erf(z / Math.SQRT2))
        }),
      }
    },
    tolerance: 1e-4,
  },
  {
    name: 'x @ x.T',
    file: 'gram',
    buffers: () => ({ x: random(23, 126), y: junk(81) }),
    expected: (b) => {
      const x = reader(b, 'x', 9, 14)
      return { y: range(81, (i) => sum(range(14, (k) => x(Math.floor(i / 9), k) * x(i % 9, k)))) }
    },
  },
  {
    name: 'int8 weights dequantised into a product',
    file: 'int8_matmul',
    buffers: () => ({
      x: random(24, 105),
      a: bytes(25, 105),
      w: bytes(26, 147),
      scale: random(27, 7, 0.01, 0.02),
      y: junk(35),
      z: new Int32Array(35).fill(77),
    }),
    expected: (b) => {
      const [x, a] = [reader(b, 'x', 5, 21), reader(b, 'a', 5, 21)]
      const [w, scale] = [reader(b, 'w', 21, 7), reader(b, 'scale', 7)]
      const at = (f: (m: number, n: number) => number): number[] => range(35, (i) => f(Math.floor(i / 7), i % 7))
      return {
        y: at((m, n) => sum(range(21, (k) => x(m, k) * w(k, n) * scale(n)))),
        z: at((m, n) => sum(range(21, (k) => a(m, k) * w(k, n)))),
      }
    },
  },
  {
    name: 'int4 weights, quantised by one kernel and dequantised into a product by another',
    file: 'int4_matmul',
    buffers: () => ({
      w: random(28, 147),
      scale: random(29, 21, 0.04, 0.14),
      packed: new Int8Array(74).fill(77),
      x: random(30, 105),
      y: junk(35),
    }),
    expected: (b) => {
      const [w, scale, x] = [reader(b, 'w', 21, 7), reader(b, 'scale', 3, 7), reader(b, 'x', 5, 21)]
      const even = (v: number): number => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v))
      const q = (k: number, n: number): number => {
        const s = scale(Math.floor(k / 8), n)
        return Math.min(7, Math.max(-8, even(w(k, n) / s))) * s
      }
      return { y: range(35, (i) => sum(range(21, (k) => x(Math.floor(i / 7), k) * q(k, i % 7)))) }
    },
  },
  {
    name: 'convolution with halo staging, bias, activation and pooling',
    file: 'conv_pool',
    buffers: () => ({
      x: random(31, 378),
      w: random(32, 108),
      bias: random(33, 4),
      y: junk(96),
    }),
    expected: (b) => {
      const [x, w, bias] = [reader(b, 'x', 2, 3, 7, 9), reader(b, 'w', 4, 3, 3, 3), reader(b, 'bias', 4)]
      const padded = (n: number, c: number, y: number, z: number): number =>
        y < 0 || y >= 7 || z < 0 || z >= 9 ? 0 : x(n, c, y, z)
      const conv = (n: number, o: number, y: number, z: number): number => {
        let acc = bias(o)
        for (let c = 0; c < 3; c++)
          for (let u = 0; u < 3; u++)
            for (let v = 0; v < 3; v++) acc += w(o, c, u, v) * padded(n, c, y + u - 1, z + v - 1)
        return Math.max(0, acc)
      }
      const y = range(2, (n) =>
        range(4, (o) =>
          range(3, (p) =>
            range(4, (q) => Math.max(...range(4, (i) => conv(n, o, 2 * p + Math.floor(i / 2), 2 * q + (i % 2))))),
          ),
        ),
      )
      return { y: y.flat(3) }
    },
  },
]
