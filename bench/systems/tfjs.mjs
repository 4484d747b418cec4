/** TensorFlow.js on its WASM backend (SIMD, one thread: it has no threads in Node), eager operations. */
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { chainConstants } from '../rows.mjs'
import { channelsFirst, channelsLast, commonOf } from '../shared/tfjs.mjs'

export async function open() {
  const require = createRequire(import.meta.url)
  const tf = require('@tensorflow/tfjs-core')
  const wasm = require('@tensorflow/tfjs-backend-wasm')
  wasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`)
  await tf.setBackend('wasm')
  await tf.ready()

  const { multiplyAdds, softmax, layernorm, sumexp, rmsnorm, gelu, matmul, linear, conv } = commonOf(tf)
  const functions = {
    chain10: multiplyAdds(chainConstants),
    exp: (x) => tf.exp(x),
    tanh: (x) => tf.tanh(x),
    softmax,
    layernorm,
    sumexp,
    residual_rmsnorm: rmsnorm,
    bias_gelu: (x, bias) => gelu(tf.add(x, bias)),
    matmul1024: matmul,
    matmul1023: matmul,
    linear_relu: (x, w, b) => linear(x, w, b, 'relu'),
    attention: (q, k, v) => tf.matMul(tf.softmax(tf.mul(tf.matMul(q, k, false, true), 0.125), -1), v),
    conv3x3: conv,
    call64: (x) => tf.tanh(tf.add(tf.mul(x, 2), 1)),
  }

  const hasErf = tf.getKernel('Erf', 'wasm') !== undefined

  async function prepare(row, inputs) {
    let args = inputs.map((data, i) => tf.tensor(data, row.inputs[i].shape))
    const isConv = row.name === 'conv3x3'
    if (isConv) args = channelsLast(tf, args)
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
      read: () => outputs.map((o) => (isConv ? channelsFirst(tf, o) : o).dataSync().slice()),
    }
  }
  return { prepare, has: (row) => row.name in functions && (row.name !== 'bias_gelu' || hasErf) }
}
