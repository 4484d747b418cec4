/** A program module at fault. */
import { matmul, program } from 'sinter'

const f = ({ x }) => {
  // the call at fault
  return matmul(x, x.mul(0.5))
}

export default program(f, { x: { shape: [2, 3] } })
