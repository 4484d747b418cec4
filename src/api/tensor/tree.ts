/**
 * Trees of arguments and results: nested arrays and plain objects with tensors as leaves. Numbers, strings, booleans,
 * bigints, null, undefined and functions are static: part of the tree's structure.
 */
import { UserError } from '../../diagnostics/errors.ts'
import { checkDType, type DType } from '../../types/dtype.ts'
import { extentsOf, type Shape, sameShape, sizeOf } from '../../types/shape.ts'
import { placed } from '../calls/place.ts'
import { Dim, OpenSpec } from './openSpec.ts'
import { Tensor } from './tensor.ts'

/**
 * A tensor's shape and dtype without a value: compiles and explains a function without allocating its arguments. `spec` makes
 * one.
 */
export class TensorSpec {
  /** Its extents. */
  readonly shape: Shape
  /** Its element type. */
  readonly dtype: DType
  constructor(shape: Shape, dtype: DType) {
    this.shape = extentsOf(shape)
    sizeOf(this.shape)
    checkDType(dtype)
    this.dtype = dtype
  }
}

/**
 * A tensor spec; f32 unless given. With dimensions that vary (`dim`) it is one for `jit`'s option `dynamic`.
 * @throws E_SHAPE, E_OVERFLOW for a shape that cannot be, E_DTYPE for a dtype there is not
 * @example
 * spec([2, 3], 'i32') // { shape: [2, 3], dtype: 'i32' }
 * spec([dim('batch', 1, 64), 384]).shape.length // 2
 */
export function spec(shape: Shape, dtype?: DType): TensorSpec
export function spec(shape: readonly (number | Dim)[], dtype?: DType): OpenSpec
export function spec(shape: readonly (number | Dim)[], dtype: DType = 'f32'): TensorSpec | OpenSpec {
  return placed(() =>
    Array.isArray(shape) && shape.some((d) => d instanceof Dim)
      ? new OpenSpec(shape, dtype)
      : new TensorSpec(shape as Shape, dtype),
  )
}

/** A tree with specs where it may have tensors. */
export type Abstract<T> = T extends Tensor
  ? Tensor | TensorSpec
  : T extends (...args: never[]) => unknown
    ? T
    : T extends object
      ? { [K in keyof T]: Abstract<T[K]> }
      : T

/** The structure of a tree, with its tensors' types. */
export type TreeSpec =
  | { readonly kind: 'tensor'; readonly shape: Shape; readonly dtype: DType }
  | { readonly kind: 'static'; readonly value: unknown }
  | { readonly kind: 'list'; readonly items: readonly TreeSpec[] }
  | { readonly kind: 'record'; readonly keys: readonly string[]; readonly items: readonly TreeSpec[] }

type PlainRecord = Readonly<Record<string, unknown>>

function isPlain(x: object): x is PlainRecord {
  const proto: unknown = Object.getPrototypeOf(x)
  return proto === Object.prototype || proto === null
}

/** Levels of a tree, at most. */
export const maxDepth = 64

/** The structure of a tree; its leaves go to `leaves` in order. Throws E_STRUCTURE for what is no tree. */
export function describe(x: unknown, leaves: (Tensor | TensorSpec)[], path = 'argument', depth = 0): TreeSpec {
  if (depth > maxDepth)
    throw new UserError('E_STRUCTURE', `${path} is nested deeper than ${maxDepth} or holds itself`, {
      help: 'pass a tree without cycles',
    })
  if (x instanceof Tensor || x instanceof TensorSpec) {
    leaves.push(x)
    return { kind: 'tensor', shape: x.shape, dtype: x.dtype }
  }
  if (typeof x !== 'object' || x === null) return { kind: 'static', value: x }
  if (Array.isArray(x)) return { kind: 'list', items: x.map((v, i) => describe(v, leaves, `${path}[${i}]`, depth + 1)) }
  if (isPlain(x)) {
    const keys = Object.keys(x)
    return { kind: 'record', keys, items: keys.map((k) => describe(x[k], leaves, `${path}.${k}`, depth + 1)) }
  }
  throw new UserError('E_STRUCTURE', `${path} is a ${x.constructor.name}`, {
    help: ArrayBuffer.isView(x)
      ? 'make a tensor of it first: tensor(data)'
      : 'pass tensors, numbers, strings, booleans, and arrays or plain objects of them',
  })
}

/** Whether a tree has a structure; its tensors go to `leaves` in order. Builds no strings and no structure: the path of every call. */
export function matches(s: TreeSpec, x: unknown, leaves: Tensor[]): boolean {
  switch (s.kind) {
    case 'tensor':
      if (!(x instanceof Tensor) || x.dtype !== s.dtype || !(x.shape === s.shape || sameShape(x.shape, s.shape)))
        return false
      leaves.push(x)
      return true
    case 'static':
      return Object.is(x, s.value)
    case 'list':
      return Array.isArray(x) && x.length === s.items.length && s.items.every((item, i) => matches(item, x[i], leaves))
    case 'record': {
      if (typeof x !== 'object' || x === null || !isPlain(x)) return false
      let i = 0
      for (const key in x) {
        const item = s.items[i]
        if (item === undefined || s.keys[i] !== key || !matches(item, x[key], leaves)) return false
        i++
      }
      return i === s.items.length
    }
  }
}

/** Whether two structures are equal. */
export function sameTree(a: TreeSpec, b: TreeSpec): boolean {
  if (a.kind === 'tensor') return b.kind === 'tensor' && a.dtype === b.dtype && sameShape(a.shape, b.shape)
  if (a.kind === 'static') return b.kind === 'static' && Object.is(a.value, b.value)
  const items = (x: readonly TreeSpec[], y: readonly TreeSpec[]): boolean =>
    x.length === y.length && x.every((item, i) => sameTree(item, y[i] ?? { kind: 'static', value: undefined }))
  if (a.kind === 'list') return b.kind === 'list' && items(a.items, b.items)
  return b.kind === 'record' && a.keys.join('\0') === b.keys.join('\0') && items(a.items, b.items)
}

/** A tree of a structure with the given leaves, taken in order. */
export function rebuildTree(s: TreeSpec, next: () => unknown): unknown {
  switch (s.kind) {
    case 'tensor':
      return next()
    case 'static':
      return s.value
    case 'list':
      return s.items.map((item) => rebuildTree(item, next))
    case 'record': {
      const entry = (k: string, i: number): [string, unknown][] => {
        const item = s.items[i]
        return item === undefined ? [] : [[k, rebuildTree(item, next)]]
      }
      // Entries are the tree's own, whatever their names ("__proto__" too).
      return Object.fromEntries(s.keys.flatMap(entry))
    }
  }
}

/** A tensor's place in a tree, and its type. */
export interface TreeLeaf {
  readonly path: string
  readonly shape: Shape
  readonly dtype: DType
}

/** The tensors of a structure in order, named as `describe` names them. */
export function leavesOf(s: TreeSpec, path: string): TreeLeaf[] {
  switch (s.kind) {
    case 'tensor':
      return [{ path, shape: s.shape, dtype: s.dtype }]
    case 'static':
      return []
    case 'list':
      return s.items.flatMap((item, i) => leavesOf(item, `${path}[${i}]`))
    case 'record':
      return s.items.flatMap((item, i) => leavesOf(item, `${path}.${s.keys[i] ?? i}`))
  }
}

/** The tensors in a tree. Throws E_STRUCTURE. */
export function tensorsOf(x: unknown, what: string): Tensor[] {
  const leaves: (Tensor | TensorSpec)[] = []
  describe(x, leaves, what)
  return leaves.filter((t): t is Tensor => t instanceof Tensor)
}
