/** Functions of rows that the CPU and the WebGPU benchmark have in common, in Sinter. */
import { epsilon } from './oracle.mjs'

/** On a build of the library. */
export const commonOf = ({ conv2d, nn }) => ({
  multiplyAdds: (constants) => (x) => constants.reduce((y, [a, b]) => y.mul(a).add(b), x),
  softmax: (x) => x.softmax(-1),
  layernorm: (x, scale, bias) => nn.layerNorm(x, { scale, bias, epsilon }),
  sumexp: (x) => x.exp().sum(),
  rmsnorm: (x, r, scale) => {
    const h = x.add(r)
    return [h, nn.rmsNorm(h, { scale, epsilon })]
  },
  matmul: (a, b) => a.matmul(b),
  conv: (x, w) => conv2d(x, w, { padding: 'same' }),
  perceptron: (x, w1, b1, w2, b2, w3, b3) => x.matmul(w1).add(b1).relu().matmul(w2).add(b2).relu().matmul(w3).add(b3),
})
