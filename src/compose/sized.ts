/**
 * Results whose number depends on the data, in room for a given number of them (JAX's `size` and `fill_value`): positions of what is not zero,
 * values that differ. How many there are is a result too.
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import type { Scalar } from '../scalar/ops.ts'
import { isFloat, positionDType } from '../types/dtype.ts'
import { rowMajorStrides, sizeOf } from '../types/shape.ts'
import { expandDims, reshape } from './broadcast.ts'
import { cast, compare, div, logicalAnd, logicalNot, min, rem, sub, truth, unary, where } from './elementwise.ts'
import { scatterElements, take } from './indexing.ts'
import { any, scan } from './reduce.ts'
import { argsort } from './sorting.ts'
import { full, iota, zeros } from './source.ts'
import { concat, moveAxis, sliceAxis } from './views.ts'

/** The elements of a vector behind the first, and those before the last. */
const neighbours = (x: Node, n: number): [Node, Node] => [sliceAxis(x, 0, 1, n), sliceAxis(x, 0, 0, n - 1)]

/** The last element of a vector, as a scalar. */
const last = (x: Node): Node => reshape(sliceAxis(x, 0, (x.shape[0] ?? 1) - 1, x.shape[0] ?? 1), [])

/** Positions that a vector of truth values holds at, and how many. */
export interface Positions {
  /** The first `size` of them, in order; those beyond them are the length of the vector. i32, or i64 where that does not hold the length. */
  readonly positions: Node
  /** All that there are, a scalar of the same dtype: it may be more than `size`. */
  readonly count: Node
}

/** Where a mask [n] holds. */
export function positionsWhere(mask: Node, size: number): Positions {
  const n = mask.shape[0] ?? 0
  const dtype = positionDType({ lo: 0, hi: 2 * n })
  if (n === 0) return { positions: zeros([size], dtype), count: zeros([], dtype) }
  const upTo = scan('sum', cast(mask, dtype), 0)
  // Each writes its own position at its place, and drops where it has none: as many steps at any length.
  const own = iota([n], 0, dtype)
  const places = where(mask, sub(upTo, 1), sub(-1, own))
  const positions = makeNode('scatter', [full([size], n, dtype), own, places], {
    sources: [{ input: 0 }],
    combiner: 'set',
    distinct: true,
  })
  return { positions, count: last(upTo) }
}

/** Coordinates of elements that are not zero. */
export interface NonZero {
  /** One vector [size] for each axis, in row-major order of the elements; `fill` beyond them. */
  readonly indices: readonly Node[]
  /** How many there are, a scalar: it may be more than `size`. */
  readonly count: Node
}

/** The first `size` coordinates of what is not zero (NumPy's nonzero, JAX's with `size`); NaN is not zero. A scalar counts as [1]. */
export function nonzero(x: Node, size: number, fill = 0): NonZero {
  const shape = x.shape.length === 0 ? [1] : x.shape
  const total = sizeOf(shape)
  const { positions, count } = positionsWhere(reshape(truth(x), [total]), size)
  const within = compare('lt', iota([size], 0, count.dtype), count)
  const strides = rowMajorStrides(shape)
  const indices = shape.map((d, a) =>
    where(within, rem(div(positions, Math.max(1, strides[a] ?? 1)), Math.max(1, d)), fill),
  )
  return { indices, count }
}

/** Values of a tensor that differ, with where they are and how often. */
export interface Unique {
  /** [size], or slices along the axis: in order, NaN last; or in the order in which they come first. Beyond them `fill`, or the first of them. */
  readonly values: Node
  /** [size]: where each comes first, in the flattened tensor or along the axis; 0 beyond them. */
  readonly indices: Node
  /** [elements] or [slices]: the place of each one in `values`. */
  readonly inverse: Node
  /** [size]: how often each comes; 0 beyond them. */
  readonly counts: Node
  /** How many there are, a scalar: it may be more than `size`. */
  readonly count: Node
}

/** Options of `unique`. */
export interface UniqueNodeOptions {
  /** By value, unless false: then in the order in which they come first. */
  readonly sorted?: boolean
  /** What stands beyond them; the first of them unless given. */
  readonly fill?: Scalar | undefined
  /** Slices along this axis are compared, by their elements in order, instead of elements. */
  readonly axis?: number | undefined
}

/** Whether rows [n, m] differ from others; zeros of either sign are equal, and so are NaN. */
function differ(a: Node, b: Node): Node {
  const plain = compare('ne', a, b)
  const each = isFloat(a.dtype)
    ? logicalAnd(plain, logicalNot(logicalAnd(unary('isnan', a), unary('isnan', b))))
    : plain
  return any(each, 1)
}

/** The order of rows [n, m] by their elements, the first first: each column sorted, the last one first, where equal ones keep their order. */
function orderOfRows(rows: Node): Node {
  const [n = 0, m = 0] = rows.shape
  let order = iota([n], 0)
  for (let column = m - 1; column >= 0; column--) {
    const keys = take(reshape(sliceAxis(rows, 1, column, column + 1), [n]), order)
    order = take(order, argsort(keys))
  }
  return order
}

/**
 * The first `size` of the values that differ (NumPy's unique, JAX's with `size`). `sorted`: by value, else in the order in which they come first.
 */
export function unique(x: Node, size: number, { sorted = true, fill, axis }: UniqueNodeOptions = {}): Unique {
  const leading = axis === undefined ? reshape(x, [sizeOf(x.shape)]) : moveAxis(x, axis, 0)
  const [n = 0, ...slice] = leading.shape
  const rows = reshape(leading, [n, sizeOf(slice)])
  const back = (y: Node): Node => {
    const shaped = reshape(y, [size, ...slice])
    return axis === undefined ? shaped : moveAxis(shaped, 0, axis)
  }
  if (n === 0 || sizeOf(slice) === 0) {
    const dtype = positionDType({ lo: 0, hi: 0 })
    const none = zeros([size], dtype)
    const found = full([], Math.min(n, 1), dtype)
    const counts = where(compare('lt', iota([size], 0, dtype), found), n, 0)
    return {
      values: back(full([size, sizeOf(slice)], fill ?? 0, x.dtype)),
      indices: none,
      inverse: zeros([n], dtype),
      counts: cast(counts, dtype),
      count: found,
    }
  }
  const order = orderOfRows(rows)
  const inOrder = take(rows, order)
  const first = full([1], true, 'bool')
  const begins = n === 1 ? first : concat([first, differ(...neighbours(inOrder, n))], 0)
  const rank = sub(scan('sum', cast(begins, order.dtype), 0), 1)
  // All of them where their order is another: the first `size` in it may be any in the order of values.
  const room = sorted ? size : n
  // One more than there is room for: the last one ends where that begins.
  const { positions, count } = positionsWhere(begins, room + 1)
  const [ends, starts] = neighbours(cast(positions, order.dtype), room + 1)
  const within = (k: number): Node => compare('lt', iota([k], 0, count.dtype), count)
  const clipped = min(starts, n - 1)
  const firsts = where(within(room), take(order, clipped), 0)
  const counts = where(within(room), sub(ends, starts), 0)
  const inverse = scatterElements(zeros([n], order.dtype), order, rank, 0)
  const valuesAt = (indices: Node): Node =>
    back(
      where(
        expandDims(within(size), 1),
        take(rows, indices),
        fill ?? take(rows, sliceAxis(indices, 0, 0, Math.min(1, size))),
      ),
    )
  if (sorted) return { values: valuesAt(firsts), indices: firsts, inverse, counts, count }
  const byFirst = argsort(where(within(n), firsts, n))
  const place = scatterElements(zeros([n], byFirst.dtype), byFirst, iota([n], 0, byFirst.dtype), 0)
  const chosen = sliceAxis(byFirst, 0, 0, Math.min(size, n))
  const kept = (y: Node): Node => where(within(size), sized(take(y, chosen), size), 0)
  return {
    values: valuesAt(kept(firsts)),
    indices: kept(firsts),
    inverse: take(place, inverse),
    counts: kept(counts),
    count,
  }
}

/** A vector with zeros behind it, up to a length. */
function sized(x: Node, size: number): Node {
  const n = x.shape[0] ?? 0
  return n === size ? x : concat([x, zeros([size - n], x.dtype)], 0)
}
