/** `associativeScan`: running folds by any associative function, in a logarithmic number of steps over whole axes. */
import { UserError } from '../../diagnostics/errors.ts'
import { normaliseAxis } from '../../types/shape.ts'
import { checkTransform, kinds, optionNames } from '../calls/options.ts'
import type { SliceArgument } from '../calls/slicing.ts'
import { concat, stack } from '../ops/creation.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { describe, rebuildTree, TensorSpec, type TreeSpec } from '../tensor/tree.ts'
import { argumentsOf, taker } from './apply.ts'
import { expectSame } from './bodies.ts'

/** Options of `associativeScan`. */
export interface AssociativeScanOptions {
  /** The axis to run along, in every tensor; 0 unless given. */
  readonly axis?: number
  /** Run from the last element to the first. */
  readonly reverse?: boolean
}

const scanOptions = optionNames<AssociativeScanOptions>('{ axis: 1 }', { axis: kinds.whole, reverse: kinds.flag })

/** Every other element of an axis, or a range of it. */
function along(x: Tensor, axis: number, start: number, stop: number, step = 1): Tensor {
  return x.slice(...new Array<SliceArgument>(axis).fill(null), [start, stop, step])
}

/**
 * The running fold of f along an axis: element i of the result is f(...f(f(x0, x1), x2)..., xi) (JAX's `associative_scan`). f
 * takes two trees of tensors, of any length along the axis, and combines them element by element along it; it must be
 * associative, since pairs are combined in another order: twice log2(n) calls, about 2n combinations. Shapes and dtypes of
 * `xs`. Differentiable where f is.
 * @throws E_STRUCTURE, E_SHAPE, E_DTYPE for an f that gives another type than it takes, E_SHAPE for tensors of different
 * lengths, E_AXIS for an axis there is not, E_ARGUMENT without tensors and for what is no function
 * @example associativeScan((a: Tensor, b: Tensor) => a.mul(b), tensor([1, 2, 3, 4])) // [1, 2, 6, 24]
 */
export function associativeScan<T>(f: (a: T, b: T) => T, xs: T, options: AssociativeScanOptions = {}): T {
  const name = 'associativeScan'
  named(name, () => checkTransform(name, f, options, scanOptions))
  const [given] = argumentsOf(name, [xs])
  if (given === undefined) return xs
  const { tree, leaves, tensors } = given
  const axes = named(name, () => tensors.map((t) => normaliseAxis(options.axis ?? 0, t.rank)))
  const lengthOf = (i: number): number => tensors[i]?.shape[axes[i] ?? 0] ?? 0
  const n = lengthOf(0)
  named(name, () => {
    if (tensors.length === 0)
      throw new UserError('E_ARGUMENT', 'there are no tensors to scan', { help: 'pass a tensor, or a tree of them' })
    const other = leaves.findIndex((_, i) => lengthOf(i) !== n)
    if (other >= 0)
      throw new UserError(
        'E_SHAPE',
        `different lengths: ${leaves[0]?.path} of ${n}, ${leaves[other]?.path} of ${lengthOf(other)}`,
        { help: 'tensors that are scanned together have one length along the axis' },
      )
  })
  const combine = (a: readonly Tensor[], b: readonly Tensor[]): Tensor[] => {
    const wanted = typeOf(tree, a)
    const leavesMade: (Tensor | TensorSpec)[] = []
    const made = f(rebuildTree(tree, taker(a)) as T, rebuildTree(tree, taker(b)) as T)
    const type = named(name, () => describe(made, leavesMade, 'the result'))
    expectSame(name, ['the function', type], ['where it takes', wanted], 'its result')
    return leavesMade.filter((t): t is Tensor => !(t instanceof TensorSpec))
  }
  const each = (list: readonly Tensor[], g: (t: Tensor, axis: number, i: number) => Tensor): Tensor[] =>
    list.map((t, i) => g(t, axes[i] ?? 0, i))
  const range = (list: readonly Tensor[], start: number, stop: number, step = 1): Tensor[] =>
    each(list, (t, axis) => along(t, axis, start, stop, step))

  const run = (list: readonly Tensor[], length: number): readonly Tensor[] => {
    if (length < 2) return list
    const half = length >> 1
    const odd = run(combine(range(list, 0, length - 1, 2), range(list, 1, length, 2)), half)
    const more = length - half - 1
    const rest = more === 0 ? undefined : combine(range(odd, 0, more), range(list, 2, length, 2))
    return each(odd, (o, axis, i) => {
      const first = list[i] ?? o
      const [r] = rest === undefined ? [] : [rest[i]]
      const even = r === undefined ? along(first, axis, 0, 1) : concat([along(first, axis, 0, 1), r], axis)
      const pairs = stack([along(even, axis, 0, half), o], axis + 1)
      const both = pairs.reshape(first.shape.map((d, k) => (k === axis ? 2 * half : d)))
      return length % 2 === 0 ? both : concat([both, along(even, axis, half, half + 1)], axis)
    })
  }
  const turned = (list: readonly Tensor[]): readonly Tensor[] =>
    options.reverse === true ? each(list, (t, axis) => t.flip(axis)) : list
  return rebuildTree(tree, taker(turned(run(turned(tensors), n)))) as T
}

/** The structure with the types of other tensors. */
function typeOf(tree: TreeSpec, tensors: readonly Tensor[]): TreeSpec {
  const take = taker(tensors)
  const specs = rebuildTree(tree, () => {
    const t = take()
    return t === undefined ? undefined : new TensorSpec(t.shape, t.dtype)
  })
  return describe(specs, [])
}
