/** jax-js on its WebGPU device: the rows as jitted functions. */
import { chain, epsilon } from './rows.mjs'

export async function open() {
  const { numpy: np, jit, nn, lax, init, defaultDevice } = await import('@jax-js/jax')
  if (!(await init('webgpu')).includes('webgpu')) throw new Error('the webgpu device does not start')
  defaultDevice('webgpu')

  const functions = {
    logexp: (x) => np.log(np.exp(x).add(1)),
    chain: (x) => chain.reduce((y, [a, b]) => y.mul(a).add(b), x),
    softmax: (x) => nn.softmax(x, -1),
    layernorm: (x, scale, bias) => nn.standardize(x, -1, { epsilon }).mul(scale).add(bias),
    sumexp: (x) => np.sum(np.exp(x)),
    rmsnorm: (x, r, scale) => {
      const h = x.add(r)
      const mean = np.mean(np.square(h.ref), -1, { keepdims: true })
      return [h.ref, h.div(np.sqrt(mean.add(epsilon))).mul(scale)]
    },
    matmul: (x, w) => np.matmul(x, w),
    linear_gelu: (x, w, b) => nn.gelu(np.matmul(x, w).add(b), { approximate: false }),
    conv: (x, w) => lax.conv(x, w, [1, 1], 'SAME'),
    mlp: (x, w1, b1, w2, b2, w3, b3) => {
      const h1 = nn.relu(np.matmul(x, w1).add(b1))
      const h2 = nn.relu(np.matmul(h1, w2).add(b2))
      return np.matmul(h2, w3).add(b3)
    },
  }

  function prepare(row, inputs) {
    const args = inputs.map((data, i) => np.array(data, { shape: row.inputs[i].shape }))
    const f = jit(functions[row.name])
    const run = () => [f(...args.map((a) => a.ref))].flat()
    return {
      // Results are computed when they are asked for: asking for their buffers submits the work, does not wait, and frees them.
      call: () => {
        for (const o of run()) o.gpuBufferSync()
      },
      flush: () => {},
      read: () => Promise.all(run().map((o) => o.data())),
      end: () => {
        for (const a of args) a.dispose()
        f.dispose?.()
      },
    }
  }
  return { prepare }
}
