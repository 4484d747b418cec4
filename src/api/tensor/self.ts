/** Functions that are methods of a tensor: the tensor that they are given. */

import { isRevoked } from '../../diagnostics/shown.ts'
import { notOperand } from '../calls/options.ts'
import { named } from './core.ts'
import { Tensor } from './tensor.ts'

/** The tensor whose method a call is. Throws E_ARGUMENT for what is none. */
export function self(name: string, x: Tensor): Tensor {
  const given: unknown = x
  if (!isRevoked(given) && given instanceof Tensor) return given
  return named(name, () => {
    throw notOperand(given)
  })
}
