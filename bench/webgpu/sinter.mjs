/** Sinter: the rows as jitted functions on the device of `sinter/webgpu`. */
import * as lib from 'sinter-build/index.js'
import { webgpu } from 'sinter-build/webgpu.js'
import { commonOf } from '../shared/sinter.mjs'
import { kinds } from './grid.mjs'
import { chain } from './rows.mjs'

const { multiplyAdds, perceptron, ...common } = commonOf(lib)
const functions = {
  ...common,
  logexp: (x) => x.exp().add(1).log(),
  chain: multiplyAdds(chain),
  linear_gelu: (x, w, b) => lib.nn.gelu(x.matmul(w).add(b)),
  mlp: perceptron,
  ...Object.fromEntries(
    kinds.map(({ name, form, order }) => [
      name,
      (a, b, c) => {
        const x = form === 'silu' ? lib.nn.silu(a).mul(c) : a
        const y = (order[0] === 't' ? x.transpose() : x).matmul(order[1] === 't' ? b.transpose() : b)
        return form === 'gelu' ? lib.nn.gelu(y.add(c)) : y
      },
    ]),
  ),
}

export async function open() {
  lib.setDevice(await webgpu({ powerPreference: 'high-performance' }))

  function prepare(row, inputs) {
    const args = inputs.map((data, i) => lib.tensor(data, { shape: row.inputs[i].shape }))
    const f = lib.jit(functions[row.kind ?? row.name])
    const run = () => [f(...args)].flat()
    return {
      call: () => {
        for (const t of run()) t.dispose()
      },
      // What a task recorded is submitted at its end.
      flush: () => new Promise((done) => setImmediate(done)),
      read: async () => {
        const outputs = run()
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
