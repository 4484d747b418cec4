/** Contraction: an einsum of two operands over single-letter axis labels. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { showShape } from '../../types/shape.ts'
import type { OpDef } from '../op.ts'

/** Extents by label. Throws E_SHAPE where the operands disagree. */
export function labelExtents(
  lhs: string,
  lhsShape: readonly number[],
  rhs: string,
  rhsShape: readonly number[],
): Map<string, number> {
  const out = new Map<string, number>()
  const take = (labels: string, shape: readonly number[]): void => {
    if (labels.length !== shape.length)
      throw new UserError('E_SHAPE', `labels "${labels}" for an operand of shape ${showShape(shape)}`)
    for (const [i, d] of shape.entries()) {
      const l = labels.charAt(i)
      const have = out.get(l)
      if (have !== undefined && have !== d)
        throw new UserError(
          'E_SHAPE',
          `the contracted extents ${have} and ${d} differ in ${showShape(lhsShape)} x ${showShape(rhsShape)}`,
          { help: 'the inner extents of a matrix product must agree' },
        )
      out.set(l, d)
    }
  }
  take(lhs, lhsShape)
  take(rhs, rhsShape)
  return out
}

export const contractionOps: { contract: OpDef<'contract'> } = {
  contract: {
    family: 'contraction',
    arity: 2,
    infer: ([a, b], attrs) => {
      invariant(a !== undefined && b !== undefined, 'a contraction without operands')
      if (a.dtype !== b.dtype)
        throw new UserError('E_DTYPE', `contraction of ${a.dtype} and ${b.dtype}`, { help: 'cast one of them' })
      if (a.dtype === 'bool')
        throw new UserError('E_DTYPE', 'a contraction of bool', { help: 'cast to a numeric dtype' })
      for (const s of [attrs.lhs, attrs.rhs, attrs.out])
        if (new Set(s).size !== s.length) throw new UserError('E_ARGUMENT', `a label repeats in "${s}"`)
      const extents = labelExtents(attrs.lhs, a.shape, attrs.rhs, b.shape)
      const shape = [...attrs.out].map((l) => {
        const d = extents.get(l)
        if (d === undefined) throw new UserError('E_ARGUMENT', `output label "${l}" is in neither operand`)
        return d
      })
      return { shape, dtype: a.dtype }
    },
    key: (a) => `${a.lhs},${a.rhs}>${a.out}${a.precision === undefined ? '' : ` ${a.precision}`}`,
  },
}
