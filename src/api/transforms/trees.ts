/** The namespace `tree`: functions over nested arrays and plain objects with tensors as leaves. */

import { checkFunction } from '../calls/options.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { rebuildTree } from '../tensor/tree.ts'
import { leavesLike, readTree } from '../tensor/zip.ts'
import { taker } from './apply.ts'

/** A tree of the structure of T with a U in place of each tensor. */
export type Mapped<T, U> = T extends Tensor
  ? U
  : T extends (...args: never[]) => unknown
    ? T
    : T extends object
      ? { [K in keyof T]: Mapped<T[K], U> }
      : T

/**
 * The tensors of a tree in order: object keys in theirs, lists from the first (JAX's `tree.leaves`).
 * @throws E_STRUCTURE for what is no tree
 * @example tree.leaves({ a: tensor(1), b: [tensor(2), 'static'] }) // [1, 2]
 */
export const leaves = (tree: unknown): Tensor[] => named('tree.leaves', () => [...readTree(tree, 'tree').tensors])

/**
 * A tree with f of each tensor in its place; with more trees of the same structure, f of the tensors at each place (JAX's
 * `tree.map`). Static values are the first tree's.
 * @throws E_STRUCTURE for trees that differ and what is no tree, E_ARGUMENT for what is no function
 * @example tree.map((a, b) => a.add(b), { x: tensor([1]), n: 5 }, { x: tensor([10]), n: 5 }) // { x: [11], n: 5 }
 */
export function map<T>(f: (leaf: Tensor, ...others: Tensor[]) => Tensor, tree: T, ...others: readonly NoInfer<T>[]): T
export function map<T, U>(
  f: (leaf: Tensor, ...others: Tensor[]) => U,
  tree: T,
  ...others: readonly NoInfer<T>[]
): Mapped<T, U>
export function map(
  f: (leaf: Tensor, ...others: Tensor[]) => unknown,
  tree: unknown,
  ...others: readonly unknown[]
): unknown {
  const { structure, rows } = named('tree.map', () => {
    checkFunction(f, 'tree.map')
    const { structure, tensors } = readTree(tree, 'tree')
    const beside = others.map((other, i) =>
      leavesLike(structure, other, {
        path: `tree${i + 2}`,
        like: 'the first tree',
        help: 'pass trees of one structure',
      }),
    )
    return { structure, rows: tensors.map((t, i) => [t, ...beside.flatMap((list) => list[i] ?? [])] as const) }
  })
  const made = taker(rows.map(([leaf, ...rest]) => f(leaf, ...rest)))
  return rebuildTree(structure, made)
}
