/** Ops no kernel crosses: users' own kernels and effects. */
import { invariant } from '../../diagnostics/errors.ts'
import { sizeOf } from '../../types/shape.ts'
import type { OpDef } from '../op.ts'
import { identity } from './identity.ts'

export const boundaryOps: { opaque: OpDef<'opaque'>; inspect: OpDef<'inspect'> } = {
  opaque: {
    family: 'boundary',
    boundary: 'opaque',
    arity: { atLeast: 0 },
    infer: (inputs, a) => {
      const r = a.kernel.shapeRule(inputs.map((x) => ({ shape: x.shape, dtype: x.dtype })))
      sizeOf(r.shape)
      return r
    },
    key: (a) => `${identity(a.kernel)}`,
  },
  inspect: {
    family: 'boundary',
    boundary: 'effect',
    arity: { atLeast: 1 },
    infer: ([x]) => {
      invariant(x !== undefined, 'inspect without input')
      return { shape: x.shape, dtype: x.dtype }
    },
    key: (a) => `${identity(a.callback)}`,
  },
}
