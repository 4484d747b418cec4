/** Causal attention in plain operations: nothing here is known to the compiler by name. `npx sinter explain examples/attention.ts` */
import { arange, matmul, program, softmax, where } from 'sinter'

const [heads, length, width] = [8, 256, 64]

export default program(
  function attention({ q, k, v }) {
    const scores = matmul(q, k.swapaxes(-1, -2)).mul(1 / Math.sqrt(width))
    const position = arange(length)
    const visible = position.expandDims(1).greaterEqual(position.expandDims(0))
    return matmul(softmax(where(visible, scores, Number.NEGATIVE_INFINITY)), v)
  },
  {
    q: { shape: [heads, length, width] },
    k: { shape: [heads, length, width] },
    v: { shape: [heads, length, width] },
  },
)
