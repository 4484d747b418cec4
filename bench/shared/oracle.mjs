/** Data of benchmark rows, the same in every process, and single elements of their results in float64. */

/** Uniform f32 in [low, high). */
export function uniform(n, seed, low, high) {
  const out = new Float32Array(n)
  let s = (Math.imul(seed + 1, 0x9e3779b1) >>> 0) | 1
  const scale = (high - low) / 4294967296
  for (let i = 0; i < n; i++) {
    s ^= s << 13
    s ^= s >>> 17
    s ^= s << 5
    out[i] = low + (s >>> 0) * scale
  }
  return out
}

/** Elements of a shape. */
export const count = (shape) => shape.reduce((a, b) => a * b, 1)

/** What normalisations add to a variance. */
export const epsilon = 1e-5

/** Abramowitz and Stegun 7.1.6: erf(x) = 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!; beyond 6 it is 1 in float64. */
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x)
  let term = x
  let sum = x
  for (let n = 1; n < 200 && Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1)
    sum += term
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum
}

export const gelu = (v) => 0.5 * v * (1 + erf(v / Math.SQRT2))

/** Element (i, j) of a product whose right side has n columns, over a depth of k. */
export function product(a, b, i, j, n, k) {
  let sum = 0
  for (let p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j]
  return sum
}

/** Dependent multiply-adds of a number. */
export const multiplyAdds = (constants) => (x) => constants.reduce((y, [a, b]) => y * a + b, x)

/** From here on functions of the inputs as rows take them, `(inputs, output, i)`: element i of an output. */
export const pointwise =
  (f) =>
  ([x], _, i) =>
    f(x[i])

export const softmax =
  (columns) =>
  ([x], _, i) => {
    const start = i - (i % columns)
    let sum = 0
    for (let j = 0; j < columns; j++) sum += Math.exp(x[start + j])
    return Math.exp(x[i]) / sum
  }

export const layernorm =
  (columns) =>
  ([x, scale, bias], _, i) => {
    const start = i - (i % columns)
    let mean = 0
    for (let j = start; j < start + columns; j++) mean += x[j] / columns
    let variance = 0
    for (let j = start; j < start + columns; j++) variance += (x[j] - mean) ** 2 / columns
    return ((x[i] - mean) / Math.sqrt(variance + epsilon)) * scale[i % columns] + bias[i % columns]
  }

/** Of x + r: the sum itself is the first output. */
export const rmsnorm =
  (columns) =>
  ([x, r, scale], output, i) => {
    if (output === 0) return x[i] + r[i]
    const start = i - (i % columns)
    let sum = 0
    for (let j = start; j < start + columns; j++) sum += (x[j] + r[j]) ** 2
    return ((x[i] + r[i]) / Math.sqrt(sum / columns + epsilon)) * scale[i % columns]
  }

export const sumexp = ([x]) => x.reduce((sum, v) => sum + Math.exp(v), 0)

/** A 3 x 3 convolution with padding of one that keeps the shape (N, C, H, W) of images. */
export const convolution =
  ([, channels, height, width]) =>
  ([x, w], _, i) => {
    const plane = height * width
    const [image, o, y0, x0] = [
      Math.floor(i / (channels * plane)),
      Math.floor(i / plane) % channels,
      Math.floor((i % plane) / width),
      i % width,
    ]
    let sum = 0
    for (let c = 0; c < channels; c++)
      for (let dy = 0; dy < 3; dy++)
        for (let dx = 0; dx < 3; dx++) {
          const [yy, xx] = [y0 + dy - 1, x0 + dx - 1]
          if (yy < 0 || yy >= height || xx < 0 || xx >= width) continue
          sum += x[(image * channels + c) * plane + yy * width + xx] * w[((o * channels + c) * 3 + dy) * 3 + dx]
        }
    return sum
  }
