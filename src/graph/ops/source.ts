/** Ops without data inputs: parameters, literals, iota; and counter-based random bits. */
import { UserError } from '../../diagnostics/errors.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import { type Shape, sizeOf } from '../../types/shape.ts'
import type { Node } from '../node.ts'
import type { OpDef } from '../op.ts'

/** The shape, if a tensor may have it. */
function checked(shape: Shape): Shape {
  sizeOf(shape)
  return shape
}

/** What is drawn over a shape from a key. */
function drawn(key: Node | undefined, shape: Shape, dtype: DType): { readonly shape: Shape; readonly dtype: DType } {
  if (key === undefined || key.dtype !== 'u32' || key.shape.length !== 1 || key.shape[0] !== 2)
    throw new UserError('E_ARGUMENT', 'a random key is u32[2]', { help: 'make one with random.key(seed)' })
  return { shape: checked(shape), dtype }
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
  randomMask: OpDef<'randomMask'>
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
    infer: ([key], a) => drawn(key, a.shape, a.dtype),
    key: (a) => `${a.dtype}[${a.shape.join()}]`,
  },
  randomMask: {
    family: 'random',
    arity: 1,
    infer: ([key], a) => {
      if (!Number.isInteger(a.chance) || a.chance < 1 || a.chance > 65535)
        throw new UserError('E_ARGUMENT', `a chance of ${a.chance} in 65536`, {
          help: 'give a whole number from 1 to 65535',
        })
      return drawn(key, a.shape, 'bool')
    },
    key: (a) => `${a.chance}[${a.shape.join()}]`,
  },
}
