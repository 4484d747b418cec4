/** Tensors as text, in NumPy's layout: long axes are cut in the middle. */
import { invariant } from '../../diagnostics/errors.ts'
import { scalarsOf } from '../../scalar/arrays.ts'
import { readElement } from '../../scalar/host.ts'
import type { Scalar } from '../../scalar/ops.ts'
import type { DType } from '../../types/dtype.ts'
import { isFloat } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import { rowMajorStrides, type Shape, sizeOf } from '../../types/shape.ts'

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
  /** The pieces of the text that are still to come, the next one last: text, or what stands at an axis and an offset. */
  const rest: (string | { readonly axis: number; readonly offset: number })[] = [{ axis: 0, offset: 0 }]
  let text = ''
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (typeof next === 'string') {
      text += next
      continue
    }
    const { axis, offset } = next
    const n = shape[axis]
    if (n === undefined) {
      text += showScalar(readElement(data, dtype, offset), dtype)
      continue
    }
    const stride = strides[axis] ?? 1
    const shown = cut && n > 2 * edge
    const at = (i: number) => ({ axis: axis + 1, offset: offset + i * stride })
    const items = Array.from({ length: shown ? edge : n }, (_, i): (typeof rest)[number] => at(i))
    if (shown) items.push('...', ...Array.from({ length: edge }, (_, i) => at(n - edge + i)))
    const between = axis === shape.length - 1 ? ', ' : `,\n${' '.repeat(axis + 1)}`
    text += '['
    rest.push(']')
    for (let i = items.length - 1; i >= 0; i--) {
      const item = items[i]
      if (item !== undefined) rest.push(item)
      if (i > 0) rest.push(between)
    }
  }
  return text
}

/** Elements as lists of lists, one level an axis. */
export type NestedList = Scalar | NestedList[]

/** The elements as nested lists. */
export function nestedList(data: HostArray, dtype: DType, shape: Shape): NestedList {
  // From the innermost axis outwards: the lists of an axis are the items of those around it.
  let lists: NestedList[] = scalarsOf(data, dtype)
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const n = shape[axis] ?? 0
    const inside = lists
    lists = Array.from({ length: sizeOf(shape.slice(0, axis)) }, (_, i) => inside.slice(i * n, (i + 1) * n))
  }
  const [whole] = lists
  invariant(whole !== undefined, 'a tensor is one list')
  return whole
}
