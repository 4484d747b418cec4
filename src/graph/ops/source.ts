/** Ops without data inputs: parameters, literals, iota; and counter-based random bits. */
import { UserError } from '../../diagnostics/errors.ts'
import type { HostArray } from '../../types/host.ts'
import { type Shape, sizeOf } from '../../types/shape.ts'
import type { OpDef } from '../op.ts'

/** The shape, if a tensor may have it. */
function checked(shape: Shape): Shape {
  sizeOf(shape)
  return shape
}

/** Equal small literals meet in hash-consing by their values; large ones only by being the same array. */
const identities = new WeakMap<object, number>()
let nextIdentity = 1
function dataKey(data: HostArray): string {
  if (data.length > 64) {
    const id = identities.get(data) ?? nextIdentity++
    identities.set(data, id)
    return `#${id}`
  }
  return [...data].map((v) => (Object.is(v, -0) ? '-0' : String(v))).join(',')
}

const scalarKey = (v: number | bigint | boolean): string => (Object.is(v, -0) ? '-0' : String(v))

export const sourceOps: {
  param: OpDef<'param'>
  constant: OpDef<'constant'>
  full: OpDef<'full'>
  iota: OpDef<'iota'>
  randomBits: OpDef<'randomBits'>
} = {
  param: {
    family: 'source',
    arity: 0,
    infer: (_, a) => ({ shape: checked(a.shape), dtype: a.dtype }),
    key: (a) => `${a.index}:${a.dtype}[${a.shape.join()}]`,
  },
  constant: {
    family: 'source',
    arity: 0,
    infer: (_, a) => {
      if (sizeOf(a.shape) !== a.data.length)
        throw new UserError('E_SHAPE', `${a.data.length} values for shape [${a.shape.join(', ')}]`, {
          help: 'the product of the extents is the number of values',
        })
      return { shape: a.shape, dtype: a.dtype }
    },
    key: (a) => `${a.dtype}[${a.shape.join()}]${dataKey(a.data)}`,
  },
  full: {
    family: 'source',
    arity: 0,
    infer: (_, a) => ({ shape: checked(a.shape), dtype: a.dtype }),
    key: (a) => `${a.dtype}[${a.shape.join()}]${scalarKey(a.value)}`,
  },
  iota: {
    family: 'source',
    arity: 0,
    infer: (_, a) => ({ shape: checked(a.shape), dtype: a.dtype }),
    key: (a) => `${a.dtype}[${a.shape.join()}]@${a.axis}`,
  },
  randomBits: {
    family: 'random',
    arity: 1,
    infer: ([key], a) => {
      if (key === undefined || key.dtype !== 'u32' || key.shape.length !== 1 || key.shape[0] !== 2)
        throw new UserError('E_ARGUMENT', 'a random key is u32[2]', { help: 'make one with random.key(seed)' })
      sizeOf(a.shape)
      return { shape: a.shape, dtype: a.dtype }
    },
    key: (a) => `${a.dtype}[${a.shape.join()}]`,
  },
}
