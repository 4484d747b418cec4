/**
 * Networks as ONNX models of random weights, the graphs that exporters write for inference (batch norms folded into convolutions): MobileNetV2, ResNet-50 and -18 at
 * 1 x 3 x 224 x 224, BERT-base at 1 x 128 tokens, GPT-2 at 1 x 64, Whisper-tiny's encoder at 1 x 80 x 3000. Weights have the variance that keeps activations near 1.
 */
import { microsoft, model } from './onnx.mjs'

/** Numbers from a seed, uniform in [-1, 1): a linear congruential generator of 32 bits (Numerical Recipes, chapter 7.1). */
function uniform(seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  }
}

/**
 * How the weights of products and convolutions stand in a model, and how those are computed:
 * `f32`; `dynamic`: activations become bytes at run time (DynamicQuantizeLinear and integer products, as ONNX Runtime's quantize_dynamic writes them);
 * `qdq`: QuantizeLinear and DequantizeLinear around the operators of f32; `qoperator`: QLinearConv and QLinearMatMul; `bits4`: MatMulNBits, blocks of 32.
 */
export const forms = ['f32', 'dynamic', 'qdq', 'qoperator', 'bits4']

/** Activations as bytes: of both signs around 128, and those that are not negative from 0. */
const [signedStep, positiveStep] = [4 / 127, 6 / 255]

/** Nodes and weights of a model while it is written; values are named by number. */
class Writer {
  nodes = []
  constants = []
  #random = uniform(1)
  #count = 0
  /** What stands as bytes already, by the value. */
  #bytes = new Map()

  constructor(form = 'f32') {
    this.form = form
  }

  op(op, inputs, attributes = {}, domain = '') {
    return this.ops(op, inputs, 1, attributes, domain)[0]
  }

  /** An operator of several results. */
  ops(op, inputs, results, attributes = {}, domain = '') {
    const out = Array.from({ length: results }, () => `v${this.#count++}`)
    this.nodes.push([op, inputs, out, attributes, domain])
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

  /** Weights of variance 1 / `fan` as signed bytes: their name, their step and their zero point. */
  byteWeights(shape, fan) {
    const data = new Int8Array(shape.reduce((a, b) => a * b, 1))
    for (let i = 0; i < data.length; i++) data[i] = Math.round(127 * this.#random())
    return [this.constant(shape, data), this.scalar(Math.sqrt(3 / fan) / 127), this.constant([], new Int8Array(1))]
  }

  /** A value as bytes with fixed steps: their name, step and zero point. */
  asBytes(x, positive = false) {
    const known = this.#bytes.get(x)
    if (known !== undefined) return known
    const step = this.scalar(positive ? positiveStep : signedStep)
    const zero = this.constant([], new Uint8Array([positive ? 0 : 128]))
    const made = [this.op('QuantizeLinear', [x, step, zero]), step, zero]
    this.#bytes.set(x, made)
    return made
  }

  /** The value of bytes, which are found again where it is asked for as bytes. */
  fromBytes(bytes) {
    const x = this.op('DequantizeLinear', bytes)
    this.#bytes.set(x, bytes)
    return x
  }

  /** A value as bytes whose steps are found at run time. */
  #dynamic(x) {
    const known = this.#bytes.get(x)
    if (known !== undefined) return known
    const made = this.ops('DynamicQuantizeLinear', [x], 3)
    this.#bytes.set(x, made)
    return made
  }

  /** The result of an integer product of bytes with steps found at run time, as f32. */
  #scaled(product, ...steps) {
    return this.op('Mul', [this.op('Cast', [product], { to: 1 }), this.op('Mul', steps)])
  }

  /** A bias of integers for a product of bytes. */
  #byteBias(n) {
    const data = new Int32Array(n)
    for (let i = 0; i < n; i++) data[i] = Math.round(1000 * this.#random())
    return this.constant([n], data)
  }

  /** A convolution with its bias and what bounds it: nothing, below (`relu`), or on both sides (`relu6`). */
  conv(x, from, to, kernel, { stride = 1, group = 1, clip = '' } = {}) {
    const fan = (from / group) * kernel * kernel
    const shape = [to, from / group, kernel, kernel]
    const p = (kernel - 1) >> 1
    const attributes = {
      dilations: [1, 1],
      group,
      kernel_shape: [kernel, kernel],
      pads: [p, p, p, p],
      strides: [stride, stride],
    }
    const clipped = (y) => {
      if (clip === '') return y
      return clip === 'relu' ? this.op('Relu', [y]) : this.op('Clip', [y, this.scalar(0), this.scalar(6)])
    }
    if (this.form === 'dynamic') {
      const [w, step, zero] = this.byteWeights(shape, fan)
      const [b, xs, xz] = this.#dynamic(x)
      const y = this.#scaled(this.op('ConvInteger', [b, w, xz, zero], attributes), xs, step)
      return clipped(this.op('Add', [y, this.constant([1, to, 1, 1], new Float32Array(to).fill(0.1))]))
    }
    if (this.form === 'qdq' || this.form === 'qoperator') {
      const w = this.byteWeights(shape, fan)
      const bytes = this.asBytes(x)
      const bias = this.#byteBias(to)
      const positive = clip !== ''
      if (this.form === 'qdq') {
        const biasStep = this.scalar(signedStep * (Math.sqrt(3 / fan) / 127))
        const inputs = [this.op('DequantizeLinear', bytes), this.op('DequantizeLinear', w)]
        const b = this.op('DequantizeLinear', [bias, biasStep, this.constant([], new Int32Array(1))])
        const y = clipped(this.op('Conv', [...inputs, b], attributes))
        return this.fromBytes(this.asBytes(y, positive))
      }
      const step = this.scalar(positive ? positiveStep : signedStep)
      const zero = this.constant([], new Uint8Array([positive ? 0 : 128]))
      const y = this.op('QLinearConv', [...bytes, ...w, step, zero, bias], attributes)
      return this.fromBytes([y, step, zero])
    }
    const w = this.weights(shape, fan)
    return clipped(this.op('Conv', [x, w, this.weights([to], 100)], attributes))
  }

  /** The sum of two images, which is not negative where `relu` is said. */
  add(x, y, relu = false) {
    if (this.form === 'qoperator') {
      const step = this.scalar(relu ? positiveStep : signedStep)
      const zero = this.constant([], new Uint8Array([relu ? 0 : 128]))
      const inputs = [...this.asBytes(x), ...this.asBytes(y), step, zero]
      return this.fromBytes([this.op('QLinearAdd', inputs, {}, microsoft), step, zero])
    }
    const sum = this.op('Add', [x, y])
    const z = relu ? this.op('Relu', [sum]) : sum
    return this.form === 'qdq' ? this.fromBytes(this.asBytes(z, relu)) : z
  }

  /** x @ w + b over the last axis. */
  linear(x, from, to) {
    const added = (y) => this.op('Add', [y, this.weights([to], 100)])
    if (this.form === 'dynamic') {
      const [w, step, zero] = this.byteWeights([from, to], from)
      const [b, xs, xz] = this.#dynamic(x)
      return added(this.#scaled(this.op('MatMulInteger', [b, w, xz, zero]), xs, step))
    }
    if (this.form === 'qdq') {
      const w = this.op('DequantizeLinear', this.byteWeights([from, to], from))
      const y = this.op('MatMul', [this.op('DequantizeLinear', this.asBytes(x)), w])
      return added(this.fromBytes(this.asBytes(y)))
    }
    if (this.form === 'qoperator') {
      const w = this.byteWeights([from, to], from)
      const step = this.scalar(signedStep)
      const zero = this.constant([], new Uint8Array([128]))
      return added(this.fromBytes([this.op('QLinearMatMul', [...this.asBytes(x), ...w, step, zero]), step, zero]))
    }
    if (this.form === 'bits4') {
      const blocks = from / 32
      const packed = new Uint8Array(to * blocks * 16)
      for (let i = 0; i < packed.length; i++) packed[i] = 128 * (this.#random() + 1)
      const steps = new Float32Array(to * blocks).fill(Math.sqrt(3 / from) / 8)
      const w = [this.constant([to, blocks, 16], packed), this.constant([to * blocks], steps)]
      const attributes = { K: from, N: to, bits: 4, block_size: 32 }
      return added(this.op('MatMulNBits', [x, ...w], attributes, microsoft))
    }
    return added(this.op('MatMul', [x, this.weights([from, to], from)]))
  }

  /** Mean over the image, then a layer of 1000 classes. */
  classifier(x, width) {
    const flat = this.op('Flatten', [this.op('GlobalAveragePool', [x])], { axis: 1 })
    if (this.form !== 'f32') return this.linear(flat, width, 1000)
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

function mobileNetV2(form) {
  const w = new Writer(form)
  const clip = 'relu6'
  let x = w.conv('in0', 3, 32, 3, { stride: 2, clip })
  let width = 32
  for (const [expansion, to, repeats, first] of bottlenecks)
    for (let i = 0; i < repeats; i++) {
      const inner = width * expansion
      const stride = i === 0 ? first : 1
      let y = expansion === 1 ? x : w.conv(x, width, inner, 1, { clip })
      y = w.conv(y, inner, inner, 3, { stride, group: inner, clip })
      y = w.conv(y, inner, to, 1)
      x = stride === 1 && width === to ? w.add(x, y) : y
      width = to
    }
  x = w.conv(x, width, 1280, 1, { clip })
  return w.model([['in0', [1, 3, 224, 224]]], w.classifier(x, 1280), [1, 1000])
}

/** He et al., Deep Residual Learning for Image Recognition, 2015, table 1: inner channels, repeats, stride. */
const stages = [
  [64, 3, 1],
  [128, 4, 2],
  [256, 6, 2],
  [512, 3, 2],
]

/** What residual networks begin with: a convolution of 7 x 7 and the greatest of 3 x 3. */
function stem(w) {
  const x = w.conv('in0', 3, 64, 7, { stride: 2, clip: 'relu' })
  const attributes = { ceil_mode: 0, kernel_shape: [3, 3], pads: [1, 1, 1, 1], strides: [2, 2] }
  return w.op('MaxPool', [x], attributes)
}

function resNet50(form) {
  const w = new Writer(form)
  let x = stem(w)
  let width = 64
  for (const [inner, repeats, first] of stages)
    for (let i = 0; i < repeats; i++) {
      const stride = i === 0 ? first : 1
      let y = w.conv(x, width, inner, 1, { clip: 'relu' })
      y = w.conv(y, inner, inner, 3, { stride, clip: 'relu' })
      y = w.conv(y, inner, 4 * inner, 1)
      const shortcut = i === 0 ? w.conv(x, width, 4 * inner, 1, { stride }) : x
      x = w.add(y, shortcut, true)
      width = 4 * inner
    }
  return w.model([['in0', [1, 3, 224, 224]]], w.classifier(x, width), [1, 1000])
}

function resNet18(form) {
  const w = new Writer(form)
  let x = stem(w)
  let width = 64
  for (const [inner, , first] of stages)
    for (let i = 0; i < 2; i++) {
      const stride = i === 0 ? first : 1
      let y = w.conv(x, width, inner, 3, { stride, clip: 'relu' })
      y = w.conv(y, inner, inner, 3)
      const shortcut = width === inner ? x : w.conv(x, width, inner, 1, { stride })
      x = w.add(y, shortcut, true)
      width = inner
    }
  return w.model([['in0', [1, 3, 224, 224]]], w.classifier(x, width), [1, 1000])
}

/** Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018: the base size. */
const [layers, hidden, heads, tokens, words] = [12, 768, 12, 128, 30522]

function bertBase(form) {
  const w = new Writer(form)
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

/**
 * A block of a transformer whose norms stand before the products: heads side by side, gelu by its error function or by tanh; `mask` is added to the
 * scores.
 */
function preNormBlock(w, x, { width, heads, tokens, mask, tanh }) {
  const norm = (y) =>
    w.op('LayerNormalization', [y, w.weights([width], 1), w.weights([width], 100)], { axis: -1, epsilon: 1e-5 })
  const split = w.integers([1, tokens, heads, width / heads])
  const joined = w.integers([1, tokens, width])
  const y = norm(x)
  const headsOf = (perm) => w.op('Transpose', [w.op('Reshape', [w.linear(y, width, width), split])], { perm })
  const [q, k, v] = [headsOf([0, 2, 1, 3]), headsOf([0, 2, 3, 1]), headsOf([0, 2, 1, 3])]
  const scaled = w.op('Mul', [w.op('MatMul', [q, k]), w.scalar(1 / Math.sqrt(width / heads))])
  const scores = mask === undefined ? scaled : w.op('Add', [scaled, mask])
  const mixed = w.op('MatMul', [w.op('Softmax', [scores], { axis: -1 }), v])
  const context = w.op('Reshape', [w.op('Transpose', [mixed], { perm: [0, 2, 1, 3] }), joined])
  const z = w.op('Add', [w.linear(context, width, width), x])
  const inner = w.linear(norm(z), width, 4 * width)
  const gelu = w.op('Gelu', [inner], { approximate: tanh ? 'tanh' : 'none' })
  return w.op('Add', [w.linear(gelu, 4 * width, width), z])
}

/** Radford et al., Language Models are Unsupervised Multitask Learners, 2019: the small size, one pass over 64 tokens. */
function gpt2(form) {
  const w = new Writer(form)
  const [width, length, vocabulary] = [768, 64, 50257]
  const table = w.weights([vocabulary, width], 1)
  const positions = w.weights([1, length, width], 1)
  const causal = new Float32Array(length * length)
  for (let i = 0; i < causal.length; i++) causal[i] = i % length > Math.floor(i / length) ? -1e9 : 0
  const mask = w.constant([1, 1, length, length], causal)
  let x = w.op('Add', [w.op('Gather', [table, 'in0'], { axis: 0 }), positions])
  for (let i = 0; i < 12; i++) x = preNormBlock(w, x, { width, heads: 12, tokens: length, mask, tanh: true })
  x = w.op('LayerNormalization', [x, w.weights([width], 1), w.weights([width], 100)], { axis: -1, epsilon: 1e-5 })
  const last = w.op('Gather', [x, w.constant([], new BigInt64Array([BigInt(length - 1)]))], { axis: 1 })
  const logits = w.op('MatMul', [last, w.op('Transpose', [table], { perm: [1, 0] })])
  return w.model([['in0', [1, length], 'i64']], logits, [1, vocabulary])
}

/** Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022: the tiny size's encoder. */
function whisperTiny(form) {
  const w = new Writer(form)
  const [width, frames] = [384, 1500]
  const windows = (x, from, stride) => {
    const attributes = { dilations: [1], group: 1, kernel_shape: [3], pads: [1, 1], strides: [stride] }
    const y = w.op('Conv', [x, w.weights([width, from, 3], 3 * from), w.weights([width], 100)], attributes)
    return w.op('Gelu', [y], { approximate: 'none' })
  }
  const features = windows(windows('in0', 80, 1), width, 2)
  const positions = w.weights([frames, width], 1)
  let x = w.op('Add', [w.op('Transpose', [features], { perm: [0, 2, 1] }), positions])
  for (let i = 0; i < 4; i++) x = preNormBlock(w, x, { width, heads: 6, tokens: frames, tanh: false })
  x = w.op('LayerNormalization', [x, w.weights([width], 1), w.weights([width], 100)], { axis: -1, epsilon: 1e-5 })
  return w.model([['in0', [1, 80, 2 * frames]]], x, [1, frames, width])
}

/** Bytes of a network's model, by name and form (`f32` unless said). */
export const networks = {
  mobilenet: mobileNetV2,
  resnet: resNet50,
  resnet18: resNet18,
  bert: bertBase,
  gpt2,
  whisper: whisperTiny,
}
