/** A program module at fault, with TypeScript that is more than types: no engine may load it by itself. */
import { matmul, program, type Tensor } from 'sinter'

// @ts-expect-error: an enum is more than types.
enum Scale {
  Half = 0.5,
}

const f = ({ x }: { x: Tensor }): Tensor => {
  const scale: number = Scale.Half
  // the call at fault
  return matmul(x, x.mul(scale))
}

export default program(f, { x: { shape: [2, 3] } })
