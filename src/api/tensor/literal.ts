/** Host values as tensors: nested lists, typed arrays and scalars to row-major host arrays with a shape and a dtype. */
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { fromNumbers } from '../../scalar/arrays.ts'
import { castScalar } from '../../scalar/cast.ts'
import { writeElement } from '../../scalar/host.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { checkDType, type DType } from '../../types/dtype.ts'
import { type HostArray, hostArray } from '../../types/host.ts'
import { extentsOf, type Shape, showShape, sizeOf } from '../../types/shape.ts'
import { checkOptions, kinds, optionNames } from '../calls/options.ts'

/** What a tensor can be made of. */
export type TensorData = Scalar | readonly TensorData[] | HostArray | Uint8ClampedArray

/** Options of `tensor`. */
export interface TensorOptions {
  /** Row-major shape; without it, the nesting of the data. */
  readonly shape?: Shape
  /** Element type; without it: f32 for numbers, bool for booleans, i64 for bigints, a typed array's own. */
  readonly dtype?: DType
}

const tensorOptions = optionNames<TensorOptions>("{ dtype: 'i32' }", { shape: kinds.anything, dtype: kinds.anything })

/** A host value as a row-major array with its type. */
export interface Literal {
  readonly data: HostArray
  readonly shape: Shape
  readonly dtype: DType
}

const isTyped = (x: TensorData): x is HostArray | Uint8ClampedArray =>
  ArrayBuffer.isView(x) && !((x as unknown) instanceof DataView)
const isList = (x: TensorData): x is readonly TensorData[] => Array.isArray(x)

const naturalDType: Readonly<Record<string, DType>> = {
  Float32Array: 'f32',
  Float64Array: 'f64',
  Int8Array: 'i8',
  Int16Array: 'i16',
  Int32Array: 'i32',
  BigInt64Array: 'i64',
  Uint8Array: 'u8',
  Uint8ClampedArray: 'u8',
  Uint16Array: 'u16',
  Uint32Array: 'u32',
  BigUint64Array: 'u64',
}

/** Most levels of nested lists, and most elements: lists may share parts, so that few of them hold very many elements. */
const maxDepth = 64
const maxListed = 2 ** 26

/** The shape of nested lists, after their first rows. Throws E_STRUCTURE, E_OVERFLOW. */
function shapeOfLists(data: TensorData): number[] {
  const shape: number[] = []
  for (let x = data; isList(x) || isTyped(x); x = x[0] ?? 0) {
    if (shape.length === maxDepth)
      throw new UserError('E_STRUCTURE', `the list is nested deeper than ${maxDepth} or holds itself`, {
        help: 'give lists of numbers, one level an axis',
      })
    shape.push(x.length)
    if (x.length === 0) break
  }
  if (shape.reduce((n, d) => n * Math.max(1, d), 1) > maxListed)
    throw new UserError(
      'E_OVERFLOW',
      `nested lists of shape ${showShape(shape)} hold more than ${maxListed} elements`,
      {
        help: 'give a typed array, and its shape in the options',
      },
    )
  return shape
}

/** Writes out nested lists of numbers; false where they hold anything else or are ragged. */
function writeNumbers(data: TensorData, shape: Shape, out: Float32Array | Float64Array): boolean {
  let at = 0
  const walk = (x: TensorData, depth: number): boolean => {
    if ((!isList(x) && !isTyped(x)) || x.length !== shape[depth]) return false
    const n = x.length
    if (depth + 1 < shape.length) {
      for (let i = 0; i < n; i++) if (!walk(x[i] as TensorData, depth + 1)) return false
      return true
    }
    for (let i = 0; i < n; i++) {
      const v = x[i]
      if (typeof v !== 'number') return false
      out[at++] = v
    }
    return true
  }
  return walk(data, 0)
}

/** The elements of nested lists. Throws E_SHAPE when they are ragged. */
function flattened(data: TensorData, shape: Shape): Scalar[] {
  const flat: Scalar[] = []
  const walk = (x: TensorData, depth: number): void => {
    if (isList(x) || isTyped(x)) {
      if (x.length !== shape[depth]) throw ragged(shape)
      for (const y of x) walk(y, depth + 1)
    } else {
      if (depth !== shape.length) throw ragged(shape)
      if (typeof x !== 'number' && typeof x !== 'bigint' && typeof x !== 'boolean') throw notElement(x, depth)
      flat.push(x)
    }
  }
  walk(data, 0)
  return flat
}

function notElement(x: unknown, depth: number): UserError {
  const what = kindOf(x)
  const help =
    what === 'a Promise'
      ? 'await it first'
      : what !== 'a Tensor'
        ? 'elements are numbers, bigints or booleans'
        : depth === 0
          ? 'it is a tensor already; astype converts one, reshape gives it another shape'
          : 'stack([a, b]) and concat([a, b]) join tensors'
  return new UserError('E_ARGUMENT', depth === 0 ? `the data is ${what}` : `an element is ${what}`, { help })
}

const ragged = (shape: readonly number[]): UserError =>
  new UserError('E_SHAPE', `ragged lists: the first rows give shape ${showShape(shape)}, others differ`, {
    help: 'pad the rows to one length',
  })

function naturalOf(flat: readonly Scalar[]): DType {
  const [first] = flat
  if (typeof first === 'boolean' && flat.every((v) => typeof v === 'boolean')) return 'bool'
  return typeof first === 'bigint' && flat.every((v) => typeof v === 'bigint') ? 'i64' : 'f32'
}

const hostDType = (v: Scalar): DType => (typeof v === 'boolean' ? 'bool' : typeof v === 'bigint' ? 'i64' : 'f64')

function encode(values: readonly Scalar[], dtype: DType): HostArray {
  const out = hostArray(dtype, values.length)
  values.forEach((v, i) => {
    writeElement(out, dtype, i, castScalar(v, hostDType(v), dtype))
  })
  return out
}

/** A typed array's elements in another dtype. */
const converted = (data: HostArray | Uint8ClampedArray, dtype: DType): HostArray =>
  data instanceof BigInt64Array || data instanceof BigUint64Array ? encode([...data], dtype) : fromNumbers(data, dtype)

/**
 * A copy of host values. Values convert as casts do. Throws E_SHAPE for ragged lists or a shape of another size,
 * E_STRUCTURE for lists nested too deep or in a circle, E_OVERFLOW for very many listed elements.
 */
export function literalOf(data: TensorData, options: TensorOptions = {}): Literal {
  checkOptions(options, 'tensor', tensorOptions)
  if (options.dtype !== undefined) checkDType(options.dtype)
  if (isTyped(data)) {
    const natural = naturalDType[data.constructor.name] ?? 'f32'
    const dtype = options.dtype ?? natural
    const values = dtype === natural && !(data instanceof Uint8ClampedArray) ? data.slice() : converted(data, dtype)
    return shaped(values, options.shape ?? [data.length], dtype)
  }
  const shape = shapeOfLists(data)
  const isSingle = (options.dtype ?? 'f32') === 'f32'
  const numbers = isSingle ? new Float32Array(sizeOf(shape)) : new Float64Array(sizeOf(shape))
  if (writeNumbers(data, shape, numbers)) {
    const dtype = options.dtype ?? 'f32'
    return shaped(isSingle ? numbers : fromNumbers(numbers, dtype), options.shape ?? shape, dtype)
  }
  const flat = flattened(data, shape)
  const dtype = options.dtype ?? naturalOf(flat)
  return shaped(encode(flat, dtype), options.shape ?? shape, dtype)
}

function shaped(data: HostArray, given: Shape, dtype: DType): Literal {
  const shape = extentsOf(given)
  if (sizeOf(shape) !== data.length)
    throw new UserError('E_SHAPE', `${data.length} values for shape ${showShape(shape)}`, {
      help: `the shape holds ${sizeOf(shape)}`,
    })
  return { data, shape, dtype }
}
