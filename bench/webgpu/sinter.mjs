/** Sinter: the rows as jitted functions on the device of `sinter/webgpu`. */
import * as lib from 'sinter-build/index.js'
import { webgpu } from 'sinter-build/webgpu.js'
import { chain, epsilon } from './rows.mjs'

const { nn } = lib
const functions = {
  logexp: (x) => x.exp().add(1).log(),
  chain: (x) => chain.reduce((y, [a, b]) => y.mul(a).add(b), x),
  softmax: (x) => x.softmax(-1),
  layernorm: (x, scale, bias) => nn.layerNorm(x, { scale, bias, epsilon }),
  sumexp: (x) => x.exp().sum(),
  rmsnorm: (x, r, scale) => {
    const h = x.add(r)
    return [h, nn.rmsNorm(h, { scale, epsilon })]
  },
  matmul: (x, w) => x.matmul(w),
  linear_gelu: (x, w, b) => nn.gelu(x.matmul(w).add(b)),
  conv: (x, w) => lib.conv2d(x, w, { padding: 'same' }),
  mlp: (x, w1, b1, w2, b2, w3, b3) => x.matmul(w1).add(b1).relu().matmul(w2).add(b2).relu().matmul(w3).add(b3),
}

export async function open() {
  lib.setDevice(await webgpu({ powerPreference: 'high-performance' }))

  function prepare(row, inputs) {
    const args = inputs.map((data, i) => lib.tensor(data, { shape: row.inputs[i].shape }))
    const f = lib.jit(functions[row.name])
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
