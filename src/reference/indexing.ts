/** Gather and scatter of the reference backend. */
import type { IndexSource, NodeOf } from '../graph/node.ts'
import { rowMajorStrides, type Shape, sizeOf } from '../types/shape.ts'
import { combineNarrow, combineWide, roundedResult } from './reduction.ts'
import { allocate, isNarrow, type RefData, type RefTensor, type Rounding } from './tensor.ts'

/** Coordinate i of an index tensor in [0, extent): clamped, or -1 where out of range and `drop`. */
function coordinate(data: RefData, i: number, extent: number, drop: boolean): number {
  const v = data[i] ?? 0
  if (v >= 0 && v < extent) return Number(v)
  if (drop) return -1
  return v < 0 ? 0 : extent - 1
}

/** Row-major position in a tensor of `shape` for each point of `points`; -1 for dropped ones. */
function positions(
  points: Shape,
  sources: readonly IndexSource[],
  indices: readonly RefTensor[],
  shape: Shape,
  drop: boolean,
): Float64Array {
  const n = sizeOf(points)
  const out = new Float64Array(n)
  const strides = rowMajorStrides(shape)
  const pointStrides = rowMajorStrides(points)
  sources.forEach((source, d) => {
    const stride = strides[d] ?? 0
    const extent = shape[d] ?? 0
    const index = 'input' in source ? indices[source.input]?.data : undefined
    const step = 'axis' in source ? (pointStrides[source.axis] ?? 1) : 1
    const span = 'axis' in source ? (points[source.axis] ?? 1) : 1
    for (let p = 0; p < n; p++) {
      const at = out[p] ?? 0
      if (at < 0) continue
      const c = index === undefined ? Math.floor(p / step) % span : coordinate(index, p, extent, drop)
      out[p] = c < 0 ? -1 : at + c * stride
    }
  })
  return out
}

export function gather(inputs: readonly RefTensor[], x: RefTensor, node: NodeOf<'gather'>): RefTensor {
  const { shape, dtype, attrs } = node
  const at = positions(shape, attrs.sources, inputs.slice(1), x.shape, false)
  const data = allocate(dtype, at.length)
  if (isNarrow(data) && isNarrow(x.data)) for (let p = 0; p < at.length; p++) data[p] = x.data[at[p] ?? 0] ?? 0
  else if (!isNarrow(data) && !isNarrow(x.data)) for (let p = 0; p < at.length; p++) data[p] = x.data[at[p] ?? 0] ?? 0n
  return { dtype, shape, data }
}

export function scatter(
  inputs: readonly RefTensor[],
  x: RefTensor,
  updates: RefTensor,
  node: NodeOf<'scatter'>,
  rounding: Rounding,
): RefTensor {
  const { dtype, shape } = node
  const { combiner, sources } = node.attrs
  const at = positions(updates.shape, sources, inputs.slice(2), shape, true)
  const data = x.data.slice()
  const from = updates.data
  if (isNarrow(data) && isNarrow(from)) {
    const f = combiner === 'set' ? undefined : combineNarrow(combiner, dtype, rounding)
    for (let p = 0; p < at.length; p++) {
      const to = at[p] ?? -1
      if (to < 0) continue
      const v = from[p] ?? 0
      data[to] = f === undefined ? v : roundedResult(dtype, f(data[to] ?? 0, v), rounding)
    }
  } else if (!isNarrow(data) && !isNarrow(from)) {
    const f = combiner === 'set' ? undefined : combineWide(combiner, dtype)
    for (let p = 0; p < at.length; p++) {
      const to = at[p] ?? -1
      if (to < 0) continue
      const v = from[p] ?? 0n
      data[to] = f === undefined ? v : f(data[to] ?? 0n, v)
    }
  }
  return { dtype, shape, data }
}
