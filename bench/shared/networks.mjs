/**
 * Three networks as ONNX models of random weights, the graphs that exporters write for inference (batch norms folded into convolutions):
 * MobileNetV2 and ResNet-50 at 1 x 3 x 224 x 224, BERT-base at 1 x 128 tokens. Weights have the variance that keeps activations near 1.
 */
import { model } from './onnx.mjs'

/** Numbers from a seed, uniform in [-1, 1): a linear congruential generator of 32 bits (Numerical Recipes, chapter 7.1). */
function uniform(seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  }
}

/** Nodes and weights of a model while it is written; values are named by number. */
class Writer {
  nodes = []
  constants = []
  #random = uniform(1)
  #count = 0

  op(op, inputs, attributes = {}) {
    const out = `v${this.#count++}`
    this.nodes.push([op, inputs, [out], attributes])
    return out
  }

  constant(shape, data) {
    const name = `w${this.#count++}`
    this.constants.push([name, shape, data])
    return name
  }

  scalar = (x) => this.constant([], new Float32Array([x]))
  integers = (values) => this.constant([values.length], BigInt64Array.from(values, BigInt))

  /** Weights of variance 1 / `fan`. */
  weights(shape, fan) {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1))
    const scale = Math.sqrt(3 / fan)
    for (let i = 0; i < data.length; i++) data[i] = scale * this.#random()
    return this.constant(shape, data)
  }

  conv(x, from, to, kernel, { stride = 1, group = 1 } = {}) {
    const fan = (from / group) * kernel * kernel
    const w = this.weights([to, from / group, kernel, kernel], fan)
    const p = (kernel - 1) >> 1
    const attributes = {
      dilations: [1, 1],
      group,
      kernel_shape: [kernel, kernel],
      pads: [p, p, p, p],
      strides: [stride, stride],
    }
    return this.op('Conv', [x, w, this.weights([to], 100)], attributes)
  }

  /** x @ w + b over the last axis. */
  linear(x, from, to) {
    return this.op('Add', [this.op('MatMul', [x, this.weights([from, to], from)]), this.weights([to], 100)])
  }

  /** Mean over the image, then a layer of 1000 classes. */
  classifier(x, width) {
    const flat = this.op('Flatten', [this.op('GlobalAveragePool', [x])], { axis: 1 })
    const w = this.weights([1000, width], width)
    return this.op('Gemm', [flat, w, this.weights([1000], 100)], { transB: 1 })
  }

  model(inputs, output, shape) {
    this.nodes.push(['Identity', [output], ['out0']])
    return model({ nodes: this.nodes, constants: this.constants, inputs, outputs: [['out0', shape]] })
  }
}

/** Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018, table 2: expansion, channels, repeats, stride. */
const bottlenecks = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
]

function mobileNetV2() {
  const w = new Writer()
  const [zero, six] = [w.scalar(0), w.scalar(6)]
  const relu6 = (x) => w.op('Clip', [x, zero, six])
  let x = relu6(w.conv('in0', 3, 32, 3, { stride: 2 }))
  let width = 32
  for (const [expansion, to, repeats, first] of bottlenecks)
    for (let i = 0; i < repeats; i++) {
      const inner = width * expansion
      const stride = i === 0 ? first : 1
      let y = expansion === 1 ? x : relu6(w.conv(x, width, inner, 1))
      y = relu6(w.conv(y, inner, inner, 3, { stride, group: inner }))
      y = w.conv(y, inner, to, 1)
      x = stride === 1 && width === to ? w.op('Add', [x, y]) : y
      width = to
    }
  x = relu6(w.conv(x, width, 1280, 1))
  return w.model([['in0', [1, 3, 224, 224]]], w.classifier(x, 1280), [1, 1000])
}

/** He et al., Deep Residual Learning for Image Recognition, 2015, table 1: inner channels, repeats, stride. */
const stages = [
  [64, 3, 1],
  [128, 4, 2],
  [256, 6, 2],
  [512, 3, 2],
]

function resNet50() {
  const w = new Writer()
  const relu = (x) => w.op('Relu', [x])
  let x = relu(w.conv('in0', 3, 64, 7, { stride: 2 }))
  x = w.op('MaxPool', [x], { ceil_mode: 0, kernel_shape: [3, 3], pads: [1, 1, 1, 1], strides: [2, 2] })
  let width = 64
  for (const [inner, repeats, first] of stages)
    for (let i = 0; i < repeats; i++) {
      const stride = i === 0 ? first : 1
      let y = relu(w.conv(x, width, inner, 1))
      y = relu(w.conv(y, inner, inner, 3, { stride }))
      y = w.conv(y, inner, 4 * inner, 1)
      const shortcut = i === 0 ? w.conv(x, width, 4 * inner, 1, { stride }) : x
      x = relu(w.op('Add', [y, shortcut]))
      width = 4 * inner
    }
  return w.model([['in0', [1, 3, 224, 224]]], w.classifier(x, width), [1, 1000])
}

/** Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018: the base size. */
const [layers, hidden, heads, tokens, words] = [12, 768, 12, 128, 30522]

function bertBase() {
  const w = new Writer()
  const [root2, half, one, lowest] = [Math.SQRT2, 0.5, 1, -3.4e38].map(w.scalar)
  const scale = w.scalar(Math.sqrt(hidden / heads))
  const split = w.integers([1, tokens, heads, hidden / heads])
  const joined = w.integers([1, tokens, hidden])
  const norm = (x) =>
    w.op('LayerNormalization', [x, w.weights([hidden], 1), w.weights([hidden], 100)], { axis: -1, epsilon: 1e-12 })
  const gelu = (x) => {
    const erf = w.op('Erf', [w.op('Div', [x, root2])])
    return w.op('Mul', [w.op('Mul', [x, w.op('Add', [erf, one])]), half])
  }
  const positions = w.constant(
    [1, tokens],
    BigInt64Array.from({ length: tokens }, (_, i) => BigInt(i)),
  )
  const embedded = ['in0', 'in2', positions].map((ids, i) =>
    w.op('Gather', [w.weights([[words, 2, 512][i], hidden], 1), ids], { axis: 0 }),
  )
  let x = norm(w.op('Add', [w.op('Add', [embedded[0], embedded[1]]), embedded[2]]))
  const seen = w.op('Unsqueeze', [w.op('Cast', ['in1'], { to: 1 }), w.integers([1, 2])])
  const mask = w.op('Mul', [w.op('Sub', [one, seen]), lowest])
  for (let layer = 0; layer < layers; layer++) {
    const headsOf = (perm) => w.op('Transpose', [w.op('Reshape', [w.linear(x, hidden, hidden), split])], { perm })
    const [q, k, v] = [headsOf([0, 2, 1, 3]), headsOf([0, 2, 3, 1]), headsOf([0, 2, 1, 3])]
    const scores = w.op('Add', [w.op('Div', [w.op('MatMul', [q, k]), scale]), mask])
    const mixed = w.op('MatMul', [w.op('Softmax', [scores], { axis: -1 }), v])
    const context = w.op('Reshape', [w.op('Transpose', [mixed], { perm: [0, 2, 1, 3] }), joined])
    x = norm(w.op('Add', [w.linear(context, hidden, hidden), x]))
    x = norm(w.op('Add', [w.linear(gelu(w.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden), x]))
  }
  const ids = [1, tokens]
  const inputs = [0, 1, 2].map((i) => [`in${i}`, ids, 'i64'])
  return w.model(inputs, x, [1, tokens, hidden])
}

/** Bytes of a network's model, by name. */
export const networks = { mobilenet: mobileNetV2, resnet: resNet50, bert: bertBase }
