/**
 * A transformer encoder that reads digits, with its training written out by hand: each function computes a result and pushes
 * its derivative onto a tape. Matrices are row-major; rows are tokens, 16 to an image.
 */
import { makeRandom, side } from './draw.mjs'

export const config = { patch: 4, tokens: 16, width: 48, heads: 4, hidden: 128, layers: 2, classes: 10, epsilon: 1e-5 }

const matrix = (rows, cols, data = new Float32Array(rows * cols)) => ({
  rows,
  cols,
  data,
  grad: new Float32Array(rows * cols),
})

/** Parameters by name, drawn for a start. */
export function makeParameters(seed) {
  const random = makeRandom(seed)
  const normal = () => Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random())
  const parameters = {}
  const weight = (name, rows, cols, scale = Math.sqrt(1 / rows)) => {
    const m = matrix(rows, cols)
    for (let i = 0; i < m.data.length; i++) m.data[i] = normal() * scale
    parameters[name] = m
  }
  const constant = (name, cols, value) => {
    parameters[name] = matrix(1, cols, new Float32Array(cols).fill(value))
  }
  const { patch, tokens, width, hidden, layers, classes } = config
  weight('patch.weight', patch * patch, width)
  constant('patch.bias', width, 0)
  weight('position', tokens, width, 0.1)
  for (let l = 0; l < layers; l++) {
    constant(`layer${l}.norm1.scale`, width, 1)
    constant(`layer${l}.norm1.bias`, width, 0)
    weight(`layer${l}.qkv.weight`, width, 3 * width)
    constant(`layer${l}.qkv.bias`, 3 * width, 0)
    weight(`layer${l}.out.weight`, width, width)
    constant(`layer${l}.out.bias`, width, 0)
    constant(`layer${l}.norm2.scale`, width, 1)
    constant(`layer${l}.norm2.bias`, width, 0)
    weight(`layer${l}.up.weight`, width, hidden)
    constant(`layer${l}.up.bias`, hidden, 0)
    weight(`layer${l}.down.weight`, hidden, width)
    constant(`layer${l}.down.bias`, width, 0)
  }
  constant('norm.scale', width, 1)
  constant('norm.bias', width, 0)
  weight('head.weight', width, classes)
  constant('head.bias', classes, 0)
  return parameters
}

/** c += a b, or with a or b transposed. */
function product(a, b, c, n, k, m, aT = false, bT = false) {
  for (let i = 0; i < n; i++) {
    const ci = i * m
    for (let p = 0; p < k; p++) {
      const x = aT ? a[p * n + i] : a[i * k + p]
      if (x === 0) continue
      if (bT) for (let j = 0; j < m; j++) c[ci + j] += x * b[j * k + p]
      else {
        const bp = p * m
        for (let j = 0; j < m; j++) c[ci + j] += x * b[bp + j]
      }
    }
  }
}

function transposed(a, rows, cols) {
  const out = new Float32Array(a.length)
  for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) out[j * rows + i] = a[i * cols + j]
  return out
}

function linear(tape, x, w, b) {
  const y = matrix(x.rows, w.cols)
  for (let i = 0; i < y.rows; i++) y.data.set(b.data, i * y.cols)
  product(x.data, w.data, y.data, x.rows, x.cols, w.cols)
  tape.push(() => {
    product(y.grad, transposed(w.data, w.rows, w.cols), x.grad, x.rows, w.cols, x.cols)
    product(transposed(x.data, x.rows, x.cols), y.grad, w.grad, x.cols, x.rows, w.cols)
    for (let i = 0; i < y.rows; i++) for (let j = 0; j < y.cols; j++) b.grad[j] += y.grad[i * y.cols + j]
  })
  return y
}

function add(tape, x, y) {
  const z = matrix(x.rows, x.cols)
  const n = y.data.length
  for (let i = 0; i < z.data.length; i++) z.data[i] = x.data[i] + y.data[i % n]
  tape.push(() => {
    for (let i = 0; i < z.data.length; i++) {
      x.grad[i] += z.grad[i]
      y.grad[i % n] += z.grad[i]
    }
  })
  return z
}

function layerNorm(tape, x, scale, bias) {
  const { rows, cols } = x
  const y = matrix(rows, cols)
  const unit = new Float32Array(x.data.length)
  const inverse = new Float32Array(rows)
  for (let i = 0; i < rows; i++) {
    let [mean, square] = [0, 0]
    for (let j = 0; j < cols; j++) mean += x.data[i * cols + j] / cols
    for (let j = 0; j < cols; j++) square += (x.data[i * cols + j] - mean) ** 2 / cols
    inverse[i] = 1 / Math.sqrt(square + config.epsilon)
    for (let j = 0; j < cols; j++) {
      unit[i * cols + j] = (x.data[i * cols + j] - mean) * inverse[i]
      y.data[i * cols + j] = unit[i * cols + j] * scale.data[j] + bias.data[j]
    }
  }
  tape.push(() => {
    for (let i = 0; i < rows; i++) {
      let [sum, dot] = [0, 0]
      for (let j = 0; j < cols; j++) {
        const at = i * cols + j
        const g = y.grad[at] * scale.data[j]
        scale.grad[j] += y.grad[at] * unit[at]
        bias.grad[j] += y.grad[at]
        sum += g / cols
        dot += (g * unit[at]) / cols
      }
      for (let j = 0; j < cols; j++) {
        const at = i * cols + j
        x.grad[at] += inverse[i] * (y.grad[at] * scale.data[j] - sum - unit[at] * dot)
      }
    }
  })
  return y
}

/** Abramowitz and Stegun 7.1.26: |error| < 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x))
  const p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  return Math.sign(x) * (1 - p * Math.exp(-x * x))
}

function gelu(tape, x) {
  const y = matrix(x.rows, x.cols)
  const slope = new Float32Array(x.data.length)
  for (let i = 0; i < x.data.length; i++) {
    const v = x.data[i]
    const phi = 0.5 * (1 + erf(v / Math.SQRT2))
    y.data[i] = v * phi
    slope[i] = phi + (v * Math.exp(-0.5 * v * v)) / Math.sqrt(2 * Math.PI)
  }
  tape.push(() => {
    for (let i = 0; i < x.data.length; i++) x.grad[i] += y.grad[i] * slope[i]
  })
  return y
}

/** softmax(q k^T / sqrt(width of a head)) v for every image and head; rows of `qkv` hold q, k and v side by side. */
function attention(tape, qkv) {
  const { tokens: T, width, heads } = config
  const size = width / heads
  const scale = 1 / Math.sqrt(size)
  const y = matrix(qkv.rows, width)
  const images = qkv.rows / T
  const weights = new Float32Array(images * heads * T * T)
  const at = (n, t, part, h) => (n * T + t) * 3 * width + part * width + h * size
  for (let n = 0; n < images; n++)
    for (let h = 0; h < heads; h++)
      for (let i = 0; i < T; i++) {
        const row = ((n * heads + h) * T + i) * T
        const q = at(n, i, 0, h)
        let most = Number.NEGATIVE_INFINITY
        for (let j = 0; j < T; j++) {
          const k = at(n, j, 1, h)
          let s = 0
          for (let c = 0; c < size; c++) s += qkv.data[q + c] * qkv.data[k + c]
          weights[row + j] = s * scale
          most = Math.max(most, s * scale)
        }
        let sum = 0
        for (let j = 0; j < T; j++) {
          weights[row + j] = Math.exp(weights[row + j] - most)
          sum += weights[row + j]
        }
        const out = (n * T + i) * width + h * size
        for (let j = 0; j < T; j++) {
          weights[row + j] /= sum
          const v = at(n, j, 2, h)
          for (let c = 0; c < size; c++) y.data[out + c] += weights[row + j] * qkv.data[v + c]
        }
      }
  tape.push(() => {
    const slope = new Float32Array(T)
    for (let n = 0; n < images; n++)
      for (let h = 0; h < heads; h++)
        for (let i = 0; i < T; i++) {
          const row = ((n * heads + h) * T + i) * T
          const out = (n * T + i) * width + h * size
          let dot = 0
          for (let j = 0; j < T; j++) {
            const v = at(n, j, 2, h)
            let g = 0
            for (let c = 0; c < size; c++) {
              g += y.grad[out + c] * qkv.data[v + c]
              qkv.grad[v + c] += weights[row + j] * y.grad[out + c]
            }
            slope[j] = g
            dot += g * weights[row + j]
          }
          const q = at(n, i, 0, h)
          for (let j = 0; j < T; j++) {
            const g = weights[row + j] * (slope[j] - dot) * scale
            const k = at(n, j, 1, h)
            for (let c = 0; c < size; c++) {
              qkv.grad[q + c] += g * qkv.data[k + c]
              qkv.grad[k + c] += g * qkv.data[q + c]
            }
          }
        }
  })
  return y
}

function meanOfTokens(tape, x) {
  const T = config.tokens
  const y = matrix(x.rows / T, x.cols)
  for (let i = 0; i < x.rows; i++)
    for (let j = 0; j < x.cols; j++) y.data[Math.floor(i / T) * x.cols + j] += x.data[i * x.cols + j] / T
  tape.push(() => {
    for (let i = 0; i < x.rows; i++)
      for (let j = 0; j < x.cols; j++) x.grad[i * x.cols + j] += y.grad[Math.floor(i / T) * x.cols + j] / T
  })
  return y
}

/** The 4 x 4 patches of images as rows. */
function patches(images) {
  const { patch, tokens } = config
  const across = side / patch
  const count = images.length / (side * side)
  const x = matrix(count * tokens, patch * patch)
  for (let n = 0; n < count; n++)
    for (let t = 0; t < tokens; t++)
      for (let p = 0; p < patch * patch; p++) {
        const row = Math.floor(t / across) * patch + Math.floor(p / patch)
        const col = (t % across) * patch + (p % patch)
        x.data[(n * tokens + t) * patch * patch + p] = images[n * side * side + row * side + col]
      }
  return x
}

/** Logits of images; derivatives go onto the tape. */
export function logits(parameters, images, tape = []) {
  const p = (name) => parameters[name]
  const dense = (x, name) => linear(tape, x, p(`${name}.weight`), p(`${name}.bias`))
  const norm = (x, name) => layerNorm(tape, x, p(`${name}.scale`), p(`${name}.bias`))
  let x = add(tape, dense(patches(images), 'patch'), p('position'))
  for (let l = 0; l < config.layers; l++) {
    const mixed = attention(tape, dense(norm(x, `layer${l}.norm1`), `layer${l}.qkv`))
    x = add(tape, dense(mixed, `layer${l}.out`), x)
    const up = gelu(tape, dense(norm(x, `layer${l}.norm2`), `layer${l}.up`))
    x = add(tape, dense(up, `layer${l}.down`), x)
  }
  return dense(meanOfTokens(tape, norm(x, 'norm')), 'head')
}

/** Mean cross-entropy of logits; leaves its derivative in their gradient. */
function crossEntropy(z, labels) {
  let loss = 0
  for (let i = 0; i < z.rows; i++) {
    const row = z.data.subarray(i * z.cols, (i + 1) * z.cols)
    const most = Math.max(...row)
    const sum = row.reduce((s, v) => s + Math.exp(v - most), 0)
    loss += (most + Math.log(sum) - row[labels[i]]) / z.rows
    for (let j = 0; j < z.cols; j++)
      z.grad[i * z.cols + j] = (Math.exp(row[j] - most) / sum - (j === labels[i] ? 1 : 0)) / z.rows
  }
  return loss
}

/** One step of Adam (Kingma and Ba 2015) on a batch; gives the loss. */
export function trainStep(parameters, moments, step, rate, images, labels) {
  const tape = []
  for (const m of Object.values(parameters)) m.grad.fill(0)
  const z = logits(parameters, images, tape)
  const loss = crossEntropy(z, labels)
  for (const back of tape.reverse()) back()
  const [b1, b2] = [0.9, 0.99]
  const correction = Math.sqrt(1 - b2 ** step) / (1 - b1 ** step)
  for (const [name, m] of Object.entries(parameters)) {
    moments[name] ??= { first: new Float32Array(m.data.length), second: new Float32Array(m.data.length) }
    const { first, second } = moments[name]
    for (let i = 0; i < m.data.length; i++) {
      first[i] = b1 * first[i] + (1 - b1) * m.grad[i]
      second[i] = b2 * second[i] + (1 - b2) * m.grad[i] ** 2
      m.data[i] -= (rate * correction * first[i]) / (Math.sqrt(second[i]) + 1e-8)
    }
  }
  return loss
}

/** Share of images read correctly. */
export function accuracy(z, labels) {
  let right = 0
  for (let i = 0; i < z.rows; i++) {
    const row = z.data.subarray(i * z.cols, (i + 1) * z.cols)
    if (row.indexOf(Math.max(...row)) === labels[i]) right++
  }
  return right / z.rows
}
