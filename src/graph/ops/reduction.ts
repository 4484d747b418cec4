/** Reductions and scans: one mechanism, a combiner over one or several axes. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { isArgCombiner } from '../../scalar/ops.ts'
import { holdsInteger } from '../../types/dtype.ts'
import { showShape } from '../../types/shape.ts'
import type { OpDef } from '../op.ts'

export const reductionOps: { reduce: OpDef<'reduce'>; scan: OpDef<'scan'> } = {
  reduce: {
    family: 'reduction',
    arity: 1,
    infer: ([x], a) => {
      invariant(x !== undefined, 'reduce without input')
      if (x.dtype === 'bool' && (a.combiner === 'sum' || a.combiner === 'prod'))
        throw new UserError('E_DTYPE', `${a.combiner} of bool`, { help: 'cast to an integer dtype, or use any/all' })
      invariant(
        a.axes.every((d) => x.shape[d] !== undefined),
        'reduce over a missing axis',
      )
      const shape = x.shape.filter((_, i) => !a.axes.includes(i))
      if (!isArgCombiner(a.combiner)) return { shape, dtype: x.dtype }
      const n = x.shape[a.axes[0] ?? 0]
      if (a.axes.length !== 1)
        throw new UserError('E_AXIS', `${a.combiner} takes one axis`, { help: 'name one axis, or flatten first' })
      if (n === 0)
        throw new UserError('E_SHAPE', `${a.combiner} over an empty axis of ${showShape(x.shape)}`, {
          help: 'it has no elements, so no result: test its shape first',
        })
      const dtype = a.dtype ?? 'i32'
      if (n !== undefined && !holdsInteger(dtype, n - 1))
        throw new UserError('E_DTYPE', `positions of ${a.combiner} over ${n} elements as ${dtype}`, { help: 'use i64' })
      return { shape, dtype }
    },
    key: (a) => `${a.combiner}${a.axes.join()}${a.dtype ?? ''}${a.last === true ? 'L' : ''}`,
  },
  scan: {
    family: 'scan',
    arity: 1,
    infer: ([x], a) => {
      invariant(x !== undefined && x.shape[a.axis] !== undefined, 'scan over a missing axis')
      if (x.dtype === 'bool') throw new UserError('E_DTYPE', 'a scan of bool', { help: 'cast to an integer dtype' })
      return { shape: x.shape, dtype: x.dtype }
    },
    key: (a) =>
      `${a.combiner}${a.axis}${a.reverse ? 'R' : ''}${a.exclusive ? 'X' : ''}${a.chunk === undefined ? '' : `C${a.chunk}`}${a.tree === true ? 'T' : ''}`,
  },
}
