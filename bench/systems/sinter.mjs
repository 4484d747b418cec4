/** Sinter: the rows as jitted functions of its public library, from a build folder (`../dist` unless told). */

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chainConstants, compileProgram } from '../rows.mjs'
import { commonOf } from '../shared/sinter.mjs'
import { learningRate } from '../training.mjs'

const defaultBuild = new URL('../../dist/', import.meta.url)

/** The row functions on a build of the library. */
export function functionsOf(lib) {
  const { nn } = lib
  const { multiplyAdds, softmax, layernorm, sumexp, rmsnorm, matmul, conv, perceptron } = commonOf(lib)
  const crossEntropy = (logits, targets) =>
    nn
      .logSoftmax(logits)
      .mul(targets)
      .sum()
      .mul(-1 / targets.shape[0])
  const convolution = (x, w, b) => {
    const y = conv(x, w)
      .add(b.reshape([b.shape[0], 1, 1]))
      .relu()
    const [n, c, h, v] = y.shape
    return y.reshape([n, c, h / 2, 2, v / 2, 2]).max([3, 5])
  }
  const convolutional = (x, w1, b1, w2, b2, w3, b3) => {
    const y = convolution(convolution(x, w1, b1), w2, b2)
    return y.reshape([y.shape[0], w3.shape[0]]).matmul(w3).add(b3)
  }
  const step =
    (model) =>
    (x, targets, ...parameters) => {
      const loss = (p) => crossEntropy(model(x, ...p), targets)
      const [value, gradients] = lib.valueAndGrad(loss)(parameters)
      return [value, ...parameters.map((p, i) => p.sub(gradients[i].mul(learningRate)))]
    }
  return {
    chain10: multiplyAdds(chainConstants),
    exp: (x) => x.exp(),
    tanh: (x) => x.tanh(),
    softmax,
    layernorm,
    sumexp,
    residual_rmsnorm: rmsnorm,
    bias_gelu: (x, bias) => nn.gelu(x.add(bias)),
    matmul1024: matmul,
    matmul1023: matmul,
    linear_relu: (x, w, b) => x.matmul(w).add(b).relu(),
    attention: (q, k, v) => q.matmul(k.T).mul(0.125).softmax(-1).matmul(v),
    conv3x3: conv,
    call64: (x) => x.mul(2).add(1).tanh(),
    mlp_step: step(perceptron),
    conv_step: step(convolutional),
  }
}

/** The program of `compile100`. */
export const compiledOf = (seed) => (x) => {
  const values = [x]
  for (const { op, other } of compileProgram(seed)) {
    const a = values[values.length - 1]
    const b = values[other]
    let y
    if (op === 'max') y = a.maximum(b)
    else if (op === 'center') y = a.sub(a.mean(-1, true))
    else y = a[op](b)
    values.push(y.tanh())
  }
  return values[values.length - 1]
}

/** A build folder as a base URL. */
export const buildAt = (path) => (path === undefined ? defaultBuild : pathToFileURL(`${resolve(path)}/`))

export async function open({ threads, build }) {
  const lib = await import(new URL('index.js', buildAt(build)).href)
  const functions = functionsOf(lib)
  lib.setDevice('wasm', { threads })

  async function prepare(row, inputs) {
    const args = inputs.map((data, i) => lib.tensor(data, { shape: row.inputs[i].shape }))
    let outputs = []
    const finish = () => {
      for (const o of outputs) o.dispose()
      outputs = []
    }
    const read = () => outputs.map((o) => o.dataSync())
    if (row.fresh)
      return {
        run: (seed) => {
          outputs = [lib.jit(compiledOf(seed))(args[0])]
        },
        finish,
        read,
      }
    const f = lib.jit(functions[row.name])
    const info = () => {
      const { kernels, totals, compileMs } = f.explain(...args)
      return {
        kernels: kernels.map((k) => [k.kind, ...k.stages.map((s) => s.stage)].join('+')),
        bytes: totals.bytes,
        modelledMs: totals.modelledMs,
        compileMs,
      }
    }
    if (row.calls > 1) {
      let last
      return {
        run: () => {
          for (let i = 0; i < row.calls; i++) {
            const y = f(args[0])
            last = y.dataSync()
            y.dispose()
          }
        },
        finish: () => {},
        read: () => [last],
        info,
      }
    }
    return {
      run: () => {
        outputs = [f(...args)].flat()
      },
      finish,
      read,
      info,
    }
  }
  return { prepare, has: (row) => row.fresh === true || row.name in functions }
}
