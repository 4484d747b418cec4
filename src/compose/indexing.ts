/**
 * Data-dependent indexing: take, gathers and scatters. Negative indices count from the end; indices still out of range
 * clamp in a gather and drop in a scatter (docs/numerics.md, "Indices").
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { IndexSource, Node } from '../graph/node.ts'
import type { DType } from '../types/dtype.ts'
import { dtypeBits, holdsInteger, isInteger, positionDType } from '../types/dtype.ts'
import { broadcastShapes, normaliseAxis, type Shape, sameShape, showShape } from '../types/shape.ts'
import { broadcastTo, expandDims, reshape } from './broadcast.ts'
import { add, cast, clip, commonDType, compare, type Operand, scalarLike, where } from './elementwise.ts'
import { sum, total } from './reduce.ts'
import { full, iota, knownNonNegative } from './source.ts'
import { padInterior, selectAt, sliceAxis } from './views.ts'

/** How updates combine with what is there; `set` keeps the last. */
export type ScatterCombiner = 'set' | 'sum' | 'prod' | 'max' | 'min'

/** Index tensors are i32 or i64; negatives wrap once. Throws E_DTYPE. */
export function asIndex(index: Node, extent: number): Node {
  if (!isInteger(index.dtype))
    throw new UserError('E_DTYPE', `an index is ${index.dtype}`, { help: 'use an integer dtype' })
  const wide = dtypeBits(index.dtype) === 64 || index.dtype === 'u32' || !holdsInteger('i32', extent)
  const i = cast(index, wide ? 'i64' : 'i32')
  return knownNonNegative(index) ? i : where(compare('lt', i, 0), add(i, extent), i)
}

/** Spreads `index` (axes already placed) over a shape at the axes from `at`. */
function spread(index: Node, shape: Shape, at: number): Node {
  const head = new Array<number>(at).fill(1)
  const tail = new Array<number>(shape.length - at - index.shape.length).fill(1)
  return broadcastTo(reshape(index, [...head, ...index.shape, ...tail]), shape)
}

/** x at `indices` along an axis: that axis is replaced by the axes of `indices` (NumPy's take). Throws E_AXIS, E_DTYPE. */
export function take(x: Node, indices: Node, axis = 0): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const shape = [...x.shape.slice(0, a), ...indices.shape, ...x.shape.slice(a + 1)]
  const sources = x.shape.map((_, i): IndexSource => {
    if (i === a) return { input: 0 }
    return { axis: i < a ? i : i + indices.shape.length - 1 }
  })
  return makeNode('gather', [x, spread(asIndex(indices, x.shape[a] ?? 0), shape, a)], { shape, sources })
}

/** out[.., p, ..] = x[.., indices[.., p, ..], ..]; other axes broadcast (NumPy's take_along_axis). Throws E_SHAPE. */
export function takeAlongAxis(x: Node, indices: Node, axis: number): Node {
  const a = normaliseAxis(axis, x.shape.length)
  if (indices.shape.length !== x.shape.length)
    throw new UserError(
      'E_SHAPE',
      `indices of shape ${showShape(indices.shape)} for a tensor of shape ${showShape(x.shape)}`,
      {
        help: 'both need the same rank',
      },
    )
  const others = (s: Shape): number[] => s.map((d, i) => (i === a ? 1 : d))
  const shared = broadcastShapes(others(x.shape), others(indices.shape))
  const data = broadcastTo(
    x,
    shared.map((d, i) => (i === a ? (x.shape[a] ?? 0) : d)),
  )
  const shape = shared.map((d, i) => (i === a ? (indices.shape[a] ?? 0) : d))
  const sources = shape.map((_, i): IndexSource => (i === a ? { input: 0 } : { axis: i }))
  return makeNode('gather', [data, broadcastTo(asIndex(indices, x.shape[a] ?? 0), shape)], { shape, sources })
}

/**
 * takeAlongAxis of one index a row (`indices` has extent 1 at the axis), as the sum of the row where its positions equal the
 * index: it needs no random access, so the row need not stand in memory.
 */
export function pickAlongAxis(x: Node, indices: Node, axis: number): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const n = x.shape[a] ?? 0
  const at = clip(asIndex(indices, n), 0, Math.max(0, n - 1))
  const hit = compare('eq', iota(x.shape, a, at.dtype === 'i64' ? 'i64' : 'i32'), broadcastTo(at, x.shape))
  return sum(where(hit, x, 0), a, true)
}

/** The k coordinate tensors in the last axis of `indices`, spread over `points` (leading axes of `indices` first). */
function coordinates(
  x: Node,
  indices: Node,
  points: Shape,
  batchDims: number,
): { tuple: Node[]; sources: IndexSource[] } {
  const k = indices.shape.at(-1)
  const lead = indices.shape.length - 1
  if (batchDims < 0)
    throw new UserError('E_ARGUMENT', `${batchDims} batch axes`, {
      help: 'give 0 or more axes that both tensors begin with',
    })
  if (batchDims <= lead && !sameShape(indices.shape.slice(0, batchDims), x.shape.slice(0, batchDims)))
    throw new UserError(
      'E_SHAPE',
      `indices of shape ${showShape(indices.shape)} and a tensor of shape ${showShape(x.shape)} differ in their batch axes (${batchDims})`,
      { help: 'the batch axes of both have the same extents: broadcast one of them' },
    )
  if (k === undefined || batchDims + k > x.shape.length || batchDims > lead)
    throw new UserError(
      'E_SHAPE',
      `indices of shape ${showShape(indices.shape)} for a tensor of shape ${showShape(x.shape)}`,
      {
        help: 'the last axis of the indices holds one coordinate for each leading axis of the tensor',
      },
    )
  const tuple = Array.from({ length: k }, (_, j) =>
    spread(asIndex(selectAt(indices, -1, j), x.shape[batchDims + j] ?? 0), points, 0),
  )
  const sources = x.shape.map((_, i): IndexSource => {
    if (i < batchDims) return { axis: i }
    return i < batchDims + k ? { input: i - batchDims } : { axis: lead + i - batchDims - k }
  })
  return { tuple, sources }
}

/**
 * out[b, p, ..rest] = x[b, indices[b, p, :], ..rest] for `batchDims` shared leading axes b; the last axis of `indices`
 * holds coordinates (the definition of ONNX GatherND). Throws E_SHAPE, E_DTYPE, E_ARGUMENT.
 */
export function gatherND(x: Node, indices: Node, batchDims = 0): Node {
  const k = indices.shape.at(-1) ?? 0
  const shape = [...indices.shape.slice(0, -1), ...x.shape.slice(Math.max(0, batchDims) + k)]
  const { tuple, sources } = coordinates(x, indices, shape, batchDims)
  return makeNode('gather', [x, ...tuple], { shape, sources })
}

const combiners: ReadonlySet<string> = new Set<ScatterCombiner>(['set', 'sum', 'prod', 'max', 'min'])

/** Throws E_ARGUMENT for a name that callers without types may give. */
function checkCombiner(name: ScatterCombiner): void {
  if (combiners.has(name)) return
  throw new UserError('E_ARGUMENT', `there is no combiner ${JSON.stringify(name)}`, {
    help: `use one of ${[...combiners].join(', ')}`,
  })
}

/** x with updates[p] combined into x[.., indices[p], ..] at the axis, other coordinates those of p (ONNX ScatterElements). Throws E_SHAPE, E_ARGUMENT. */
export function scatterElements(
  x: Node,
  indices: Node,
  updates: Node,
  axis: number,
  combiner: ScatterCombiner = 'set',
): Node {
  checkCombiner(combiner)
  const a = normaliseAxis(axis, x.shape.length)
  if (indices.shape.length !== x.shape.length || !sameShape(indices.shape, updates.shape))
    throw new UserError(
      'E_SHAPE',
      `indices of shape ${showShape(indices.shape)} with updates of shape ${showShape(updates.shape)} for a tensor of shape ${showShape(x.shape)}`,
      { help: 'indices and updates have one shape, of the rank of the tensor' },
    )
  const sources = x.shape.map((_, i): IndexSource => (i === a ? { input: 0 } : { axis: i }))
  return makeNode('scatter', [x, cast(updates, x.dtype), asIndex(indices, x.shape[a] ?? 0)], { sources, combiner })
}

/** x with updates[p, ..rest] combined into x[indices[p, :], ..rest] (ONNX ScatterND). Throws E_SHAPE, E_ARGUMENT. */
export function scatterND(x: Node, indices: Node, updates: Node, combiner: ScatterCombiner = 'set'): Node {
  checkCombiner(combiner)
  const k = indices.shape.at(-1) ?? 0
  const points = [...indices.shape.slice(0, -1), ...x.shape.slice(k)]
  const { tuple, sources } = coordinates(x, indices, points, 0)
  return makeNode('scatter', [x, cast(broadcastTo(updates, points), x.dtype), ...tuple], { sources, combiner })
}

/** Options of `oneHot`: the new axis, the two values, the dtype. */
export interface OneHotOptions {
  readonly axis?: number
  readonly on?: Operand
  readonly off?: Operand
  readonly dtype?: DType
}

/** `on` where the position along a new axis of extent `depth` equals the index, else `off`. Indices out of range give all `off`. */
export function oneHot(indices: Node, depth: number, options: OneHotOptions = {}): Node {
  const at = normaliseAxis(options.axis ?? -1, indices.shape.length + 1)
  const wide = expandDims(indices, at)
  const shape = wide.shape.map((d, i) => (i === at ? depth : d))
  const hit = compare('eq', broadcastTo(wide, shape), iota(shape, at))
  const on = options.on ?? 1
  const off = options.off ?? 0
  const picked = where(hit, on, off)
  return cast(
    picked,
    options.dtype ?? (typeof on === 'object' || typeof off === 'object' ? commonDType([on, off]) : 'f32'),
  )
}

/** The columns of a matrix, and the column where its rows meet a diagonal. */
function alongDiagonal(shape: readonly [number, number], diagonal: number): readonly [Node, Node] {
  const dtype = positionDType({ lo: Math.min(0, diagonal), hi: Math.max(0, ...shape) + Math.max(0, diagonal) })
  return [iota(shape, 1, dtype), add(iota(shape, 0, dtype), dtype === 'i64' ? BigInt(diagonal) : diagonal)]
}

/** bool[rows, columns]: column <= row + diagonal. */
export const triangle = (rows: number, columns: number, diagonal = 0): Node =>
  compare('le', ...alongDiagonal([rows, columns], diagonal))

function lastTwo(x: Node): [number, number] {
  const rows = x.shape.at(-2)
  const columns = x.shape.at(-1)
  if (rows === undefined || columns === undefined)
    throw new UserError('E_SHAPE', `a triangle of shape ${showShape(x.shape)}`, { help: 'the tensor needs two axes' })
  return [rows, columns]
}

/** Zero above the given diagonal of the last two axes. Throws E_SHAPE below rank 2. */
export function tril(x: Node, diagonal = 0): Node {
  return where(broadcastTo(triangle(...lastTwo(x), diagonal), x.shape), x, scalarLike(x, 0))
}

/** Zero below the given diagonal of the last two axes. Throws E_SHAPE below rank 2. */
export function triu(x: Node, diagonal = 0): Node {
  return where(broadcastTo(triangle(...lastTwo(x), diagonal - 1), x.shape), scalarLike(x, 0), x)
}

/** Ones on a diagonal. */
export function eye(rows: number, columns = rows, diagonal = 0, dtype: DType = 'f32'): Node {
  return cast(compare('eq', ...alongDiagonal([rows, columns], diagonal)), dtype)
}

/**
 * The diagonal of the last two axes. Throws E_SHAPE below rank 2. In row-major order its elements are one column and one row apart, so it is
 * a slice with that step: a view, as is its transpose.
 */
export function diagonal(x: Node, offset = 0): Node {
  const [rows, columns] = lastTwo(x)
  const head = x.shape.slice(0, -2)
  const n = Math.max(0, Math.min(rows + Math.min(0, offset), columns - Math.max(0, offset)))
  const flat = reshape(x, [...head, rows * columns])
  if (n === 0) return sliceAxis(flat, -1, 0, 0)
  const start = offset < 0 ? -offset * columns : offset
  return sliceAxis(flat, -1, start, start + (n - 1) * (columns + 1) + 1, columns + 1)
}

/** The sum of a diagonal of the last two axes, in the dtype of sums. Throws E_SHAPE below rank 2. */
export const trace = (x: Node, offset = 0): Node => total(diagonal(x, offset), -1)

/** A square matrix with the last axis of x on a diagonal, zero elsewhere; leading axes stay. Throws E_SHAPE for a scalar. */
export function diagonalMatrix(x: Node, offset = 0): Node {
  const n = x.shape.at(-1)
  if (n === undefined)
    throw new UserError('E_SHAPE', 'the diagonal of a matrix from a scalar', { help: 'give a vector' })
  const head = x.shape.slice(0, -1)
  const m = n + Math.abs(offset)
  const start = offset < 0 ? -offset * m : offset
  if (n === 0) return full([...head, m, m], x.dtype === 'bool' ? false : 0, x.dtype)
  const none = head.map(() => 0)
  const flat = padInterior(x, [...none, start], [...none, m * m - start - n - (n - 1) * m], [...none, m])
  return reshape(flat, [...head, m, m])
}

/** A matrix with a vector on a diagonal, or the diagonal of a matrix (NumPy's diag). Throws E_SHAPE for other ranks. */
export function diag(x: Node, offset = 0): Node {
  if (x.shape.length === 1) return diagonalMatrix(x, offset)
  if (x.shape.length === 2) return diagonal(x, offset)
  throw new UserError('E_SHAPE', `diag of shape ${showShape(x.shape)}`, {
    help: 'give a vector or a matrix; diagonal takes the last two axes of any tensor',
  })
}
