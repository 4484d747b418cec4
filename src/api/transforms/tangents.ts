/** Tangents and cotangents as trees: beside each float tensor one of its type; beside anything else nothing is read. */

import { UserError } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import { type DType, isFloat } from '../../types/dtype.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import { zeros } from '../ops/creation.ts'
import { Tensor } from '../tensor/tensor.ts'
import { rebuildTree, type TreeLeaf, type TreeSpec } from '../tensor/tree.ts'
import { taker } from './apply.ts'

/**
 * What `jvp` takes as directions and `vjp` as cotangents of a T: the same structure, where null stands for zeros. Beside
 * integer and boolean tensors and static values nothing is read.
 */
export type Tangent<T> = T extends Tensor
  ? Tensor | null
  : T extends (...args: never[]) => unknown
    ? T | null
    : T extends object
      ? { [K in keyof T]: Tangent<T[K]> } | null
      : T | null

/** A tangent for each argument. */
export type Tangents<A extends readonly unknown[]> = { [K in keyof A]: Tangent<A[K]> }

type PlainRecord = Readonly<Record<string, unknown>>

const showType = (x: { readonly shape: readonly number[]; readonly dtype: DType }): string =>
  `${x.dtype}${showShape(x.shape)}`

const mismatch = (what: string, path: string, found: string, want: string): UserError =>
  new UserError('E_STRUCTURE', `${what} does not have the structure of the values: ${path} is ${found}, not ${want}`, {
    help: 'give a tree of the same structure; null stands for zeros',
  })

function kindOf(x: unknown): string {
  if (x instanceof Tensor) return 'a tensor'
  if (Array.isArray(x)) return `a list of ${x.length}`
  if (x === undefined) return 'missing'
  return typeof x === 'object' ? 'an object' : `a ${typeof x}`
}

/**
 * The tangent beside each tensor of a structure, in order (undefined: zero, or not read). Throws E_STRUCTURE, E_SHAPE,
 * E_DTYPE.
 */
export function readTangents(s: TreeSpec, x: unknown, what: string, path: string): (Tensor | undefined)[] {
  switch (s.kind) {
    case 'static':
      return []
    case 'tensor': {
      if (x === null || !isFloat(s.dtype)) return [undefined]
      if (!(x instanceof Tensor)) throw mismatch(what, path, kindOf(x), 'a tensor')
      if (!sameShape(x.shape, s.shape))
        throw new UserError('E_SHAPE', `${what}: ${path} is ${showType(x)}, the value ${showType(s)}`, {
          help: 'it has the shape and dtype of the value; null stands for zeros',
        })
      if (x.dtype !== s.dtype)
        throw new UserError('E_DTYPE', `${what}: ${path} is ${showType(x)}, the value ${showType(s)}`, {
          help: 'it has the shape and dtype of the value; null stands for zeros',
        })
      return [x]
    }
    case 'list': {
      if (x !== null && (!Array.isArray(x) || x.length !== s.items.length))
        throw mismatch(what, path, kindOf(x), `a list of ${s.items.length}`)
      const list: readonly unknown[] | null = x
      return s.items.flatMap((item, i) => readTangents(item, list === null ? null : list[i], what, `${path}[${i}]`))
    }
    case 'record': {
      if (x !== null && (typeof x !== 'object' || Array.isArray(x) || x instanceof Tensor))
        throw mismatch(what, path, kindOf(x), `an object of ${s.keys.join(', ')}`)
      const record = x as PlainRecord | null
      const extra = Object.keys(record ?? {}).find((k) => !s.keys.includes(k))
      if (extra !== undefined) throw mismatch(what, `${path}.${extra}`, 'there', 'in the values')
      return s.items.flatMap((item, i) => {
        const key = s.keys[i] ?? String(i)
        return readTangents(item, record === null ? null : record[key], what, `${path}.${key}`)
      })
    }
  }
}

/** A tree of tangents: those given for its float tensors in order, zeros of the tensor's own type beside the others. */
export function tangentTree(s: TreeSpec, leaves: readonly TreeLeaf[], floats: readonly Tensor[]): unknown {
  const next = taker(floats)
  const all = leaves.map((leaf) => (isFloat(leaf.dtype) ? next() : zeros(leaf.shape, leaf.dtype)))
  return rebuildTree(s, taker(all))
}

/** The nodes that a list with gaps takes from operands, which has those that are there. */
export function spread(present: readonly unknown[], nodes: readonly Node[]): (Node | undefined)[] {
  const next = taker(nodes)
  return present.map((x) => (x === undefined ? undefined : next()))
}
