/**
 * Training steps as benchmark rows: loss, gradient and the update of every parameter in one call, with float64 oracles written
 * out by hand. Targets are one-hot rows; the loss is the mean cross-entropy.
 */

export const learningRate = 0.01

/** out[m, n] (+)= a[m, k] b[k, n], operands read through their strides. */
function product(m, n, k, a, [am, ak], b, [bk, bn]) {
  const out = new Float64Array(m * n)
  for (let i = 0; i < m; i++)
    for (let p = 0; p < k; p++) {
      const v = a[i * am + p * ak]
      if (v === 0) continue
      for (let j = 0; j < n; j++) out[i * n + j] += v * b[p * bk + j * bn]
    }
  return out
}

const stepped = (p, g) => Float64Array.from(p, (v, i) => v - learningRate * g[i])

/** x @ w + b with [rows, n] results. */
function dense(x, w, b, rows, k, n) {
  const y = product(rows, n, k, x, [k, 1], w, [n, 1])
  for (let i = 0; i < rows * n; i++) y[i] += b[i % n]
  return y
}

/** Gradients of a dense layer in x, w and b, given its result's. */
function denseBackward(x, w, dy, rows, k, n) {
  const db = new Float64Array(n)
  for (let i = 0; i < rows * n; i++) db[i % n] += dy[i]
  return {
    dx: product(rows, k, n, dy, [n, 1], w, [1, n]),
    dw: product(k, n, rows, x, [1, k], dy, [n, 1]),
    db,
  }
}

/** The mean cross-entropy of logits against one-hot targets, and its gradient. */
function crossEntropy(logits, targets, rows, n) {
  const d = new Float64Array(rows * n)
  let loss = 0
  for (let r = 0; r < rows; r++) {
    const row = logits.subarray(r * n, (r + 1) * n)
    const most = Math.max(...row)
    const sum = row.reduce((s, v) => s + Math.exp(v - most), 0)
    for (let j = 0; j < n; j++) {
      const t = targets[r * n + j]
      loss -= (t * (row[j] - most - Math.log(sum))) / rows
      d[r * n + j] = (Math.exp(row[j] - most) / sum - t) / rows
    }
  }
  return { loss, d }
}

const relu = (x) => x.map((v) => Math.max(0, v))
const masked = (d, y) => d.map((v, i) => (y[i] > 0 ? v : 0))

/** One step of the three-layer perceptron: loss, then the parameters. */
function perceptronStep([x, t, w1, b1, w2, b2, w3, b3], batch, sizes) {
  const [n0, n1, n2, n3] = sizes
  const h1 = relu(dense(x, w1, b1, batch, n0, n1))
  const h2 = relu(dense(h1, w2, b2, batch, n1, n2))
  const { loss, d } = crossEntropy(dense(h2, w3, b3, batch, n2, n3), t, batch, n3)
  const l3 = denseBackward(h2, w3, d, batch, n2, n3)
  const l2 = denseBackward(h1, w2, masked(l3.dx, h2), batch, n1, n2)
  const l1 = denseBackward(x, w1, masked(l2.dx, h1), batch, n0, n1)
  return [
    [loss],
    ...[
      [w1, l1.dw],
      [b1, l1.db],
      [w2, l2.dw],
      [b2, l2.db],
      [w3, l3.dw],
      [b3, l3.db],
    ].map(([p, g]) => stepped(p, g)),
  ]
}

/** A 3 x 3 convolution with padding 1 of [batch, c, side, side] by [o, c, 3, 3], as a visitor of every product's indices. */
function convolve(batch, c, o, side, visit) {
  for (let b = 0; b < batch; b++)
    for (let oc = 0; oc < o; oc++)
      for (let ic = 0; ic < c; ic++)
        for (let ky = 0; ky < 3; ky++)
          for (let kx = 0; kx < 3; kx++) {
            const w = ((oc * c + ic) * 3 + ky) * 3 + kx
            for (let y = Math.max(0, 1 - ky); y < Math.min(side, side + 1 - ky); y++)
              for (let x = Math.max(0, 1 - kx); x < Math.min(side, side + 1 - kx); x++)
                visit(((b * o + oc) * side + y) * side + x, ((b * c + ic) * side + y + ky - 1) * side + x + kx - 1, w)
          }
}

/** relu(conv + bias), then the maximum of every 2 x 2 square with the place it stood at. */
function convLayer(x, w, bias, batch, c, o, side) {
  const y = new Float64Array(batch * o * side * side)
  convolve(batch, c, o, side, (out, from, at) => {
    y[out] += x[from] * w[at]
  })
  const half = side / 2
  const pooled = new Float64Array(batch * o * half * half)
  const places = new Int32Array(pooled.length)
  for (let i = 0; i < y.length; i++) y[i] = Math.max(0, y[i] + bias[Math.floor(i / (side * side)) % o])
  for (let i = 0; i < pooled.length; i++) {
    const [plane, r, q] = [Math.floor(i / (half * half)), Math.floor((i % (half * half)) / half), i % half]
    const first = plane * side * side + 2 * r * side + 2 * q
    const square = [first, first + 1, first + side, first + side + 1]
    places[i] = square.reduce((best, p) => (y[p] > y[best] ? p : best), first)
    pooled[i] = y[places[i]]
  }
  return { y, pooled, places }
}

/** Gradients of a layer; where four values tie at zero none gets anything (relu stops it). */
function convBackward(x, w, layer, d, batch, c, o, side) {
  const dy = new Float64Array(layer.y.length)
  d.forEach((v, i) => {
    if (layer.pooled[i] > 0) dy[layer.places[i]] += v
  })
  const dx = new Float64Array(x.length)
  const dw = new Float64Array(w.length)
  const db = new Float64Array(o)
  convolve(batch, c, o, side, (out, from, at) => {
    const g = dy[out]
    if (g === 0) return
    dx[from] += g * w[at]
    dw[at] += g * x[from]
  })
  dy.forEach((v, i) => {
    db[Math.floor(i / (side * side)) % o] += v
  })
  return { dx, dw, db }
}

/** One step of the convolutional network: loss, then the parameters. */
function convolutionalStep([x, t, w1, b1, w2, b2, w3, b3], batch, [c1, c2]) {
  const first = convLayer(x, w1, b1, batch, 1, c1, 28)
  const second = convLayer(first.pooled, w2, b2, batch, c1, c2, 14)
  const features = c2 * 49
  const { loss, d } = crossEntropy(dense(second.pooled, w3, b3, batch, features, 10), t, batch, 10)
  const l3 = denseBackward(second.pooled, w3, d, batch, features, 10)
  const l2 = convBackward(first.pooled, w2, second, l3.dx, batch, c1, c2, 14)
  const l1 = convBackward(x, w1, first, l2.dx, batch, 1, c1, 28)
  return [
    [loss],
    ...[
      [w1, l1.dw],
      [b1, l1.db],
      [w2, l2.dw],
      [b2, l2.db],
      [w3, l3.dw],
      [b3, l3.db],
    ].map(([p, g]) => stepped(p, g)),
  ]
}

const size = (shape) => shape.reduce((a, b) => a * b, 1)

/** One-hot rows: class i % classes of row i. */
const oneHot = (n) => Float32Array.from({ length: n }, (_, i) => (i % 10 === Math.floor(i / 10) % 10 ? 1 : 0))

function trainingRow({ name, title, images, batch, parameters, flops, step }) {
  let oracle
  const shapes = [images, [batch, 10], ...parameters]
  const fan = (shape) => (shape.length === 4 ? shape[1] * 9 : shape.length === 2 ? shape[0] : 100)
  const weights = parameters.map((shape) => {
    const limit = Math.sqrt(3 / fan(shape))
    return { shape, low: -limit, high: limit }
  })
  return {
    name,
    title,
    inputs: [{ shape: images, low: 0, high: 1 }, { shape: [batch, 10], data: () => oneHot(batch * 10) }, ...weights],
    outputs: [[], ...parameters],
    bytes: 4 * (shapes.reduce((n, s) => n + size(s), 0) + parameters.reduce((n, s) => n + size(s), 0)),
    flops,
    tolerance: 1e-4,
    expected: (inputs, output, i) => {
      oracle ??= step(inputs)
      return oracle[output][i]
    },
  }
}

const perceptronSizes = [784, 512, 512, 10]
const perceptronBatch = 128
const channels = [16, 32]
const convBatch = 32

/** Products forward, twice as many backward, none for the gradient in the images. */
const perceptronFlops = (() => {
  const layer = perceptronSizes.slice(1).map((n, i) => 2 * perceptronBatch * n * perceptronSizes[i])
  return 3 * layer.reduce((a, b) => a + b, 0) - layer[0]
})()
const convFlops = (() => {
  const first = 2 * convBatch * 28 * 28 * channels[0] * 9
  const second = 2 * convBatch * 14 * 14 * channels[0] * channels[1] * 9
  const last = 2 * convBatch * channels[1] * 49 * 10
  return 2 * first + 3 * second + 3 * last
})()

export const trainingRows = [
  trainingRow({
    name: 'mlp_step',
    title: 'training step, MLP 784-512-512-10, batch 128',
    images: [perceptronBatch, 784],
    batch: perceptronBatch,
    parameters: [[784, 512], [512], [512, 512], [512], [512, 10], [10]],
    flops: perceptronFlops,
    step: (inputs) => perceptronStep(inputs, perceptronBatch, perceptronSizes),
  }),
  trainingRow({
    name: 'conv_step',
    title: 'training step, conv net 1-16-32, batch 32, 28 x 28',
    images: [convBatch, 1, 28, 28],
    batch: convBatch,
    parameters: [
      [channels[0], 1, 3, 3],
      [channels[0]],
      [channels[1], channels[0], 3, 3],
      [channels[1]],
      [channels[1] * 49, 10],
      [10],
    ],
    flops: convFlops,
    step: (inputs) => convolutionalStep(inputs, convBatch, channels),
  }),
]
