/**
 * The benchmark rows: shapes and ranges of the inputs, the bytes and flops a perfect kernel needs, and a float64 oracle of
 * single output elements. Systems implement rows by name.
 */
import {
  convolution,
  count,
  gelu,
  layernorm,
  multiplyAdds,
  pointwise,
  product,
  rmsnorm,
  softmax,
  sumexp,
  uniform,
} from './shared/oracle.mjs'
import { trainingRows } from './training.mjs'

/** The constants of `chain10`: y = x * a + b, five times. */
export const chainConstants = [
  [1.1, 0.5],
  [0.9, -0.25],
  [1.3, 0.125],
  [0.7, -0.5],
  [1.05, 0.75],
]

const M16 = 1 << 24
const ROWS = 4096
const COLS = 4096

/** How many pairs of operations the `compile100` program has, and the side of its square arrays. */
const PAIRS = 50
export const compileSide = 64

/**
 * The program of one seed of `compile100`: 100 operations as pairs (combine, tanh). A combination is of the value before it
 * and one of the three before that; every tenth is a matrix product, every tenth subtracts the mean of each row. Products
 * are with the input, so that values do not vanish.
 */
export function compileProgram(seed) {
  const pick = uniform(PAIRS * 2, 1000 + seed, 0, 1)
  const ops = ['add', 'sub', 'mul', 'max']
  return Array.from({ length: PAIRS }, (_, i) => {
    if (i === 0) return { op: 'add', other: 0 }
    const other = Math.max(0, i - 1 - Math.floor(pick[2 * i + 1] * 3))
    if (i % 10 === 4) return { op: 'matmul', other: 0 }
    if (i % 10 === 9) return { op: 'center', other: i }
    const op = ops[Math.floor(pick[2 * i] * ops.length)] ?? 'add'
    return { op, other: op === 'mul' ? 0 : other }
  })
}

/** The result of the first program of `compile100`. */
let oracle

/** `compile100` in float64. */
function runCompileProgram(x, seed) {
  const n = compileSide
  const values = [Float64Array.from(x)]
  for (const { op, other } of compileProgram(seed)) {
    const a = values[values.length - 1]
    const b = values[other]
    const y = new Float64Array(n * n)
    for (let i = 0; i < n; i++) {
      let mean = 0
      for (let j = 0; j < n; j++) mean += a[i * n + j] / n
      for (let j = 0; j < n; j++) {
        const p = i * n + j
        if (op === 'add') y[p] = a[p] + b[p]
        else if (op === 'sub') y[p] = a[p] - b[p]
        else if (op === 'mul') y[p] = a[p] * b[p]
        else if (op === 'max') y[p] = Math.max(a[p], b[p])
        else if (op === 'center') y[p] = a[p] - mean
        else for (let k = 0; k < n; k++) y[p] += a[i * n + k] * b[k * n + j]
      }
    }
    values.push(y.map(Math.tanh))
  }
  return values[values.length - 1]
}

/**
 * One row. `inputs`: shape and range each; `weights`: positions of the inputs a model would hold as constants. `bytes` and
 * `flops` are what the mathematics needs. `expected(inputs, output, index)` is one element in float64. `calls` repeats a
 * call inside one timing, and the time is of one call.
 */
const row = (r) => ({ weights: [], flops: 0, tolerance: 2e-6, unit: 'ms', calls: 1, ...r })

const elementwise = (name, title, low, high, f, rest = {}) =>
  row({
    name,
    title,
    inputs: [{ shape: [M16], low, high }],
    outputs: [[M16]],
    bytes: 8 * M16,
    expected: pointwise(f),
    ...rest,
  })

const matmul = (n) =>
  row({
    name: `matmul${n}`,
    title: `matmul ${n}^3`,
    inputs: [
      { shape: [n, n], low: -1, high: 1 },
      { shape: [n, n], low: -1, high: 1 },
    ],
    outputs: [[n, n]],
    bytes: 12 * n * n,
    flops: 2 * n ** 3,
    tolerance: 1e-4,
    expected: ([a, b], _, i) => product(a, b, Math.floor(i / n), i % n, n, n),
  })

export const rows = [
  elementwise('chain10', '10 mul/add, 16M', -1, 1, multiplyAdds(chainConstants), { flops: 10 * M16 }),
  elementwise('exp', 'exp, 16M', -4, 4, Math.exp),
  elementwise('tanh', 'tanh, 16M', -4, 4, Math.tanh),
  row({
    name: 'softmax',
    title: 'softmax 4096 x 4096',
    inputs: [{ shape: [ROWS, COLS], low: -4, high: 4 }],
    outputs: [[ROWS, COLS]],
    bytes: 8 * ROWS * COLS,
    expected: softmax(COLS),
  }),
  row({
    name: 'layernorm',
    title: 'layernorm 4096 x 4096',
    inputs: [
      { shape: [ROWS, COLS], low: -2, high: 2 },
      { shape: [COLS], low: 0.5, high: 1.5 },
      { shape: [COLS], low: -1, high: 1 },
    ],
    weights: [1, 2],
    outputs: [[ROWS, COLS]],
    bytes: 8 * ROWS * COLS,
    tolerance: 1e-5,
    expected: layernorm(COLS),
  }),
  row({
    name: 'sumexp',
    title: 'sum(exp(x)), 16M',
    inputs: [{ shape: [M16], low: -1, high: 1 }],
    outputs: [[1]],
    bytes: 4 * M16,
    tolerance: 1e-4,
    expected: sumexp,
  }),
  row({
    name: 'residual_rmsnorm',
    title: 'residual + RMSNorm 4096 x 4096, both outputs',
    inputs: [
      { shape: [ROWS, COLS], low: -1, high: 1 },
      { shape: [ROWS, COLS], low: -1, high: 1 },
      { shape: [COLS], low: 0.5, high: 1.5 },
    ],
    weights: [2],
    outputs: [
      [ROWS, COLS],
      [ROWS, COLS],
    ],
    bytes: 16 * ROWS * COLS,
    tolerance: 1e-5,
    expected: rmsnorm(COLS),
  }),
  row({
    name: 'bias_gelu',
    title: 'bias + GELU (erf) 4096 x 4096',
    inputs: [
      { shape: [ROWS, COLS], low: -3, high: 3 },
      { shape: [COLS], low: -1, high: 1 },
    ],
    weights: [1],
    outputs: [[ROWS, COLS]],
    bytes: 8 * ROWS * COLS,
    tolerance: 1e-5,
    expected: ([x, bias], _, i) => gelu(x[i] + bias[i % COLS]),
  }),
  matmul(1024),
  matmul(1023),
  row({
    name: 'linear_relu',
    title: 'relu(x @ w + b), 1024^3',
    inputs: [
      { shape: [1024, 1024], low: -1, high: 1 },
      { shape: [1024, 1024], low: -1, high: 1 },
      { shape: [1024], low: -1, high: 1 },
    ],
    weights: [1, 2],
    outputs: [[1024, 1024]],
    bytes: 12 * 1024 * 1024,
    flops: 2 * 1024 ** 3,
    tolerance: 1e-4,
    expected: ([x, w, b], _, i) => Math.max(0, product(x, w, i >> 10, i & 1023, 1024, 1024) + b[i & 1023]),
  }),
  row({
    name: 'attention',
    title: 'attention 1024 x 64, one head',
    inputs: [0, 1, 2].map(() => ({ shape: [1024, 64], low: -1, high: 1 })),
    outputs: [[1024, 64]],
    bytes: 16 * 1024 * 64,
    flops: 4 * 1024 * 1024 * 64,
    expected: ([q, k, v], _, i) => {
      const [row, col] = [i >> 6, i & 63]
      let [sum, out] = [0, 0]
      for (let j = 0; j < 1024; j++) {
        let score = 0
        for (let d = 0; d < 64; d++) score += q[row * 64 + d] * k[j * 64 + d]
        const e = Math.exp(score / 8)
        sum += e
        out += e * v[j * 64 + col]
      }
      return out / sum
    },
  }),
  row({
    name: 'conv3x3',
    title: 'conv 3x3, 64 -> 64, 56 x 56, padded',
    inputs: [
      { shape: [1, 64, 56, 56], low: -1, high: 1 },
      { shape: [64, 64, 3, 3], low: -1, high: 1 },
    ],
    weights: [1],
    outputs: [[1, 64, 56, 56]],
    bytes: 4 * (2 * 64 * 56 * 56 + 64 * 64 * 9),
    flops: 2 * 64 * 64 * 9 * 56 * 56,
    tolerance: 1e-4,
    expected: convolution([1, 64, 56, 56]),
  }),
  row({
    name: 'call64',
    title: 'a call of tanh(2x + 1) on 64 elements, read back',
    inputs: [{ shape: [64], low: -1, high: 1 }],
    outputs: [[64]],
    bytes: 512,
    unit: 'us',
    calls: 1000,
    expected: pointwise((x) => Math.tanh(2 * x + 1)),
  }),
  row({
    name: 'compile100',
    title: 'first call of a new 100-op program, 64 x 64',
    inputs: [{ shape: [compileSide, compileSide], low: -1, high: 1 }],
    outputs: [[compileSide, compileSide]],
    bytes: 0,
    tolerance: 1e-3,
    fresh: true,
    expected: ([x], _, i) => {
      oracle ??= runCompileProgram(x, 0)
      return oracle[i]
    },
  }),
  ...trainingRows.map(row),
]

export const inputsOf = (row) => row.inputs.map((p, i) => p.data?.() ?? uniform(count(p.shape), i + 1, p.low, p.high))
export const outputSizes = (row) => row.outputs.map(count)
