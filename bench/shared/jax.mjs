/** Functions of rows that the CPU and the WebGPU benchmark have in common, in jax-js. */
import { epsilon } from './oracle.mjs'

export const commonOf = ({ numpy: np, nn, lax }) => ({
  multiplyAdds: (constants) => (x) => constants.reduce((y, [a, b]) => y.mul(a).add(b), x),
  softmax: (x) => nn.softmax(x, -1),
  layernorm: (x, scale, bias) => nn.standardize(x, -1, { epsilon }).mul(scale).add(bias),
  sumexp: (x) => np.sum(np.exp(x)),
  rmsnorm: (x, r, scale) => {
    const h = x.add(r)
    const mean = np.mean(np.square(h.ref), -1, { keepdims: true })
    return [h.ref, h.div(np.sqrt(mean.add(epsilon))).mul(scale)]
  },
  matmul: (a, b) => np.matmul(a, b),
  conv: (x, w) => lax.conv(x, w, [1, 1], 'SAME'),
  perceptron: (x, w1, b1, w2, b2, w3, b3) => {
    const h1 = nn.relu(np.matmul(x, w1).add(b1))
    const h2 = nn.relu(np.matmul(h1, w2).add(b2))
    return np.matmul(h2, w3).add(b3)
  },
})
