/** Questions the rules ask of nodes, and small builders that leave out what would change nothing. */
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { opTable } from '../graph/table.ts'
import { scalarOf } from '../scalar/host.ts'
import type { Range } from '../scalar/narrow.ts'
import type { Scalar } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { type Shape, sameShape, sizeOf } from '../types/shape.ts'
import type { Generic, RewriteContext } from './rule.ts'

/** The value a node repeats everywhere, if it is a `full`. */
export const fullValue = (n: Node): Scalar | undefined => (n.op === 'full' ? n.attrs.value : undefined)

/** A `full` of a plain number in any dtype. */
export const fullOf = (shape: Shape, dtype: DType, value: Scalar): Node =>
  makeNode('full', [], { shape, dtype, value: scalarOf(dtype, value) })

export const reshapeTo = (x: Node, shape: Shape): Node =>
  sameShape(x.shape, shape) ? x : makeNode('reshape', [x], { shape })

export const permuteTo = (x: Node, perm: readonly number[]): Node =>
  perm.every((p, i) => p === i) ? x : makeNode('permute', [x], { perm })

/** A broadcast whose operand is `x` along `dims`. */
export const broadcastAlong = (x: Node, shape: Shape, dims: readonly number[]): Node =>
  sameShape(x.shape, shape) && dims.every((d, i) => d === i) ? x : makeNode('broadcast', [x], { shape, dims })

/** The extents that are not 1. */
export const coreShape = (shape: Shape): number[] => shape.filter((d) => d !== 1)

/** The axes whose extent is not 1. */
export const coreAxes = (shape: Shape): number[] => shape.flatMap((d, i) => (d === 1 ? [] : [i]))

/** A reshape that only adds or drops axes of extent 1. */
export const isUnitReshape = (n: Node): n is Extract<Node, { op: 'reshape' }> => {
  const [x] = n.inputs
  return n.op === 'reshape' && x !== undefined && sameShape(coreShape(x.shape), coreShape(n.shape))
}

/** For shapes that differ in axes of extent 1 only: the axis of `to` that each axis of `from` becomes; -1 for extent 1. */
export function coreAxisMap(from: Shape, to: Shape): number[] {
  const targets = coreAxes(to)
  let next = 0
  return from.map((d) => (d === 1 ? -1 : (targets[next++] ?? -1)))
}

/** A broadcast that repeats its operand along new axes only: the form `broadcast-squeeze` leaves. */
export const isPlainBroadcast = (n: Node): n is Extract<Node, { op: 'broadcast' }> => {
  const [x] = n.inputs
  return n.op === 'broadcast' && x !== undefined && n.attrs.dims.every((d, i) => n.shape[d] === x.shape[i])
}

/** Operations that move elements, or repeat them. */
export const movesElements = (n: Node): boolean =>
  opTable[n.op].family === 'view' && n.inputs.length === 1 && n.op !== 'pad'

/** A literal, or a view of one that costs nothing to store: `broadcast`, `reshape` or `permute` of a literal. */
export function isLiteral(n: Node): boolean {
  let at: Node | undefined = n
  while (at !== undefined && (at.op === 'broadcast' || at.op === 'reshape' || at.op === 'permute')) at = at.inputs[0]
  return at !== undefined && (at.op === 'constant' || at.op === 'full' || at.op === 'iota')
}

/** The leaf of a literal. */
export function literalLeaf(n: Node): NodeOf<'constant'> | NodeOf<'full'> | NodeOf<'iota'> | undefined {
  let at: Node | undefined = n
  while (at !== undefined && (at.op === 'broadcast' || at.op === 'reshape' || at.op === 'permute')) at = at.inputs[0]
  return at !== undefined && (at.op === 'constant' || at.op === 'full' || at.op === 'iota') ? at : undefined
}

/** Most elements a literal computed at compile time may have. */
export const foldLimit = 65536

/** Stored integers that are widened are stored wide up to this many elements. */
export const storedAsItIs = 1024

/** A literal small enough that elementwise arithmetic on it folds: a `full`, or a stored one, perhaps broadcast. */
export function isFoldable(n: Node): boolean {
  const leaf = n.op === 'broadcast' ? n.inputs[0] : n
  if (leaf === undefined) return false
  return leaf.op === 'full' || (leaf.op === 'constant' && sizeOf(leaf.shape) <= foldLimit)
}

/** Whether a slice that takes everything of a shape may take less at other extents that the graph stands for, or a padding by nothing add something. */
export const mayTakeLess = (shape: Shape, { generic }: RewriteContext): boolean =>
  generic !== undefined && generic.ends.size > 0 && shape.some((n) => generic.ends.has(n))

/** Sums and products of integers wrap, so they may be reordered; those of floats may not. */
export const reorders = (dtype: DType): boolean => !isFloat(dtype)

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** Whether a node compares literals one of which varies, and what it gives may be another at other extents that the graph stands for. */
export function isDecidedByChance(node: Node, generic: Generic | undefined): boolean {
  if (generic === undefined || generic.numbers.size === 0 || node.dtype !== 'bool' || node.inputs.length !== 2)
    return false
  const [a, b] = node.inputs.map((x): Range | undefined => {
    if (x.op !== 'full') return undefined
    const value = Number(x.attrs.value)
    return generic.numbers.get(value) ?? { lo: value, hi: value }
  })
  if (a === undefined || b === undefined || (a.lo === a.hi && b.lo === b.hi)) return false
  return a.lo <= b.hi && b.lo <= a.hi
}
