/** Views and joins of the reference backend. */
import type { NodeOf } from '../graph/node.ts'
import { rowMajorStrides, type Shape, sizeOf } from '../types/shape.ts'
import { copyStrided, type Place } from './strided.ts'
import { allocate, filled, type RefTensor } from './tensor.ts'

const rowMajor = (shape: Shape, offset = 0): Place => ({ offset, strides: rowMajorStrides(shape) })

/** The tensor of `shape` whose elements stand in x at a place. */
export function readAt(x: RefTensor, shape: Shape, from: Place): RefTensor {
  const data = allocate(x.dtype, sizeOf(shape))
  copyStrided(shape, x.data, from, data, rowMajor(shape))
  return { dtype: x.dtype, shape, data }
}

export const reshape = (x: RefTensor, node: NodeOf<'reshape'>): RefTensor => ({ ...x, shape: node.shape })

export function permute(x: RefTensor, perm: readonly number[]): RefTensor {
  const strides = rowMajorStrides(x.shape)
  const shape = perm.map((p) => x.shape[p] ?? 1)
  return readAt(x, shape, { offset: 0, strides: perm.map((p) => strides[p] ?? 0) })
}

export function broadcast(x: RefTensor, node: NodeOf<'broadcast'>): RefTensor {
  const own = rowMajorStrides(x.shape)
  const strides = node.shape.map((_, axis) => {
    const i = node.attrs.dims.indexOf(axis)
    return i < 0 || x.shape[i] === 1 ? 0 : (own[i] ?? 0)
  })
  return readAt(x, node.shape, { offset: 0, strides })
}

export function slice(x: RefTensor, node: NodeOf<'slice'>): RefTensor {
  const own = rowMajorStrides(x.shape)
  const { start, step } = node.attrs
  const offset = own.reduce((sum, s, i) => sum + s * (start[i] ?? 0), 0)
  return readAt(x, node.shape, { offset, strides: own.map((s, i) => s * (step[i] ?? 1)) })
}

export function flip(x: RefTensor, node: NodeOf<'flip'>): RefTensor {
  const own = rowMajorStrides(x.shape)
  const flipped = new Set(node.attrs.axes)
  const offset = own.reduce((sum, s, i) => sum + (flipped.has(i) ? s * ((x.shape[i] ?? 1) - 1) : 0), 0)
  return readAt(x, node.shape, { offset, strides: own.map((s, i) => (flipped.has(i) ? -s : s)) })
}

/** Element [.., o, k, ..] stands at o*stride + k*dilation along the axis. */
export function slidingWindow(x: RefTensor, node: NodeOf<'window'>): RefTensor {
  const own = rowMajorStrides(x.shape)
  const { axis, stride, dilation } = node.attrs
  const s = own[axis] ?? 0
  const strides = [...own.slice(0, axis), s * stride, s * dilation, ...own.slice(axis + 1)]
  return readAt(x, node.shape, { offset: 0, strides })
}

export function pad(x: RefTensor, node: NodeOf<'pad'>): RefTensor {
  const { low, interior, value } = node.attrs
  const data = filled(node.dtype, sizeOf(node.shape), value)
  const own = rowMajorStrides(node.shape)
  const offset = own.reduce((sum, s, i) => sum + s * (low[i] ?? 0), 0)
  const strides = own.map((s, i) => s * ((interior[i] ?? 0) + 1))
  copyStrided(x.shape, x.data, rowMajor(x.shape), data, { offset, strides })
  return { dtype: node.dtype, shape: node.shape, data }
}

export function concat(inputs: readonly RefTensor[], node: NodeOf<'concat'>): RefTensor {
  const data = allocate(node.dtype, sizeOf(node.shape))
  const strides = rowMajorStrides(node.shape)
  let at = 0
  for (const x of inputs) {
    copyStrided(x.shape, x.data, rowMajor(x.shape), data, { offset: at * (strides[node.attrs.axis] ?? 0), strides })
    at += x.shape[node.attrs.axis] ?? 0
  }
  return { dtype: node.dtype, shape: node.shape, data }
}
