/** Tensors as text, in NumPy's layout: long axes are cut in the middle. */
import { readElement } from '../scalar/host.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import { isFloat } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { rowMajorStrides, type Shape } from '../types/shape.ts'

/** Elements shown at each end of a long axis, and the size from which axes are cut. */
const edge = 3
const cutFrom = 200

function showScalar(v: Scalar, dtype: DType): string {
  if (!isFloat(dtype)) return String(v)
  const x = Number(v)
  if (!Number.isFinite(x)) return String(x)
  if (Object.is(x, -0)) return '-0.0'
  return Number.isInteger(x) && Math.abs(x) < 1e7
    ? x.toFixed(1)
    : String(Number(x.toPrecision(dtype === 'f64' ? 12 : 6)))
}

/** The elements as nested brackets. */
export function formatElements(data: HostArray, dtype: DType, shape: Shape): string {
  const strides = rowMajorStrides(shape)
  const cut = data.length > cutFrom
  const show = (axis: number, offset: number): string => {
    const n = shape[axis]
    if (n === undefined) return showScalar(readElement(data, dtype, offset), dtype)
    const stride = strides[axis] ?? 1
    const at = (i: number): string => show(axis + 1, offset + i * stride)
    const shown = cut && n > 2 * edge
    const parts = Array.from({ length: shown ? edge : n }, (_, i) => at(i))
    if (shown) parts.push('...', ...Array.from({ length: edge }, (_, i) => at(n - edge + i)))
    return axis === shape.length - 1 ? `[${parts.join(', ')}]` : `[${parts.join(`,\n${' '.repeat(axis + 1)}`)}]`
  }
  return show(0, 0)
}

/** Elements as lists of lists, one level an axis. */
export type NestedList = Scalar | NestedList[]

/** The elements as nested lists. */
export function nestedList(data: HostArray, dtype: DType, shape: Shape): NestedList {
  const strides = rowMajorStrides(shape)
  const build = (axis: number, offset: number): NestedList => {
    const n = shape[axis]
    if (n === undefined) return readElement(data, dtype, offset)
    return Array.from({ length: n }, (_, i) => build(axis + 1, offset + i * (strides[axis] ?? 1)))
  }
  return build(0, 0)
}
