/** TensorFlow.js on its WebGPU backend: eager operations, fused where its library has a fused form (`tf.fused.matMul`). */
import { channelsFirst, channelsLast, commonOf } from '../shared/tfjs.mjs'
import { chain } from './rows.mjs'

export async function open() {
  const tf = await import('@tensorflow/tfjs-core')
  await import('@tensorflow/tfjs-backend-webgpu')
  if (!(await tf.setBackend('webgpu'))) throw new Error('the webgpu backend does not start')
  await tf.ready()
  const backend = tf.backend()

  const { multiplyAdds, linear, gelu, ...common } = commonOf(tf)
  const functions = {
    ...common,
    logexp: (x) => tf.log(tf.add(tf.exp(x), 1)),
    chain: multiplyAdds(chain),
    linear_gelu: (x, w, b) => gelu(linear(x, w, b)),
    mlp: (x, w1, b1, w2, b2, w3, b3) => linear(linear(linear(x, w1, b1, 'relu'), w2, b2, 'relu'), w3, b3),
  }

  function prepare(row, inputs) {
    let args = inputs.map((data, i) => tf.tensor(data, row.inputs[i].shape))
    const isConv = row.name === 'conv'
    if (isConv) {
      const given = args
      args = channelsLast(tf, given)
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
        const outputs = run().map((t) => (isConv ? channelsFirst(tf, t) : t))
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
