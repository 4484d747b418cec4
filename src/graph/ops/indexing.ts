/** Data-dependent indexing: gather and scatter at points given by index tensors. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { sameShape, showShape, sizeOf } from '../../types/shape.ts'
import type { IndexSource, Node } from '../node.ts'
import type { OpDef } from '../op.ts'

const sourcesKey = (s: readonly IndexSource[]): string =>
  s.map((x) => ('axis' in x ? `a${x.axis}` : `i${x.input}`)).join()

function checkIndices(
  indices: readonly Node[],
  shape: readonly number[],
  sources: readonly IndexSource[],
  of: readonly number[],
): void {
  invariant(sources.length === of.length, 'one index source per axis')
  for (const i of indices) {
    if (i.dtype !== 'i32' && i.dtype !== 'i64')
      throw new UserError('E_DTYPE', `an index is ${i.dtype}`, { help: 'use i32 or i64' })
    if (!sameShape(i.shape, shape))
      throw new UserError('E_SHAPE', `index of shape ${showShape(i.shape)} for points of shape ${showShape(shape)}`)
  }
  for (const [d, s] of sources.entries()) {
    const points = 'axis' in s ? shape[s.axis] : 0
    invariant(
      'axis' in s ? points !== undefined : indices[s.input] !== undefined,
      'an index source names what is not there',
    )
    if ((points ?? 0) > (of[d] ?? 0))
      throw new UserError(
        'E_SHAPE',
        `points of shape ${showShape(shape)} go beyond axis ${d} of a tensor of shape ${showShape(of)}`,
        { help: 'along axes without indices, points are at most as many as the tensor has' },
      )
  }
}

export const indexingOps: { gather: OpDef<'gather'>; scatter: OpDef<'scatter'> } = {
  gather: {
    family: 'gather',
    arity: { atLeast: 1 },
    infer: ([x, ...indices], a) => {
      invariant(x !== undefined, 'gather without input')
      checkIndices(indices, a.shape, a.sources, x.shape)
      if (sizeOf(x.shape) === 0 && sizeOf(a.shape) > 0)
        throw new UserError('E_INDEX', `gather from an empty tensor ${showShape(x.shape)}`, {
          help: 'there is nothing to take from it: test its shape first',
        })
      return { shape: a.shape, dtype: x.dtype }
    },
    key: (a) => `${a.shape.join()}@${sourcesKey(a.sources)}`,
  },
  scatter: {
    family: 'scatter',
    arity: { atLeast: 2 },
    boundary: 'scatter',
    infer: ([x, updates, ...indices], a) => {
      invariant(x !== undefined && updates !== undefined, 'scatter without inputs')
      if (x.dtype !== updates.dtype)
        throw new UserError('E_DTYPE', `scatter of ${updates.dtype} into ${x.dtype}`, {
          help: 'cast the updates with astype',
        })
      if (x.dtype === 'bool' && (a.combiner === 'sum' || a.combiner === 'prod'))
        throw new UserError('E_DTYPE', `a scatter of bool with ${a.combiner}`, {
          help: 'cast to an integer dtype, or scatter with max or min',
        })
      checkIndices(indices, updates.shape, a.sources, x.shape)
      return { shape: x.shape, dtype: x.dtype }
    },
    key: (a) =>
      `${a.combiner}${a.distinct === true ? '!' : ''}${a.covers === true ? '!' : ''}@${sourcesKey(a.sources)}`,
  },
}
