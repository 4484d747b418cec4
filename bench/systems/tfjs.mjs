/** TensorFlow.js on its WASM backend (SIMD, one thread: it has no threads in Node), eager operations. */
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { chainConstants, epsilon } from '../rows.mjs'

export async function open() {
  const require = createRequire(import.meta.url)
  const tf = require('@tensorflow/tfjs-core')
  const wasm = require('@tensorflow/tfjs-backend-wasm')
  wasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`)
  await tf.setBackend('wasm')
  await tf.ready()

  const fused = (x, w, bias, activation) => tf.fused.matMul({ a: x, b: w, bias, activation })
  const functions = {
    chain10: (x) => chainConstants.reduce((y, [a, b]) => tf.add(tf.mul(y, a), b), x),
    exp: (x) => tf.exp(x),
    tanh: (x) => tf.tanh(x),
    softmax: (x) => tf.softmax(x, -1),
    layernorm: (x, scale, bias) => {
      const { mean, variance } = tf.moments(x, -1, true)
      const normal = tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, epsilon)))
      return tf.add(tf.mul(normal, scale), bias)
    },
    sumexp: (x) => tf.sum(tf.exp(x)),
    residual_rmsnorm: (x, r, scale) => {
      const h = tf.add(x, r)
      const mean = tf.mean(tf.square(h), -1, true)
      return [h, tf.mul(tf.mul(h, tf.rsqrt(tf.add(mean, epsilon))), scale)]
    },
    bias_gelu: (x, bias) => {
      const v = tf.add(x, bias)
      return tf.mul(tf.mul(v, 0.5), tf.add(tf.erf(tf.mul(v, Math.SQRT1_2)), 1))
    },
    matmul1024: (a, b) => tf.matMul(a, b),
    matmul1023: (a, b) => tf.matMul(a, b),
    linear_relu: (x, w, b) => fused(x, w, b, 'relu'),
    attention: (q, k, v) => tf.matMul(tf.softmax(tf.mul(tf.matMul(q, k, false, true), 0.125), -1), v),
    conv3x3: (x, w) => tf.conv2d(x, w, 1, 'same'),
    call64: (x) => tf.tanh(tf.add(tf.mul(x, 2), 1)),
  }

  const hasErf = tf.getKernel('Erf', 'wasm') !== undefined

  async function prepare(row, inputs) {
    let args = inputs.map((data, i) => tf.tensor(data, row.inputs[i].shape))
    // Its convolution wants NHWC and HWIO: it gets them, and the result goes back to NCHW untimed.
    const conv = row.name === 'conv3x3'
    if (conv) args = [tf.transpose(args[0], [0, 2, 3, 1]), tf.transpose(args[1], [2, 3, 1, 0])]
    const f = functions[row.name]
    let outputs = []
    if (row.calls > 1) {
      let last
      return {
        run: () => {
          for (let i = 0; i < row.calls; i++) {
            const y = tf.tidy(() => f(...args))
            last = y.dataSync()
            y.dispose()
          }
        },
        finish: () => {},
        read: () => [last],
      }
    }
    return {
      run: () => {
        outputs = [tf.tidy(() => f(...args))].flat()
      },
      finish: () => {
        for (const o of outputs) o.dispose()
        outputs = []
      },
      read: () => outputs.map((o) => (conv ? tf.transpose(o, [0, 3, 1, 2]) : o).dataSync().slice()),
    }
  }
  return { prepare, has: (row) => row.name in functions && (row.name !== 'bias_gelu' || hasErf) }
}
