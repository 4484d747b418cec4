/** A dense layer with its activation: one kernel. `npx sinter explain examples/layer.ts --kernels` */
import { gelu, matmul, program } from 'sinter'

export default program(
  function layer({ x, w, b }) {
    return gelu(matmul(x, w).add(b))
  },
  { x: { shape: [512, 512] }, w: { shape: [512, 512] }, b: { shape: [512] } },
)
