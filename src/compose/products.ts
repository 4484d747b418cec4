/** Products of vectors and matrices that are not contractions of their own: inner, cross and Kronecker products, covariance. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, isFloat } from '../types/dtype.ts'
import { normaliseAxis, showShape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { cast, div, mul, sub } from './elementwise.ts'
import { mean } from './reduce.ts'
import { roll, transpose } from './views.ts'

/** Sums of products over the last axes of both: what is left of a, then of b; scalars multiply (NumPy's inner). Throws E_SHAPE. */
export function inner(a: Node, b: Node): Node {
  if (a.shape.length === 0 || b.shape.length === 0) return mul(a, b)
  const [m, n] = [a.shape.at(-1), b.shape.at(-1)]
  if (m !== n)
    throw new UserError(
      'E_SHAPE',
      `inner of ${showShape(a.shape)} and ${showShape(b.shape)}: extents ${m} and ${n} differ`,
      {
        help: 'the last axes of both have one extent',
      },
    )
  const left = a.shape.slice(1).map((_, i) => labelAt(1 + i))
  const right = b.shape.slice(1).map((_, i) => labelAt(1 + left.length + i))
  const summed = labelAt(0)
  return contractLabelled(a, [...left, summed].join(''), b, [...right, summed].join(''), [...left, ...right].join(''))
}

/** The vector product of vectors of three elements along an axis; other axes broadcast. Throws E_SHAPE, E_AXIS. */
export function cross(a: Node, b: Node, axis = -1): Node {
  const [i, j] = [normaliseAxis(axis, a.shape.length), normaliseAxis(axis, b.shape.length)]
  if (a.shape[i] !== 3 || b.shape[j] !== 3)
    throw new UserError('E_SHAPE', `cross of ${showShape(a.shape)} and ${showShape(b.shape)} along axis ${axis}`, {
      help: 'vectors have three elements along the axis',
    })
  const turned = (x: number, y: number): Node => mul(roll(a, x, i), roll(b, y, j))
  return sub(turned(-1, -2), turned(-2, -1))
}

/** Every element of a times all of b, block by block; the one of lower rank gets leading axes (NumPy's kron). */
export function kron(a: Node, b: Node): Node {
  const rank = Math.max(a.shape.length, b.shape.length)
  const long = (x: Node): readonly number[] => [...new Array<number>(rank - x.shape.length).fill(1), ...x.shape]
  const [p, q] = [long(a), long(b)]
  const product = mul(
    reshape(
      a,
      p.flatMap((d) => [d, 1]),
    ),
    reshape(
      b,
      q.flatMap((d) => [1, d]),
    ),
  )
  return reshape(
    product,
    p.map((d, i) => d * (q[i] ?? 1)),
  )
}

/** Options of `cov`. */
export interface CovOptions {
  /** Whether each row is a variable, and each column an observation; so unless false. */
  readonly rowvar?: boolean
  /** Divides by n - correction; 1 unless given. */
  readonly correction?: number
}

/** The covariances of variables (NumPy's cov): a matrix, of one variable a scalar. Half precision computes in f32, integers become f32. Throws E_SHAPE above rank 2. */
export function cov(x: Node, options: CovOptions = {}): Node {
  if (x.shape.length === 0 || x.shape.length > 2)
    throw new UserError('E_SHAPE', `covariances of a tensor of shape ${showShape(x.shape)}`, {
      help: 'give a matrix of variables by observations, or a vector of observations',
    })
  const result = isFloat(x.dtype) ? x.dtype : 'f32'
  const v = cast(x, computeDType(result))
  const rows = x.shape.length === 2 && options.rowvar === false ? transpose(v) : v
  const centred = sub(rows, mean(rows, -1, true))
  const n = rows.shape.at(-1) ?? 0
  return cast(div(inner(centred, centred), Math.max(0, n - (options.correction ?? 1))), result)
}
