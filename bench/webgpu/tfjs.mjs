/** TensorFlow.js on its WebGPU backend: eager operations, fused where its library has a fused form (`tf.fused.matMul`). */
import { chain, epsilon } from './rows.mjs'

export async function open() {
  const tf = await import('@tensorflow/tfjs-core')
  await import('@tensorflow/tfjs-backend-webgpu')
  if (!(await tf.setBackend('webgpu'))) throw new Error('the webgpu backend does not start')
  await tf.ready()
  const backend = tf.backend()

  const linear = (a, b, bias, activation) => tf.fused.matMul({ a, b, bias, activation })
  const functions = {
    logexp: (x) => tf.log(tf.add(tf.exp(x), 1)),
    chain: (x) => chain.reduce((y, [a, b]) => tf.add(tf.mul(y, a), b), x),
    softmax: (x) => tf.softmax(x, -1),
    layernorm: (x, scale, bias) => {
      const { mean, variance } = tf.moments(x, -1, true)
      const normal = tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, epsilon)))
      return tf.add(tf.mul(normal, scale), bias)
    },
    sumexp: (x) => tf.sum(tf.exp(x)),
    rmsnorm: (x, r, scale) => {
      const h = tf.add(x, r)
      const mean = tf.mean(tf.square(h), -1, true)
      return [h, tf.mul(tf.mul(h, tf.rsqrt(tf.add(mean, epsilon))), scale)]
    },
    matmul: (x, w) => tf.matMul(x, w),
    linear_gelu: (x, w, b) => {
      const v = linear(x, w, b)
      return tf.mul(tf.mul(v, 0.5), tf.add(tf.erf(tf.mul(v, Math.SQRT1_2)), 1))
    },
    conv: (x, w) => tf.conv2d(x, w, 1, 'same'),
    mlp: (x, w1, b1, w2, b2, w3, b3) => linear(linear(linear(x, w1, b1, 'relu'), w2, b2, 'relu'), w3, b3),
  }

  function prepare(row, inputs) {
    let args = inputs.map((data, i) => tf.tensor(data, row.inputs[i].shape))
    // Its convolution wants NHWC and HWIO: it gets them, and the result goes back to NCHW untimed.
    const conv = row.name === 'conv'
    if (conv) {
      const given = args
      args = [tf.transpose(given[0], [0, 2, 3, 1]), tf.transpose(given[1], [2, 3, 1, 0])]
      for (const t of given) t.dispose()
    }
    const run = () => [tf.tidy(() => functions[row.name](...args))].flat()
    return {
      call: () => {
        for (const t of run()) t.dispose()
      },
      flush: () => {
        if (backend.commandEncoder === null) return
        backend.endComputePassEncoder()
        backend.submitQueue()
      },
      read: async () => {
        const outputs = run().map((t) => (conv ? tf.transpose(t, [0, 3, 1, 2]) : t))
        const results = []
        for (const t of outputs) results.push(await t.data())
        for (const t of outputs) t.dispose()
        return results
      },
      end: () => {
        for (const t of args) t.dispose()
      },
    }
  }
  return { prepare }
}
