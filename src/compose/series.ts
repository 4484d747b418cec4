/** Values along an axis: their differences, and running folds made of pairs. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, isFloat } from '../types/dtype.ts'
import { normaliseAxis, type Shape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { cast, compare, logAddExp, sub } from './elementwise.ts'
import { concat, flip, sliceAxis, stack } from './views.ts'

/** Differences of neighbours along an axis, n times over; of bools, whether they differ (NumPy's diff). Throws E_AXIS, E_ARGUMENT. */
export function diff(x: Node, n = 1, axis = -1): Node {
  if (n < 0)
    throw new UserError('E_ARGUMENT', `differences of order ${n}`, { help: 'give a whole number of at least 0' })
  const a = normaliseAxis(axis, x.shape.length)
  const times = Math.min(n, x.shape[a] ?? 0)
  return Array.from({ length: times }).reduce<Node>((y) => {
    const length = y.shape[a] ?? 0
    const [after, before] = [sliceAxis(y, a, Math.min(1, length), length), sliceAxis(y, a, 0, Math.max(0, length - 1))]
    return y.dtype === 'bool' ? compare('ne', after, before) : sub(after, before)
  }, x)
}

/**
 * The running fold of an associative f along an axis, in 2 log2(n) steps over whole axes: pairs of neighbours are folded, their folds
 * scanned in the same way, and what stands between them follows (G. E. Blelloch, Prefix sums and their applications, 1990).
 */
function associative(f: (a: Node, b: Node) => Node, x: Node, axis: number): Node {
  const n = x.shape[axis] ?? 0
  if (n < 2) return x
  const half = n >> 1
  const odd = associative(f, f(sliceAxis(x, axis, 0, n - 1, 2), sliceAxis(x, axis, 1, n, 2)), axis)
  const first = sliceAxis(x, axis, 0, 1)
  const more = n - half - 1
  const even = more === 0 ? first : concat([first, f(sliceAxis(odd, axis, 0, more), sliceAxis(x, axis, 2, n, 2))], axis)
  const shape: Shape = x.shape.map((d, i) => (i === axis ? 2 * half : d))
  const pairs = reshape(stack([sliceAxis(even, axis, 0, half), odd], axis + 1), shape)
  return n % 2 === 0 ? pairs : concat([pairs, sliceAxis(even, axis, half, half + 1)], axis)
}

/** log(cumsum(exp(x))) along an axis without overflow, and exact where earlier elements are far below later ones. Integers become f32. */
export function logCumSumExp(x: Node, axis: number, options: { readonly reverse?: boolean } = {}): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const result = isFloat(x.dtype) ? x.dtype : 'f32'
  const v = cast(x, computeDType(result))
  const turned = (y: Node): Node => (options.reverse === true ? flip(y, a) : y)
  return cast(turned(associative(logAddExp, turned(v), a)), result)
}
