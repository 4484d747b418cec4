/** Making tensors: from host values, filled, ranges. */
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf, shown } from '../../diagnostics/shown.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { checkDType, type DType, isFloat } from '../../types/dtype.ts'
import { extentsOf, normaliseAxis, type Shape } from '../../types/shape.ts'
import { isScalar, scalarValue, whole } from '../calls/options.ts'
import type { Excess } from '../calls/slicing.ts'
import { currentTrace, named } from '../tensor/core.ts'
import { literalOf, type TensorData, type TensorOptions } from '../tensor/literal.ts'
import { Storage } from '../tensor/storage.ts'
import { many, none, one, type Tensor, type TensorLike, wrap } from '../tensor/tensor.ts'

/**
 * A tensor of host values: a scalar, nested lists or a typed array, copied. Numbers make f32, booleans bool, bigints i64, typed
 * arrays their own dtype, unless `dtype` says otherwise; values convert as casts do. Inside jit it is a literal of the program.
 * @throws E_SHAPE for ragged lists or a `shape` of another size, E_STRUCTURE for a list that holds itself, E_OVERFLOW for very
 * many listed elements, E_DTYPE for a dtype there is not, E_ARGUMENT for elements that are no numbers and options that are none
 * @example
 * tensor([[1, 2], [3, 4]]) // f32[2, 2]
 * tensor(new Uint8Array([1, 2, 3, 4]), { shape: [2, 2] }) // [[1, 2], [3, 4]]
 * tensor([1.9, 300], { dtype: 'u8' }) // [1, 255]
 */
export function tensor(data: TensorData, options: TensorOptions = {}): Tensor {
  const literal = named('tensor', () => literalOf(data, options))
  if (currentTrace() !== undefined) return none('tensor', () => c.constant(literal.data, literal.shape, literal.dtype))
  return wrap({ kind: 'stored', storage: Storage.ofHost(literal.data, literal.shape, literal.dtype) })
}

/**
 * A shape filled with zeros; f32 unless given.
 * @throws E_SHAPE for a shape that is none, E_OVERFLOW for one of more than 2^53 elements, E_DTYPE for a dtype there is not
 * @example zeros([2, 2]) // [[0, 0], [0, 0]]
 */
export const zeros = (shape: Shape, dtype: DType = 'f32', ...rest: Excess): Tensor =>
  none('zeros', () => c.zeros(extentsOf(shape, dtype, ...rest), dtype))
/**
 * A shape filled with ones; f32 unless given.
 * @throws E_SHAPE for a shape that is none, E_OVERFLOW for one of more than 2^53 elements, E_DTYPE for a dtype there is not
 * @example ones([2], 'i32') // [1, 1]
 */
export const ones = (shape: Shape, dtype: DType = 'f32', ...rest: Excess): Tensor =>
  none('ones', () => c.ones(extentsOf(shape, dtype, ...rest), dtype))

/**
 * A shape filled with one value; without a dtype, f32 for numbers, bool for booleans, i64 for bigints.
 * @throws E_SHAPE for a shape that is none, E_OVERFLOW for a value that an integer dtype does not hold or a shape of more than
 * 2^53 elements, E_DTYPE for a dtype there is not, E_ARGUMENT for a value that is none
 * @example full([3], 7) // [7, 7, 7]
 */
export function full(shape: Shape, value: Scalar, dtype?: DType): Tensor {
  const natural = typeof value === 'boolean' ? 'bool' : typeof value === 'bigint' ? 'i64' : 'f32'
  return none('full', () => {
    if (!isScalar(value))
      throw new UserError('E_ARGUMENT', `the value is ${kindOf(value)}`, {
        help: 'give a number, a boolean or a bigint; broadcastTo repeats a tensor',
      })
    return c.full(extentsOf(shape), value, dtype ?? natural)
  })
}

/**
 * Zeros of another tensor's shape and dtype (of a number: of its natural dtype).
 * @throws E_ARGUMENT for what is no tensor or number
 * @example zerosLike(tensor([1, 2])) // [0, 0]
 */
export const zerosLike = (x: TensorLike): Tensor => one('zerosLike', x, (a) => c.scalarLike(a, 0))
/**
 * Ones of another tensor's shape and dtype (of a number: of its natural dtype).
 * @throws E_ARGUMENT for what is no tensor or number
 * @example onesLike(tensor([5, 6], { dtype: 'u8' })) // [1, 1]
 */
export const onesLike = (x: TensorLike): Tensor => one('onesLike', x, (a) => c.scalarLike(a, 1))
/**
 * One value in another tensor's shape and dtype.
 * @throws E_OVERFLOW for a value that an integer dtype does not hold, E_ARGUMENT for what is no tensor or number
 * @example fullLike(tensor([1, 2]), 9) // [9, 9]
 */
export const fullLike = (x: TensorLike, value: Scalar): Tensor =>
  one('fullLike', x, (a) => c.scalarLike(a, scalarValue(value)))

/** Throws E_DTYPE for a dtype that does not count. */
function checkCounts(name: string, dtype: DType): void {
  checkDType(dtype)
  if (dtype === 'bool')
    throw new UserError('E_DTYPE', `${name} of bool`, {
      help: 'give a dtype of numbers, and compare: arange(n).equal(1)',
    })
}

/**
 * start, start + step, ... below stop; `arange(n)` counts from 0 (NumPy's `arange`). One axis; without a dtype, i32 for whole
 * numbers, else f32.
 * @throws E_ARGUMENT for a step of 0 and numbers that are not finite, E_OVERFLOW where an integer dtype does not hold the
 * numbers, E_DTYPE for bool and a dtype there is not
 * @example
 * arange(3) // [0, 1, 2]
 * arange(1, 2, 0.25) // [1, 1.25, 1.5, 1.75]
 */
export function arange(start: number, stop?: number, step = 1, dtype?: DType): Tensor {
  const [from, to] = stop === undefined ? [0, start] : [start, stop]
  const isWhole = [from, to, step].every(Number.isInteger)
  const type = dtype ?? (isWhole ? 'i32' : 'f32')
  return none('arange', () => {
    if (step === 0 || !Number.isFinite(from) || !Number.isFinite(to) || !Number.isFinite(step))
      throw new UserError('E_ARGUMENT', `arange from ${shown(from)} to ${shown(to)} by ${shown(step)}`, {
        help: 'give finite numbers and a step that is not 0',
      })
    const n = Math.max(0, Math.ceil((to - from) / step))
    const wider = `give a dtype that holds them: arange(${from}, ${to}, ${step}, 'i64')`
    checkCounts('arange', type)
    c.checkReached(
      'arange',
      n === 0 ? [] : [from, from + (n - 1) * step],
      type,
      type === 'i64' ? 'use smaller numbers' : wider,
    )
    // The arithmetic of integers wraps, so what fits in the end is right; only the step must be a number of it.
    const work =
      isFloat(type) || [from, step].every((x) => !Number.isInteger(x) || c.fitsInteger(x, type)) ? type : 'i64'
    const index = c.iota([n], 0, work)
    const scaled = step === 1 ? index : c.mul(index, step)
    return c.cast(from === 0 ? scaled : c.add(scaled, from), type)
  })
}

/**
 * `count` values from start to stop, both included, evenly spaced (NumPy's `linspace`). One axis, f32.
 * @throws E_ARGUMENT for numbers that are not finite or a count that is not whole, E_SHAPE for a negative count
 * @example linspace(0, 1, 5) // [0, 0.25, 0.5, 0.75, 1]
 */
export const linspace = (start: number, stop: number, count = 50): Tensor =>
  none('linspace', () => {
    if (!Number.isFinite(start) || !Number.isFinite(stop))
      throw new UserError('E_ARGUMENT', `linspace from ${shown(start)} to ${shown(stop)}`, {
        help: 'give finite numbers',
      })
    return c.add(
      c.mul(c.iota([whole(count, 'the count')], 0, 'f32'), count > 1 ? (stop - start) / (count - 1) : 0),
      start,
    )
  })

/**
 * The index along an axis of a shape; i32 unless given (JAX's `broadcasted_iota`).
 * @throws E_AXIS for an axis there is not, E_SHAPE for a shape that is none, E_OVERFLOW where an integer dtype does not hold
 * the indices, E_DTYPE for bool and a dtype there is not
 * @example iota([2, 3], 1) // [[0, 1, 2], [0, 1, 2]]
 */
export const iota = (shape: Shape, axis: number, dtype: DType = 'i32'): Tensor =>
  none('iota', () => {
    const extents = extentsOf(shape)
    const along = normaliseAxis(axis, extents.length)
    checkCounts('iota', dtype)
    const { hi } = c.positionsIn(extents[along] ?? 0)
    c.checkReached('iota', [hi], dtype, `give a dtype that holds them: iota(shape, ${axis}, 'i64')`)
    return c.iota(extents, along, dtype)
  })

/**
 * Ones on a diagonal of [rows, columns], zeros elsewhere; diagonal 1 is the one above the main (NumPy's `eye`). f32 unless
 * given.
 * @throws E_SHAPE for negative extents, E_ARGUMENT for what are no whole numbers, E_DTYPE for a dtype there is not
 * @example eye(2) // [[1, 0], [0, 1]]
 */
export const eye = (rows: number, columns = rows, diagonal = 0, dtype: DType = 'f32'): Tensor =>
  none('eye', () =>
    c.eye(
      whole(rows, 'the number of rows'),
      whole(columns, 'the number of columns'),
      whole(diagonal, 'the diagonal'),
      dtype,
    ),
  )

function listed(name: string, parts: readonly TensorLike[]): readonly TensorLike[] {
  named(name, () => {
    if (Array.isArray(parts)) return
    throw new UserError('E_ARGUMENT', `its first argument: ${kindOf(parts)}, not a list`, {
      help: 'give a list such as [a, b]',
    })
  })
  return parts
}

/**
 * Tensors joined along an axis they have; their other extents agree. The common dtype.
 * @throws E_SHAPE for other extents or ranks that differ, E_AXIS for an axis there is not, E_ARGUMENT for no tensors and what
 * is no list of them
 * @example concat([tensor([1]), tensor([2, 3])]) // [1, 2, 3]
 */
export const concat = (parts: readonly TensorLike[], axis = 0): Tensor =>
  many('concat', listed('concat', parts), (xs) => c.concat(xs, axis))
/**
 * Tensors of one shape joined along a new axis. The common dtype.
 * @throws E_SHAPE for shapes that differ, E_AXIS for an axis there is not, E_ARGUMENT for no tensors and what is no list of
 * them
 * @example stack([tensor([1, 2]), tensor([3, 4])], 1) // [[1, 3], [2, 4]]
 */
export const stack = (parts: readonly TensorLike[], axis = 0): Tensor =>
  many('stack', listed('stack', parts), (xs) => c.stack(xs, axis))
