/** Shapes: sizes, strides, broadcasting, axis normalisation; every failure is an error with a code. */
import { UserError } from '../diagnostics/errors.ts'
import { kindOf, shown } from '../diagnostics/shown.ts'

/** Extents of a tensor's axes, row-major; a scalar has none. */
export type Shape = readonly number[]

/** Most elements a shape may have: counts and positions stay exact in doubles. What a device can store is less (`Machine.mostBytes`). */
export const maxElements = 2 ** 53

/** Number of elements. Throws E_OVERFLOW beyond `maxElements` and E_SHAPE for a bad extent. */
export function sizeOf(shape: Shape): number {
  let n = 1
  let isEmpty = false
  for (const d of shape) {
    // `Number.isInteger` is a call: this is asked more often than all else.
    if (typeof d !== 'number' || d % 1 !== 0 || d < 0)
      throw new UserError('E_SHAPE', `extent ${shown(d)} in shape ${showShape(shape)} is not a whole number`, {
        help: 'extents are whole numbers of at least 0',
      })
    if (d > maxElements) throw tooMany(shape)
    if (d === 0) isEmpty = true
    n *= d
  }
  if (isEmpty) return 0
  if (n > maxElements || (n === maxElements && !isPowerOfTwo(shape))) throw tooMany(shape)
  return n
}

/** Whether a product is a power of two: of those that come out as 2^53 only that one is exact. */
const isPowerOfTwo = (shape: Shape): boolean => shape.every((d) => Number.isInteger(Math.log2(d)))

const tooMany = (shape: Shape): UserError =>
  new UserError('E_OVERFLOW', `shape ${showShape(shape)} has more than 2^53 elements`, {
    help: 'positions beyond 2^53 are not exact: split the tensor',
  })

/**
 * The extents of what shall be a shape; `rest` are the arguments after it. Throws E_SHAPE for what is no list, numbers one by one among
 * them; `sizeOf` checks the extents.
 */
export function extentsOf(shape: Shape, ...rest: readonly unknown[]): number[] {
  const given: unknown = shape
  if (Array.isArray(given) || (ArrayBuffer.isView(given) && !(given instanceof DataView))) return [...shape]
  const numbers = [given, ...rest].filter((x) => typeof x === 'number')
  throw new UserError('E_SHAPE', `the shape is ${shown(given)}, not a list of extents`, {
    help:
      typeof given === 'number'
        ? `write ${showShape(numbers)}`
        : 'write a list such as [2, 3]; [] is the shape of a scalar',
  })
}

export const showShape = (shape: Shape): string => `[${Array.from(shape, shown).join(', ')}]`

export function sameShape(a: Shape, b: Shape): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Row-major strides in elements. */
export function rowMajorStrides(shape: Shape): number[] {
  const strides = new Array<number>(shape.length).fill(1)
  for (let i = shape.length - 2; i >= 0; i--) strides[i] = (strides[i + 1] ?? 1) * (shape[i + 1] ?? 1)
  return strides
}

/** NumPy broadcasting of two or more shapes. Throws E_SHAPE. */
export function broadcastShapes(...shapes: readonly Shape[]): number[] {
  const rank = Math.max(0, ...shapes.map((s) => s.length))
  const out = new Array<number>(rank).fill(1)
  for (const s of shapes) {
    for (let i = 0; i < s.length; i++) {
      const at = rank - s.length + i
      const d = s[i] ?? 1
      const have = out[at] ?? 1
      if (d === have || d === 1) continue
      if (have !== 1)
        throw new UserError(
          'E_SHAPE',
          `shapes ${shapes.map(showShape).join(' and ')} do not broadcast: ${have} against ${d} on axis ${at}`,
          {
            help: 'each pair of trailing extents must be equal, or one of them 1',
          },
        )
      out[at] = d
    }
  }
  return out
}

/** An axis in [0, rank), counting negatives from the end. Throws E_AXIS. */
export function normaliseAxis(axis: number, rank: number, what = 'axis'): number {
  const given: unknown = axis
  const a = typeof given !== 'number' ? Number.NaN : given < 0 ? given + rank : given
  if (!Number.isInteger(a) || a < 0 || a >= rank)
    throw new UserError(
      'E_AXIS',
      typeof given === 'number' ? `${what} ${given} is out of range for rank ${rank}` : `${what} is ${kindOf(given)}`,
      {
        help: `use an axis from ${-rank} to ${rank - 1}`,
      },
    )
  return a
}

/** Axes as a list: one alone, or several. Throws E_AXIS for what is neither. */
export function axesOf(axes: number | readonly number[]): readonly number[] {
  const given: unknown = axes
  if (typeof given === 'number') return [given]
  if (Array.isArray(given) || (ArrayBuffer.isView(given) && !(given instanceof DataView)))
    return axes as readonly number[]
  throw new UserError('E_AXIS', `the axes are ${typeof given === 'string' ? `"${given}"` : kindOf(given)}`, {
    help: 'give an axis, or a list of axes',
  })
}

/** Distinct axes in ascending order; undefined means all. Throws E_AXIS. */
export function normaliseAxes(axes: number | readonly number[] | undefined, rank: number): number[] {
  if (axes === undefined) return Array.from({ length: rank }, (_, i) => i)
  const list = Array.from(axesOf(axes), (a) => normaliseAxis(a, rank))
  const out = [...new Set(list)].sort((a, b) => a - b)
  if (out.length !== list.length)
    throw new UserError('E_AXIS', `an axis is named twice in [${list.join(', ')}]`, {
      help: 'name each axis once; negatives count from the end',
    })
  return out
}

/** A shape (or one number an axis) with another extent along one axis. */
export const resized = (shape: Shape, axis: number, extent: number): Shape =>
  shape.map((n, i) => (i === axis ? extent : n))
