/** jax-js: jitted functions on its WASM backend. Two threads need browser globals, given to it here on worker_threads. */
import { Worker as NodeWorker } from 'node:worker_threads'
import { chainConstants, compileProgram } from '../rows.mjs'
import { commonOf } from '../shared/jax.mjs'
import { learningRate } from '../training.mjs'

/** What jax-js looks for before it uses threads: Worker, Blob URLs, navigator.hardwareConcurrency. */
function provideWorkers(threads) {
  const sources = new Map()
  globalThis.Blob = class {
    constructor(parts) {
      this.source = parts.join('')
    }
  }
  URL.createObjectURL = (blob) => {
    const url = `blob:${sources.size}`
    sources.set(url, blob.source)
    return url
  }
  URL.revokeObjectURL = () => {}
  const prelude = `const { parentPort } = require('node:worker_threads'); globalThis.self = globalThis
    globalThis.postMessage = (m) => parentPort.postMessage(m)
    parentPort.on('message', (data) => self.onmessage({ data }))\n`
  globalThis.Worker = class {
    constructor(url) {
      this.worker = new NodeWorker(prelude + sources.get(url), { eval: true })
      this.worker.on('message', (data) => this.onmessage?.({ data }))
      this.worker.on('error', (e) => this.onerror?.(e))
      this.worker.unref()
    }
    postMessage(m) {
      this.worker.postMessage(m)
    }
  }
  Object.defineProperty(globalThis, 'navigator', { value: { hardwareConcurrency: threads }, configurable: true })
}

export async function open({ threads }) {
  if (threads > 1) provideWorkers(threads)
  const jax = await import('@jax-js/jax')
  const { numpy: np, jit, nn, valueAndGrad, blockUntilReady } = jax
  const { multiplyAdds, softmax, layernorm, sumexp, rmsnorm, matmul, conv, perceptron } = commonOf(jax)

  const crossEntropy = (logits, targets) => {
    const rows = targets.shape[0]
    return np.sum(nn.logSoftmax(logits, -1).mul(targets)).mul(-1 / rows)
  }
  const convolution = (x, w, b) => {
    const y = nn.relu(conv(x, w).add(b.reshape([-1, 1, 1])))
    const [n, c, h, v] = y.shape
    return np.max(y.reshape([n, c, h / 2, 2, v / 2, 2]), [3, 5])
  }
  const convolutional = (x, w1, b1, w2, b2, w3, b3) => {
    const features = w3.shape[0]
    const y = convolution(convolution(x, w1, b1), w2, b2)
    return np.matmul(y.reshape([-1, features]), w3).add(b3)
  }
  const step =
    (model) =>
    (x, targets, ...parameters) => {
      const loss = (p) => crossEntropy(model(x, ...p), targets)
      const [value, gradients] = valueAndGrad(loss)(parameters.map((p) => p.ref))
      return [value, ...parameters.map((p, i) => p.sub(gradients[i].mul(learningRate)))]
    }

  const functions = {
    chain10: multiplyAdds(chainConstants),
    exp: (x) => np.exp(x),
    tanh: (x) => np.tanh(x),
    softmax,
    layernorm,
    sumexp,
    residual_rmsnorm: rmsnorm,
    bias_gelu: (x, bias) => nn.gelu(x.add(bias), { approximate: false }),
    matmul1024: matmul,
    matmul1023: matmul,
    linear_relu: (x, w, b) => nn.relu(np.matmul(x, w).add(b)),
    attention: (q, k, v) => np.matmul(nn.softmax(np.matmul(q, k.transpose()).mul(0.125), -1), v),
    conv3x3: conv,
    call64: (x) => np.tanh(x.mul(2).add(1)),
    mlp_step: step(perceptron),
    conv_step: step(convolutional),
  }

  const compiled = (seed) => (x) => {
    const values = [x]
    for (const { op, other } of compileProgram(seed)) {
      const a = values[values.length - 1].ref
      const b = values[other].ref
      let y
      if (op === 'add') y = a.add(b)
      else if (op === 'sub') y = a.sub(b)
      else if (op === 'mul') y = a.mul(b)
      else if (op === 'max') y = np.maximum(a, b)
      else if (op === 'matmul') y = np.matmul(a, b)
      else {
        b.dispose()
        y = a.ref.sub(np.mean(a, -1, { keepdims: true }))
      }
      values.push(np.tanh(y))
    }
    const result = values.pop()
    for (const v of values) v.dispose()
    return result
  }

  async function prepare(row, inputs) {
    const args = inputs.map((data, i) => np.array(data, { shape: row.inputs[i].shape }))
    let outputs = []
    const finish = () => {
      for (const o of outputs) o.dispose()
      outputs = []
    }
    const read = async () => {
      const data = await Promise.all(outputs.map((o) => o.ref.data()))
      return data
    }
    if (row.fresh)
      return {
        run: async (seed) => {
          const f = jit(compiled(seed))
          outputs = [f(args[0].ref)]
          await blockUntilReady(outputs)
          f.dispose?.()
        },
        finish,
        read,
      }
    const f = jit(functions[row.name])
    if (row.calls > 1) {
      // Small calls: read back as a user would, synchronously where the backend allows it.
      const call = threads > 1 ? () => f(args[0].ref).data() : () => f(args[0].ref).dataSync()
      let last
      return {
        run: async () => {
          for (let i = 0; i < row.calls; i++) last = threads > 1 ? await call() : call()
        },
        finish: () => {},
        read: () => [last],
      }
    }
    return {
      run: async () => {
        const y = f(...args.map((a) => a.ref))
        outputs = Array.isArray(y) ? y : [y]
        await blockUntilReady(outputs)
      },
      finish,
      read,
    }
  }
  return { prepare, has: (row) => row.fresh === true || row.name in functions }
}
