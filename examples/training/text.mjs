/** A character-level transformer learns this project's own source: `node examples/training/text.mjs`, in a few minutes. */
import { readdirSync, readFileSync } from 'node:fs'
import {
  attention,
  crossEntropy,
  embedding,
  gelu,
  jit,
  layerNorm,
  linear,
  matmul,
  ones,
  optim,
  random,
  tensor,
  valueAndGrad,
  zeros,
} from 'sinter'
import { makeRandom } from './random.mjs'
import { main } from './run.mjs'

export const config = { width: 96, heads: 4, layers: 2, context: 64, batch: 16 }

/** The text: every TypeScript file of src/. */
export function readText() {
  const root = new URL('../../src/', import.meta.url)
  const files = readdirSync(root, { recursive: true })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.ts'))
    .sort()
  return encode(files.map((name) => readFileSync(new URL(name, root), 'utf8')).join('\n'))
}

/**
 * A text as positions in an alphabet of its ASCII characters (others read as `?`). Cut into blocks of 4096 characters, every
 * tenth of which is held out.
 */
export function encode(source) {
  const text = source.replace(/[^ -~\n]/g, '?')
  const alphabet = [...new Set(text)].sort()
  const at = new Map(alphabet.map((c, i) => [c, i]))
  const codes = Int32Array.from(text, (c) => at.get(c))
  const blocks = Array.from({ length: Math.ceil(codes.length / 4096) }, (_, i) =>
    codes.subarray(i * 4096, (i + 1) * 4096),
  )
  const joined = (parts) => {
    const out = new Int32Array(parts.reduce((n, part) => n + part.length, 0))
    parts.reduce((at, part) => {
      out.set(part, at)
      return at + part.length
    }, 0)
    return out
  }
  return {
    alphabet,
    train: joined(blocks.filter((_, i) => i % 10 !== 9)),
    heldOut: joined(blocks.filter((_, i) => i % 10 === 9)),
  }
}

/** Parameters for an alphabet of a size: weights drawn small, biases of zero. */
export function makeParameters(seed, letters, { width, layers, context } = config) {
  let [key, next] = random.split(random.key(seed))
  const normal = (shape, deviation = 0.08) => {
    ;[key, next] = random.split(key)
    return random.normal(next, shape).mul(deviation)
  }
  const norm = () => ({ scale: ones([width]), bias: zeros([width]) })
  const layer = (inputs, outputs, deviation) => ({ w: normal([inputs, outputs], deviation), b: zeros([outputs]) })
  // What adds to the residual stream starts smaller, so that its sum over the layers does not grow with their number.
  const residual = 0.08 / Math.sqrt(2 * layers)
  return {
    letters: normal([letters, width]),
    positions: normal([context, width]),
    blocks: Array.from({ length: layers }, () => ({
      norm1: norm(),
      qkv: layer(width, 3 * width),
      out: layer(width, width, residual),
      norm2: norm(),
      up: layer(width, 4 * width),
      down: layer(4 * width, width, residual),
    })),
    norm: norm(),
  }
}

/** Scores [batch, length, letters] of the letter after each of codes [batch, length]. */
export function network(p, codes, { width, heads } = config) {
  const [batch, length] = codes.shape
  const apart = (x) => x.reshape([batch, length, heads, width / heads]).transpose([0, 2, 1, 3])
  let x = embedding(p.letters, codes).add(p.positions.slice([0, length]))
  for (const block of p.blocks) {
    const [q, k, v] = linear(layerNorm(x, block.norm1), block.qkv.w, block.qkv.b).split(3, 2).map(apart)
    const seen = attention(q, k, v, { causal: true }).transpose([0, 2, 1, 3]).reshape([batch, length, width])
    x = x.add(linear(seen, block.out.w, block.out.b))
    const hidden = gelu(linear(layerNorm(x, block.norm2), block.up.w, block.up.b), 'tanh')
    x = x.add(linear(hidden, block.down.w, block.down.b))
  }
  return matmul(layerNorm(x, p.norm), p.letters.T)
}

/** Mean cross-entropy in nats of each letter given those before it: codes [batch, length + 1]. */
export function loss(p, codes, setup = config) {
  const scores = network(p, codes.slice(null, [0, -1]), setup)
  return crossEntropy(scores, codes.slice(null, [1])).mean()
}

/** AdamW with decay on matrices; the rate rises over the first tenth of the steps and falls along a cosine. */
export function makeOptimizer(steps) {
  const rising = Math.ceil(steps / 10)
  const falling = optim.cosineDecay({ from: 3e-3, to: 3e-4, steps: Math.max(1, steps - rising) })
  return optim.adamw({
    learningRate: optim.linearWarmup(rising, falling),
    beta2: 0.99,
    weightDecay: 0.1,
    decays: (leaf) => leaf.rank > 1,
  })
}

/** One update, as one program that takes over the memory of what it replaces. */
export function makeStep(optimizer, setup = config) {
  return jit(
    function step(params, state, codes) {
      const [value, gradients] = valueAndGrad(loss)(params, codes, setup)
      return { value, ...optimizer.update(optim.clipByGlobalNorm(gradients, 1), state, params) }
    },
    { donate: [0, 1] },
  )
}

const evaluate = jit(loss)

/** Mean loss over the windows of a text, at most 1024 of them, evenly spread. */
function lossOver(params, codes, setup) {
  const { context, batch } = setup
  const rows = Math.min(1024, Math.floor((codes.length - 1) / context))
  const apart = Math.floor((codes.length - 1) / rows)
  let total = 0
  for (let first = 0; first < rows; first += batch) {
    const count = Math.min(batch, rows - first)
    const windows = new Int32Array(count * (context + 1))
    for (let k = 0; k < count; k++)
      windows.set(codes.subarray((first + k) * apart, (first + k) * apart + context + 1), k * (context + 1))
    total += count * evaluate(params, tensor(windows, { shape: [count, context + 1] }), setup).item()
  }
  return total / rows
}

const scoresAt = jit(network)

/** The place of a share of the total in a list of weights. */
function pick(weights, share) {
  let left = share * weights.reduce((a, b) => a + b)
  for (let i = 0; i < weights.length; i++) {
    left -= weights[i]
    if (left <= 0) return i
  }
  return weights.length - 1
}

/** Text that continues a beginning, each letter drawn with probability softmax(scores / temperature). */
export function sample(params, alphabet, beginning, { length, seed, temperature = 0.7, setup = config }) {
  const draw = makeRandom(seed)
  const { context } = setup
  const codes = [...beginning].map((c) => Math.max(0, alphabet.indexOf(c)))
  while (codes.length < length) {
    const seen = codes.slice(-context)
    const padded = Int32Array.from({ length: context }, (_, i) => seen[i] ?? 0)
    const scores = scoresAt(params, tensor(padded, { shape: [1, context] }), setup).dataSync()
    // A position knows only what stands before it, so the padding after it does not matter.
    const row = scores.subarray((seen.length - 1) * alphabet.length, seen.length * alphabet.length)
    const most = row.reduce((a, b) => Math.max(a, b))
    const weights = Array.from(row, (s) => Math.exp((s - most) / temperature))
    codes.push(pick(weights, draw()))
  }
  return codes.map((c) => alphabet[c]).join('')
}

const bits = (nats) => (nats / Math.LN2).toFixed(2)

/** Trains; yields the loss of each step in nats per character, returns what was reached and a sample. */
export function* train({ steps, seed, setup = config, data = readText() }) {
  const { context, batch } = setup
  const { alphabet, train, heldOut } = data
  const draw = makeRandom(seed)
  const optimizer = makeOptimizer(steps)
  let params = makeParameters(seed, alphabet.length, setup)
  let state = optimizer.init(params)
  const step = makeStep(optimizer, setup)
  const windows = new Int32Array(batch * (context + 1))
  for (let i = 0; i < steps; i++) {
    for (let k = 0; k < batch; k++) {
      const from = Math.floor(draw() * (train.length - context))
      windows.set(train.subarray(from, from + context + 1), k * (context + 1))
    }
    const next = step(params, state, tensor(windows, { shape: [batch, context + 1] }))
    ;({ params, state } = next)
    const value = next.value.item()
    yield { loss: value, note: `loss ${value.toFixed(3)} nats (${bits(value)} bits) a character` }
  }
  const unseen = lossOver(params, heldOut, setup)
  return [
    `${alphabet.length} characters, ${train.length} to learn from; on ${heldOut.length} held out ${unseen.toFixed(3)} nats (${bits(unseen)} bits) a character`,
    '',
    sample(params, alphabet, 'export function ', { length: 400, seed, setup }),
    '',
  ]
}

await main(import.meta.url, {
  title: 'A transformer learns TypeScript from src/, character by character',
  steps: 1500,
  label: 'nats a character',
  train,
})
