/** Gradients as one vector: its norm, and a bound on it. */
import { UserError } from '../../diagnostics/errors.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { showShape } from '../../types/shape.ts'
import { div } from '../ops/arithmetic.ts'
import { zeros } from '../ops/creation.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { leavesOf } from '../tensor/tree.ts'
import { readTree } from '../tensor/zip.ts'
import { map } from '../transforms/trees.ts'
import { check, positive } from './check.ts'

function floatsOf(tree: unknown): readonly Tensor[] {
  const { structure, tensors } = readTree(tree, 'tree')
  const bad = leavesOf(structure, 'tree').find((leaf) => !isFloat(leaf.dtype))
  if (bad !== undefined)
    throw new UserError('E_DTYPE', `${bad.path} is ${bad.dtype}${showShape(bad.shape)}`, {
      help: 'the norm is of float tensors: leave the others out',
    })
  return tensors
}

/**
 * The Euclidean norm of all elements of a tree of float tensors: a scalar, f64 if one of them is, else f32.
 * @throws E_STRUCTURE for what is no tree, E_DTYPE for tensors that are not float
 * @example optim.globalNorm({ a: tensor([3]), b: tensor([4]) }) // 5
 */
export const globalNorm = (tree: unknown): Tensor =>
  named('globalNorm', () => {
    const tensors = floatsOf(tree)
    const dtype = tensors.some((t) => t.dtype === 'f64') ? 'f64' : 'f32'
    const sums = tensors.map((t) => t.astype(dtype).square().sum())
    const [first = zeros([], dtype), ...rest] = sums
    return rest.reduce((total, s) => total.add(s), first).sqrt()
  })

/**
 * The tree times min(1, maxNorm / its global norm), each tensor in its own dtype (Pascanu et al. 2013). A NaN makes all of it
 * NaN, an infinity makes itself NaN and the rest 0: `globalNorm` shows both.
 * @throws E_STRUCTURE for what is no tree, E_DTYPE for tensors that are not float, E_ARGUMENT for a bound that is not positive
 * @example optim.clipByGlobalNorm([tensor([3]), tensor([4])], 1) // [[0.6], [0.8]]
 */
export const clipByGlobalNorm = <T>(tree: T, maxNorm: number): T =>
  named('clipByGlobalNorm', () => {
    check({ maxNorm }, { maxNorm: positive })
    const norm = globalNorm(tree)
    // max / max(norm, max) is 1 exactly where nothing is to be done, a norm of 0 included.
    const scale = div(maxNorm, norm.maximum(maxNorm))
    return map((t) => t.astype(computeDType(t.dtype)).mul(scale).astype(t.dtype), tree)
  })
