/** Ops no kernel crosses: users' own kernels and effects. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { allDTypes, type DType } from '../../types/dtype.ts'
import { type Shape, sizeOf } from '../../types/shape.ts'
import type { OpDef } from '../op.ts'
import { identity } from './identity.ts'

/** What a user's shape rule gave. Throws E_ARGUMENT, E_SHAPE, E_OVERFLOW or E_DTYPE for what is no shape with a dtype. */
function checkedResult(
  kernel: string,
  result: { readonly shape: Shape; readonly dtype: DType } | null | undefined,
): { readonly shape: Shape; readonly dtype: DType } {
  const help = "a shape rule gives { shape, dtype }, for instance { shape: [2, 3], dtype: 'f32' }"
  if (!Array.isArray(result?.shape))
    throw new UserError('E_ARGUMENT', `the shape rule of the kernel "${kernel}" gives no shape`, { help })
  const { shape, dtype } = result
  if (!allDTypes.includes(dtype))
    throw new UserError('E_DTYPE', `the shape rule of the kernel "${kernel}" gives the dtype ${String(dtype)}`, {
      help: `use one of ${allDTypes.join(', ')}`,
    })
  sizeOf(shape)
  return { shape, dtype }
}

export const boundaryOps: { opaque: OpDef<'opaque'>; inspect: OpDef<'inspect'> } = {
  opaque: {
    family: 'boundary',
    boundary: 'opaque',
    arity: { atLeast: 0 },
    infer: (inputs, { kernel }) =>
      checkedResult(kernel.name, kernel.shapeRule(inputs.map((x) => ({ shape: x.shape, dtype: x.dtype })))),
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
