/** jax-js: jitted functions on its WASM backend. Two threads need browser globals, given to it here on worker_threads. */
import { Worker as NodeWorker } from 'node:worker_threads'
import { chainConstants, compileProgram, epsilon } from '../rows.mjs'

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
  const { numpy: np, jit, nn, lax, blockUntilReady } = await import('@jax-js/jax')

  const functions = {
    chain10: (x) => chainConstants.reduce((y, [a, b]) => y.mul(a).add(b), x),
    exp: (x) => np.exp(x),
    tanh: (x) => np.tanh(x),
    softmax: (x) => nn.softmax(x, -1),
    layernorm: (x, scale, bias) => nn.standardize(x, -1, { epsilon }).mul(scale).add(bias),
    sumexp: (x) => np.sum(np.exp(x)),
    residual_rmsnorm: (x, r, scale) => {
      const h = x.add(r)
      const mean = np.mean(np.square(h.ref), -1, { keepdims: true })
      return [h.ref, h.div(np.sqrt(mean.add(epsilon))).mul(scale)]
    },
    bias_gelu: (x, bias) => nn.gelu(x.add(bias), { approximate: false }),
    matmul1024: (a, b) => np.matmul(a, b),
    matmul1023: (a, b) => np.matmul(a, b),
    linear_relu: (x, w, b) => nn.relu(np.matmul(x, w).add(b)),
    attention: (q, k, v) => np.matmul(nn.softmax(np.matmul(q, k.transpose()).mul(0.125), -1), v),
    conv3x3: (x, w) => lax.conv(x, w, [1, 1], 'SAME'),
    call64: (x) => np.tanh(x.mul(2).add(1)),
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
