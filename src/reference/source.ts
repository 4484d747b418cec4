/** Sources of the reference backend: literals, iota, random bits. */
import type { NodeOf } from '../graph/node.ts'
import { castScalar, roundTo } from '../scalar/cast.ts'
import { maskElement, randomElement } from '../scalar/threefry.ts'
import { rowMajorStrides, sizeOf } from '../types/shape.ts'
import { allocate, checkRoom, filled, isNarrow, narrow, type RefTensor } from './tensor.ts'

/** Zeroed doubles. Throws E_OVERFLOW. */
function doubles(n: number): Float64Array {
  checkRoom(n)
  return new Float64Array(n)
}

export function full(node: NodeOf<'full'>): RefTensor {
  return { dtype: node.dtype, shape: node.shape, data: filled(node.dtype, sizeOf(node.shape), node.attrs.value) }
}

export function iota(node: NodeOf<'iota'>): RefTensor {
  const { dtype, shape } = node
  const data = allocate(dtype, sizeOf(shape))
  const extent = shape[node.attrs.axis] ?? 1
  const stride = rowMajorStrides(shape)[node.attrs.axis] ?? 1
  for (let i = 0; i < data.length; i++) {
    const v = roundTo(dtype, castScalar(BigInt(Math.floor(i / stride) % extent), 'i64', dtype))
    if (isNarrow(data)) data[i] = Number(v)
    else data[i] = BigInt(v)
  }
  return { dtype, shape, data }
}

export function randomBits(key: RefTensor, node: NodeOf<'randomBits'>): RefTensor {
  const [k0 = 0, k1 = 0] = narrow(key)
  const data = doubles(sizeOf(node.shape))
  for (let i = 0; i < data.length; i++) data[i] = randomElement(node.attrs.dtype, k0, k1, i)
  return { dtype: node.dtype, shape: node.shape, data }
}

export function randomMask(key: RefTensor, node: NodeOf<'randomMask'>): RefTensor {
  const [k0 = 0, k1 = 0] = narrow(key)
  const data = doubles(sizeOf(node.shape))
  for (let i = 0; i < data.length; i++) data[i] = Number(maskElement(node.attrs.chance, k0, k1, i))
  return { dtype: node.dtype, shape: node.shape, data }
}
