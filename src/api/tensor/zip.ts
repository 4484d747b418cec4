/** Trees side by side: the tensors of one tree at the places another has its own. */
import { UserError } from '../../diagnostics/errors.ts'
import type { DType } from '../../types/dtype.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import { Tensor } from './tensor.ts'
import { describe, type TensorSpec, type TreeSpec } from './tree.ts'

/** A tree read: its structure and its tensors in order. */
export interface TensorTree {
  readonly structure: TreeSpec
  readonly tensors: readonly Tensor[]
}

/** Reads a tree of tensors. Throws E_STRUCTURE, E_ARGUMENT for a tensor spec. */
export function readTree(x: unknown, path: string): TensorTree {
  const found: (Tensor | TensorSpec)[] = []
  const structure = describe(x, found, path)
  const tensors = found.filter((t) => t instanceof Tensor)
  if (tensors.length < found.length)
    throw new UserError('E_ARGUMENT', `${path} holds a tensor spec`, { help: 'specs are for explain and compile' })
  return { structure, tensors }
}

/** What a tree beside another is, for errors, and what its tensors may be. */
export interface FusedReductions {
  /** The tree: `gradients`. */
  readonly path: string
  /** The tree it stands beside: `params`. */
  readonly like: string
  readonly help: string
  /** Whether shapes must be equal, and which dtypes do; without it, any tensors do. */
  readonly accepts?: (dtype: DType, want: DType) => boolean
}

function kindOf(x: unknown): string {
  if (x instanceof Tensor) return 'a tensor'
  if (Array.isArray(x)) return `a list of ${x.length}`
  if (x === undefined) return 'missing'
  if (x === null) return 'null'
  return typeof x === 'object' ? 'an object' : `a ${typeof x}`
}

/**
 * The tensors of `x` in the order of a structure; keys of objects may come in any order, static values are not compared.
 * Throws E_STRUCTURE where the trees differ, E_SHAPE and E_DTYPE where the tensors do.
 */
export function leavesLike(s: TreeSpec, x: unknown, beside: FusedReductions, path = beside.path): Tensor[] {
  const differs = (want: string, at = path, found = kindOf(x)): UserError =>
    new UserError('E_STRUCTURE', `${at} is ${found}, where ${beside.like} has ${want}`, { help: beside.help })
  switch (s.kind) {
    case 'static':
      if (x instanceof Tensor) throw differs(`a ${typeof s.value}`)
      return []
    case 'tensor': {
      if (!(x instanceof Tensor)) throw differs('a tensor')
      const { accepts } = beside
      if (accepts === undefined) return [x]
      const detail = (): string =>
        `${path} is ${x.dtype}${showShape(x.shape)}, where ${beside.like} has ${s.dtype}${showShape(s.shape)}`
      if (!sameShape(x.shape, s.shape)) throw new UserError('E_SHAPE', detail(), { help: beside.help })
      if (!accepts(x.dtype, s.dtype)) throw new UserError('E_DTYPE', detail(), { help: beside.help })
      return [x]
    }
    case 'list': {
      if (!Array.isArray(x) || x.length !== s.items.length) throw differs(`a list of ${s.items.length}`)
      const list: readonly unknown[] = x
      return s.items.flatMap((item, i) => leavesLike(item, list[i], beside, `${path}[${i}]`))
    }
    case 'record': {
      if (typeof x !== 'object' || x === null || Array.isArray(x) || x instanceof Tensor)
        throw differs(`an object of ${s.keys.join(', ')}`)
      const record = x as Readonly<Record<string, unknown>>
      const extra = Object.keys(record).find((k) => !s.keys.includes(k))
      if (extra !== undefined) throw differs('nothing', `${path}.${extra}`, kindOf(record[extra]))
      return s.items.flatMap((item, i) => {
        const key = s.keys[i] ?? String(i)
        return leavesLike(item, record[key], beside, `${path}.${key}`)
      })
    }
  }
}
