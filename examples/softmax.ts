/** Softmax along the rows of a matrix: one kernel. `npx sinter explain examples/softmax.ts --kernels --schedule` */
import { exp, program } from 'sinter'

export default program(
  function softmax({ x }) {
    const e = exp(x.sub(x.max(-1, { keepdims: true })))
    return e.div(e.sum(-1, { keepdims: true }))
  },
  { x: { shape: [64, 256] } },
)
