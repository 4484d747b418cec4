/** jax-js on its WebGPU device: the rows as jitted functions. */
import { commonOf } from '../shared/jax.mjs'
import { kinds } from './grid.mjs'
import { chain } from './rows.mjs'

export async function open() {
  const jax = await import('@jax-js/jax')
  const { numpy: np, jit, nn, init, defaultDevice } = jax
  if (!(await init('webgpu')).includes('webgpu')) throw new Error('the webgpu device does not start')
  defaultDevice('webgpu')

  const { multiplyAdds, perceptron, ...common } = commonOf(jax)
  const functions = {
    ...common,
    logexp: (x) => np.log(np.exp(x).add(1)),
    chain: multiplyAdds(chain),
    linear_gelu: (x, w, b) => nn.gelu(np.matmul(x, w).add(b), { approximate: false }),
    mlp: perceptron,
    ...Object.fromEntries(
      kinds.map(({ name, form, order }) => [
        name,
        (a, b, c) => {
          const x = form === 'silu' ? nn.silu(a).mul(c) : a
          const y = np.matmul(order[0] === 't' ? x.transpose() : x, order[1] === 't' ? b.transpose() : b)
          return form === 'gelu' ? nn.gelu(y.add(c), { approximate: false }) : y
        },
      ]),
    ),
  }

  function prepare(row, inputs) {
    const args = inputs.map((data, i) => np.array(data, { shape: row.inputs[i].shape }))
    const f = jit(functions[row.kind ?? row.name])
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
