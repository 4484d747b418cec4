/** Products of tensors as functions: sums of products over axes. */
import type { CovOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { checkOptions, kinds, optionNames } from '../calls/options.ts'
import { self } from '../tensor/self.ts'
import { many, one, type Tensor, type TensorLike, two } from '../tensor/tensor.ts'

/**
 * Matrix product a [..., m, k] times b [..., k, n]: [..., m, n], leading axes broadcast, a vector on either side is a row or a
 * column (NumPy's `matmul`). The common dtype; half precision accumulates in f32.
 * @throws E_SHAPE for inner extents that differ and for scalars, E_ARGUMENT for what is no tensor
 * @example matmul(tensor([[1, 2], [3, 4]]), tensor([[1], [1]])) // [[3], [7]]
 */
export const matmul = (a: Tensor, b: Tensor): Tensor => self('matmul', a).matmul(b)
/**
 * `matmul`, where scalars multiply. The common dtype.
 * @throws E_SHAPE for inner extents that differ, E_ARGUMENT for what is no tensor
 * @example dot(tensor([1, 2]), tensor([3, 4])) // 11
 */
export const dot = (a: Tensor, b: Tensor): Tensor => self('dot', a).dot(b)
/**
 * Products of all pairs of elements, of flattened tensors: [size of a, size of b] (NumPy's `outer`). The common dtype.
 * @throws E_ARGUMENT for what is no tensor
 * @example outer(tensor([1, 2]), tensor([3, 4])) // [[3, 4], [6, 8]]
 */
export const outer = (a: Tensor, b: Tensor): Tensor => two('outer', a, b, (x, y) => c.outer(c.asNode(x), c.asNode(y)))
/** How many axes are summed, or which of each. Throws E_ARGUMENT for what is neither. */
function pairedAxes(axes: number | readonly [readonly number[], readonly number[]]): typeof axes {
  const given: unknown = axes
  const isPair = Array.isArray(given) && given.length === 2 && given.every(Array.isArray)
  const isCount = Number.isSafeInteger(given) && Number(given) >= 0 && Number(given) <= 64
  if (isPair || isCount) return axes
  throw new UserError('E_ARGUMENT', `the axes are ${typeof given === 'number' ? given : kindOf(given)}`, {
    help: 'give the number of axes to sum over, or two lists of them: [[1], [0]]',
  })
}

/**
 * Products summed over pairs of axes: the last n of `a` with the first n of `b`, or two lists of axes; what is left of `a`,
 * then of `b` (NumPy's `tensordot`). The common dtype.
 * @throws E_SHAPE for paired extents that differ, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and no axes
 * @example tensordot(ones([2, 3]), ones([2, 3]), [[0], [0]]) // [[2, 2, 2], [2, 2, 2], [2, 2, 2]]
 */
export const tensordot = (
  a: Tensor,
  b: Tensor,
  axes: number | readonly [readonly number[], readonly number[]] = 2,
): Tensor => two('tensordot', a, b, (x, y) => c.tensordot(c.asNode(x), c.asNode(y), pairedAxes(axes)))
function equation(spec: string): string {
  const given: unknown = spec
  if (typeof given === 'string') return given
  throw new UserError('E_ARGUMENT', `einsum takes an equation first, and got ${kindOf(given)}`, {
    help: "write einsum('ij,jk->ik', a, b)",
  })
}

/**
 * Einstein summation: one letter for each axis, those that the result lacks are summed; a letter that an operand repeats takes its
 * diagonal, and an ellipsis stands for the other axes, which broadcast (NumPy's `einsum`). The common dtype.
 * @throws E_SHAPE for extents of one letter that differ and operands of other ranks, E_ARGUMENT for an equation that is none or of other operands
 * @example
 * einsum('ij,jk->ik', tensor([[1, 2]]), tensor([[3], [4]])) // [[11]]
 * einsum('...ii->...i', tensor([[[1, 2], [3, 4]]])) // [[1, 4]]
 */
export const einsum = (spec: string, ...operands: readonly Tensor[]): Tensor =>
  many('einsum', operands, (xs) => c.einsum(equation(spec), xs))
/**
 * Sums of products over the last axes of both: what is left of `a`, then of `b`; scalars multiply (NumPy's `inner`). The common
 * dtype.
 * @throws E_SHAPE for last extents that differ, E_ARGUMENT for what is no tensor or number
 * @example inner(tensor([[1, 2], [3, 4]]), tensor([1, 1])) // [3, 7]
 */
export const inner = (a: TensorLike, b: TensorLike): Tensor =>
  two('inner', a, b, (x, y) => c.inner(c.asNode(x), c.asNode(y)))
/**
 * The vector product of vectors of three elements along an axis; the other axes broadcast (NumPy's `cross`). The common dtype.
 * @throws E_SHAPE for vectors of another length and shapes that do not broadcast, E_AXIS for an axis there is not, E_ARGUMENT for what
 * is no tensor
 * @example cross(tensor([1, 0, 0]), tensor([0, 1, 0])) // [0, 0, 1]
 */
export const cross = (a: Tensor, b: Tensor, axis = -1): Tensor =>
  two('cross', a, b, (x, y) => c.cross(c.asNode(x), c.asNode(y), axis))
/**
 * The Kronecker product: every element of `a` times all of `b`, block by block; extents multiply (NumPy's `kron`). The common dtype.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example kron(tensor([1, 10]), tensor([1, 2])) // [1, 2, 10, 20]
 */
export const kron = (a: TensorLike, b: TensorLike): Tensor =>
  two('kron', a, b, (x, y) => c.kron(c.asNode(x), c.asNode(y)))

const covOptions = optionNames<CovOptions>('{ rowvar: false }', { rowvar: kinds.flag, correction: kinds.number })

/**
 * The covariances of variables, divided by n - `correction` (1 unless given): rows are variables and columns observations, or the
 * other way round for `rowvar: false` (NumPy's `cov`). A matrix; of a vector of observations the variance, a scalar. A float dtype stays (half
 * precision computes in f32), integers and bools become f32.
 * @throws E_SHAPE for what is no vector and no matrix, E_ARGUMENT for what is no tensor and for options that are none
 * @example cov(tensor([[1, 2, 3], [3, 2, 1]])) // [[1, -1], [-1, 1]]
 */
export const cov = (x: Tensor, options: CovOptions = {}): Tensor =>
  one('cov', x, (a) => {
    checkOptions(options, 'cov', covOptions)
    return c.cov(a, options)
  })
