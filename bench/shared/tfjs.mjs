/** Functions of rows that the CPU and the WebGPU benchmark have in common, in TensorFlow.js: eager, fused where it has a fused form. */
import { epsilon } from './oracle.mjs'

export function commonOf(tf) {
  return {
    multiplyAdds: (constants) => (x) => constants.reduce((y, [a, b]) => tf.add(tf.mul(y, a), b), x),
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
    gelu: (v) => tf.mul(tf.mul(v, 0.5), tf.add(tf.erf(tf.mul(v, Math.SQRT1_2)), 1)),
    matmul: (a, b) => tf.matMul(a, b),
    linear: (a, b, bias, activation) => tf.fused.matMul({ a, b, bias, activation }),
    conv: (x, w) => tf.conv2d(x, w, 1, 'same'),
  }
}

/** Its convolution wants NHWC and HWIO: operands of a row in that layout, which is made untimed. */
export const channelsLast = (tf, [x, w]) => [tf.transpose(x, [0, 2, 3, 1]), tf.transpose(w, [2, 3, 1, 0])]

/** A result of its convolution as rows have it, NCHW. */
export const channelsFirst = (tf, y) => tf.transpose(y, [0, 3, 1, 2])
