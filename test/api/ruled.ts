/** Functions whose derivative rules differ from their derivatives, so that tests see which of the two was used. */
import * as s from '../../src/index.ts'
import { f64, numbers } from './tensors.ts'

export const x = f64([0.3, -1.2, 0.7])
export const xs = numbers(x)

/** A sine whose derivative says it is twice what it is. */
export const sine = s.customJvp(
  function sine(v: s.Tensor): s.Tensor {
    return s.sin(v)
  },
  ([v], [t]) => [s.sin(v), s.cos(v).mul(t).mul(2)],
)
/** A cube of which the rule in reverse mode triples the gradient. */
export const cube = s.customVjp(
  function cube(v: s.Tensor): s.Tensor {
    return v.mul(v).mul(v)
  },
  (v) => [v.mul(v).mul(v), { squared: v.mul(v) }],
  ({ squared }, ct) => [squared.mul(9).mul(ct)],
)
