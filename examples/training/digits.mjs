/** A convolutional network learns to read drawn digits: `node examples/training/digits.mjs`, in about a minute. */
import {
  argmax,
  conv2d,
  crossEntropy,
  jit,
  linear,
  maxPool,
  optim,
  random,
  relu,
  tensor,
  valueAndGrad,
  zeros,
} from 'sinter'
import { drawDigits, side } from './digitImages.mjs'
import { makeRandom } from './random.mjs'
import { main } from './run.mjs'

const config = { batch: 64, trained: 4096, unseen: 1024 }

/** Weights drawn with the variance of He et al. 2015, biases of zero. */
export function makeParameters(seed) {
  const keys = random.split(random.key(seed), 4)
  const weight = (key, shape, inputs) => random.normal(key, shape).mul(Math.sqrt(2 / inputs))
  return {
    conv1: { w: weight(keys[0], [8, 1, 5, 5], 25), b: zeros([8]) },
    conv2: { w: weight(keys[1], [16, 8, 3, 3], 72), b: zeros([16]) },
    hidden: { w: weight(keys[2], [16 * 7 * 7, 64], 16 * 7 * 7), b: zeros([64]) },
    classes: { w: weight(keys[3], [64, 10], 64), b: zeros([10]) },
  }
}

/** Scores [batch, 10] of images [batch, 1, 28, 28]. */
export function network(p, images) {
  const first = maxPool(relu(conv2d(images, p.conv1.w, { bias: p.conv1.b, padding: 'same' })), [2, 2])
  const second = maxPool(relu(conv2d(first, p.conv2.w, { bias: p.conv2.b, padding: 'same' })), [2, 2])
  const hidden = relu(linear(second.flatten(1), p.hidden.w, p.hidden.b))
  return linear(hidden, p.classes.w, p.classes.b)
}

/** Mean cross-entropy of a batch. */
export const loss = (p, images, labels) => crossEntropy(network(p, images), labels).mean()

/** One update of everything, as one program that takes over the memory of what it replaces. */
export function makeStep(optimizer) {
  return jit(
    function step(params, state, images, labels) {
      const [value, gradients] = valueAndGrad(loss)(params, images, labels)
      return { value, ...optimizer.update(gradients, state, params) }
    },
    { donate: [0, 1] },
  )
}

const scores = jit(network)

/** Share of images whose highest score is their label's. */
export function accuracy(params, { images, labels }) {
  const count = labels.length
  const found = argmax(scores(params, tensor(images, { shape: [count, 1, side, side] })), 1).dataSync()
  return found.reduce((n, digit, i) => n + (digit === labels[i] ? 1 : 0), 0) / count
}

/** Trains; yields the loss of each step, returns what was reached. */
export function* train({ steps, seed, setup = config }) {
  const { batch, trained, unseen } = setup
  const data = drawDigits(1000 + seed, trained)
  const test = drawDigits(900_000 + seed, unseen)
  const draw = makeRandom(seed)
  const optimizer = optim.adam({ learningRate: optim.cosineDecay({ from: 2e-3, steps }) })
  let params = makeParameters(seed)
  let state = optimizer.init(params)
  const step = makeStep(optimizer)
  const pixels = side * side
  const [images, labels] = [new Float32Array(batch * pixels), new Int32Array(batch)]
  for (let i = 0; i < steps; i++) {
    for (let k = 0; k < batch; k++) {
      const chosen = Math.floor(draw() * trained)
      images.set(data.images.subarray(chosen * pixels, (chosen + 1) * pixels), k * pixels)
      labels[k] = data.labels[chosen]
    }
    const next = step(params, state, tensor(images, { shape: [batch, 1, side, side] }), tensor(labels))
    ;({ params, state } = next)
    yield { loss: next.value.item() }
  }
  return [`${(100 * accuracy(params, test)).toFixed(1)}% of ${unseen} unseen digits read correctly`]
}

await main(import.meta.url, {
  title: 'A convolutional network reads digits',
  steps: 600,
  label: 'cross-entropy',
  train,
})
