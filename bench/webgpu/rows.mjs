/**
 * Rows of the WebGPU benchmark at three sizes: shapes and ranges of f32 inputs, what a perfect kernel moves or computes, and
 * single elements of the results in float64. Systems implement rows by name.
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
} from '../shared/oracle.mjs'
import { gridRow } from './grid.mjs'

/** The multiply-adds of `chain`: each uses the result of the one before. */
export const chain = Array.from({ length: 10 }, (_, i) => [1 + 0.03 * (i - 4.5), 0.25 * ((i % 3) - 1)])

/** n: elements; rows x columns; side of products; images (N, C, H, W); batch and widths of the perceptron. */
export const sizes = {
  large: { n: 2 ** 26, rows: 16384, columns: 4096, side: 2048, images: [8, 64, 56, 56], batch: 64 },
  small: { n: 2 ** 22, rows: 1024, columns: 1024, side: 512, images: [2, 32, 28, 28], batch: 64 },
  tiny: { n: 2 ** 14, rows: 16, columns: 128, side: 32, images: [1, 8, 8, 8], batch: 8 },
}
const widths = { large: [784, 512, 512, 10], small: [784, 512, 512, 10], tiny: [48, 32, 32, 10] }

const input = (shape, low = -1, high = 1) => ({ shape, low, high })

/** One row's data; `weights` are positions of inputs that a model holds as constants. `bytes` where memory bounds the row. */
const row = (r) => ({ weights: [], tolerance: 1e-5, ...r })

const elements = (n) => (n >= 2 ** 20 ? `${n / 2 ** 20}M` : `${n}`)

/** The perceptron's result for one image, in float64. */
function perceptron([x, ...parameters], layers, image) {
  let h = Array.from({ length: layers[0] }, (_, j) => x[image * layers[0] + j])
  for (let l = 0; l + 1 < layers.length; l++) {
    const [w, b, n] = [parameters[2 * l], parameters[2 * l + 1], layers[l + 1]]
    const y = Array.from(b)
    for (let k = 0; k < h.length; k++) for (let j = 0; j < n; j++) y[j] += h[k] * w[k * n + j]
    h = l + 2 < layers.length ? y.map((v) => Math.max(v, 0)) : y
  }
  return h
}

/** The rows at a size of `sizes`. */
export function rowsAt(size) {
  const { n, rows, columns, side, images, batch } = sizes[size]
  const layers = widths[size]
  const channels = images[1]
  const matrix = [rows, columns]
  const square = [side, side]
  return [
    row({
      name: 'logexp',
      title: `log(exp(x) + 1), ${elements(n)}`,
      inputs: [input([n], -4, 4)],
      outputs: [[n]],
      bytes: 8 * n,
      expected: pointwise((x) => Math.log1p(Math.exp(x))),
    }),
    row({
      name: 'chain',
      title: `10 dependent multiply-adds, ${elements(n)}`,
      inputs: [input([n])],
      outputs: [[n]],
      bytes: 8 * n,
      expected: pointwise(multiplyAdds(chain)),
    }),
    row({
      name: 'softmax',
      title: `softmax ${rows} x ${columns}`,
      inputs: [input(matrix, -4, 4)],
      outputs: [matrix],
      bytes: 8 * rows * columns,
      expected: softmax(columns),
    }),
    row({
      name: 'layernorm',
      title: `layer normalisation ${rows} x ${columns}`,
      inputs: [input(matrix, -2, 2), input([columns], 0.5, 1.5), input([columns])],
      weights: [1, 2],
      outputs: [matrix],
      bytes: 8 * rows * columns,
      expected: layernorm(columns),
    }),
    row({
      name: 'sumexp',
      title: `sum(exp(x)), ${elements(n)}`,
      inputs: [input([n])],
      outputs: [[1]],
      bytes: 4 * n,
      tolerance: 1e-4,
      expected: sumexp,
    }),
    row({
      name: 'rmsnorm',
      title: `residual add + RMSNorm ${rows} x ${columns}, both results`,
      inputs: [input(matrix), input(matrix), input([columns], 0.5, 1.5)],
      weights: [2],
      outputs: [matrix, matrix],
      bytes: 16 * rows * columns,
      expected: rmsnorm(columns),
    }),
    row({
      name: 'matmul',
      title: `x @ w, ${side}^3`,
      inputs: [input(square), input(square)],
      outputs: [square],
      flops: 2 * side ** 3,
      tolerance: 1e-4,
      expected: ([x, w], _, i) => product(x, w, Math.floor(i / side), i % side, side, side),
    }),
    row({
      name: 'linear_gelu',
      title: `gelu(x @ w + b), ${side}^3`,
      inputs: [input(square), input(square), input([side])],
      weights: [1, 2],
      outputs: [square],
      flops: 2 * side ** 3,
      tolerance: 1e-4,
      expected: ([x, w, b], _, i) => gelu(product(x, w, Math.floor(i / side), i % side, side, side) + b[i % side]),
    }),
    row({
      name: 'conv',
      title: `3 x 3 convolution, ${images.join(' x ')} -> ${channels}`,
      inputs: [input(images), input([channels, channels, 3, 3])],
      weights: [1],
      outputs: [images],
      flops: 18 * channels * count(images),
      tolerance: 1e-4,
      expected: convolution(images),
    }),
    row({
      name: 'mlp',
      title: `perceptron ${layers.join('-')}, batch ${batch}`,
      inputs: [
        input([batch, layers[0]]),
        ...layers.slice(1).flatMap((m, l) => [input([layers[l], m], -0.1, 0.1), input([m])]),
      ],
      weights: [1, 2, 3, 4, 5, 6],
      outputs: [[batch, 10]],
      flops: 2 * batch * layers.slice(1).reduce((sum, m, l) => sum + m * layers[l], 0),
      tolerance: 1e-4,
      expected: (data, _, i) => perceptron(data, layers, Math.floor(i / 10))[i % 10],
    }),
  ]
}

/** A row at a size by its name, points of the grid among them. */
export const rowNamed = (name, size) => gridRow(name, size) ?? rowsAt(size).find((r) => r.name === name)

/** The inputs of a row, the same in every process. */
export const inputsOf = (r) => r.inputs.map((p, i) => uniform(count(p.shape), i + 1, p.low, p.high))

/**
 * The largest error of results against float64 on about `samples` elements of each: relative to the expected value or to one, whichever
 * is larger (softmax: to the expected value). NaN where a result is NaN.
 */
export function errorOf(r, data, results, samples) {
  let worst = 0
  for (const [o, shape] of r.outputs.entries()) {
    const n = count(shape)
    if (results[o].length !== n) throw new Error(`${results[o].length} elements instead of ${n}`)
    const step = Math.max(1, Math.floor(n / samples))
    for (let i = 0; i < n; i += n <= samples ? 1 : step + (i % 7)) {
      const expected = r.expected(data, o, i)
      const scale = r.name === 'softmax' ? Math.abs(expected) : Math.max(1, Math.abs(expected))
      const error = Math.abs(results[o][i] - expected) / scale
      if (Number.isNaN(error)) return error
      worst = Math.max(worst, error)
    }
  }
  return worst
}
