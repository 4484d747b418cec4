/** Views: ops whose every output element is one input element (or padding) at an index map's coordinates. */
import { InternalError, invariant, UserError } from '../../diagnostics/errors.ts'
import { showShape, sizeOf } from '../../types/shape.ts'
import type { Node } from '../node.ts'
import type { OpDef } from '../op.ts'

const one = (inputs: readonly Node[]): Node => {
  const [x] = inputs
  if (x === undefined) throw new InternalError('a view without input')
  return x
}

export const viewOps: {
  reshape: OpDef<'reshape'>
  permute: OpDef<'permute'>
  broadcast: OpDef<'broadcast'>
  slice: OpDef<'slice'>
  flip: OpDef<'flip'>
  pad: OpDef<'pad'>
  concat: OpDef<'concat'>
  window: OpDef<'window'>
} = {
  reshape: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      if (sizeOf(a.shape) !== sizeOf(x.shape))
        throw new UserError('E_SHAPE', `cannot reshape ${showShape(x.shape)} to ${showShape(a.shape)}: sizes differ`, {
          help: 'the sizes must be equal; one extent may be -1, which stands for what is left',
        })
      return { shape: a.shape, dtype: x.dtype }
    },
    key: (a) => a.shape.join(),
  },
  permute: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      const seen = new Set(a.perm)
      if (
        a.perm.length !== x.shape.length ||
        seen.size !== a.perm.length ||
        a.perm.some((p) => x.shape[p] === undefined)
      )
        throw new UserError('E_AXIS', `[${a.perm.join(', ')}] is no permutation of the axes of ${showShape(x.shape)}`, {
          help: 'name every axis once, from 0',
        })
      return { shape: a.perm.map((p) => x.shape[p] ?? 0), dtype: x.dtype }
    },
    key: (a) => a.perm.join(),
  },
  broadcast: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      sizeOf(a.shape)
      const ok =
        a.dims.length === x.shape.length &&
        new Set(a.dims).size === a.dims.length &&
        a.dims.every((d, i) => a.shape[d] !== undefined && (x.shape[i] === a.shape[d] || x.shape[i] === 1))
      if (!ok)
        throw new UserError('E_SHAPE', `cannot broadcast ${showShape(x.shape)} to ${showShape(a.shape)}`, {
          help: 'each trailing extent must be equal to the target, or 1',
        })
      return { shape: a.shape, dtype: x.dtype }
    },
    key: (a) => `${a.shape.join()}<${a.dims.join()}`,
  },
  slice: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      const shape = x.shape.map((n, i) => {
        const start = a.start[i] ?? 0
        const limit = a.limit[i] ?? n
        const step = a.step[i] ?? 1
        if (start < 0 || limit > n || step < 1 || !Number.isInteger(step) || start > limit)
          throw new UserError(
            'E_INDEX',
            `slice ${start}:${limit}:${step} is out of range on axis ${i} of ${showShape(x.shape)}`,
            { help: 'start and end lie within the axis' },
          )
        return Math.ceil((limit - start) / step)
      })
      return { shape, dtype: x.dtype }
    },
    key: (a) => `${a.start.join()}:${a.limit.join()}:${a.step.join()}`,
  },
  flip: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      invariant(
        a.axes.every((d) => x.shape[d] !== undefined),
        'flip of a missing axis',
      )
      return { shape: x.shape, dtype: x.dtype }
    },
    key: (a) => a.axes.join(),
  },
  pad: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      const shape = x.shape.map(
        (n, i) => (a.low[i] ?? 0) + (a.high[i] ?? 0) + n + Math.max(0, n - 1) * (a.interior[i] ?? 0),
      )
      if ([...a.low, ...a.high, ...a.interior].some((v) => v < 0 || !Number.isInteger(v)))
        throw new UserError('E_ARGUMENT', 'padding must be whole and not negative', { help: 'slice to crop' })
      sizeOf(shape)
      return { shape, dtype: x.dtype }
    },
    key: (a) =>
      `${a.low.join()}|${a.high.join()}|${a.interior.join()}|${Object.is(a.value, -0) ? '-0' : String(a.value)}`,
  },
  concat: {
    family: 'view',
    arity: { atLeast: 1 },
    infer: (inputs, a) => {
      const first = one(inputs)
      let total = 0
      for (const x of inputs) {
        if (x.dtype !== first.dtype)
          throw new UserError('E_DTYPE', `concat of ${first.dtype} and ${x.dtype}`, {
            help: 'cast them to one dtype with astype',
          })
        if (x.shape.length !== first.shape.length || x.shape.some((d, i) => i !== a.axis && d !== first.shape[i]))
          throw new UserError(
            'E_SHAPE',
            `concat of ${showShape(first.shape)} and ${showShape(x.shape)} along axis ${a.axis}`,
            { help: 'the other axes must have equal extents' },
          )
        total += x.shape[a.axis] ?? 0
      }
      const shape = first.shape.map((d, i) => (i === a.axis ? total : d))
      sizeOf(shape)
      return { shape, dtype: first.dtype }
    },
    key: (a) => String(a.axis),
  },
  window: {
    family: 'view',
    arity: 1,
    infer: (inputs, a) => {
      const x = one(inputs)
      const n = x.shape[a.axis] ?? 0
      const span = (a.size - 1) * a.dilation + 1
      if (a.size < 1 || a.stride < 1 || a.dilation < 1)
        throw new UserError('E_ARGUMENT', `a window of size ${a.size}, stride ${a.stride}, dilation ${a.dilation}`, {
          help: 'size, stride and dilation are at least 1',
        })
      if (span > n)
        throw new UserError(
          'E_SHAPE',
          `a window spanning ${span} does not fit axis ${a.axis} of ${showShape(x.shape)}`,
          { help: 'take a smaller window or dilation, or pad the axis first' },
        )
      const count = Math.floor((n - span) / a.stride) + 1
      return { shape: [...x.shape.slice(0, a.axis), count, a.size, ...x.shape.slice(a.axis + 1)], dtype: x.dtype }
    },
    key: (a) => `${a.axis}:${a.size}:${a.stride}:${a.dilation}`,
  },
}
