/** Covers: the pieces in which a kernel reads a dimension, where they are all of it, and reductions made of theirs. */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import type { Predicate } from '../../affine/predicate.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { combinerOp, isArgCombiner } from '../../scalar/ops.ts'
import type { BoundDim, Piece, Tiles } from './tiles.ts'

/** A reduced dimension that runs over pieces; in order, where a `digit` numbers them. */
export interface Cover {
  readonly d: number
  readonly pieces: readonly Piece[]
  readonly digit?: BoundDim
}

/** The axes that a cover runs over. */
export const axesOfCover = ({ pieces, digit }: Cover): string[] => [
  ...pieces.flatMap((p) => p.axes),
  ...(digit?.axes ?? []),
]

/** Where each of some nodes begins when they are joined along an axis. */
export function offsetsAlong(nodes: readonly Node[], axis: number): number[] {
  let next = 0
  return nodes.map((x) => {
    const at = next
    next += x.shape[axis] ?? 0
    return at
  })
}

const pieceIndex = (p: Piece): Expr => ix.addConst(ix.mul(p.base, p.stride), p.offset)

/**
 * The pieces among some that cover [0, extent) once, in the order of their first index; undefined where none do. Runs of
 * pieces side by side (stride 1), or as many interleaved pieces as their stride.
 */
export function coverOf(pieces: readonly Piece[], extent: number): readonly Piece[] | undefined {
  const starting = new Map<number, Piece>()
  for (const p of pieces) {
    const have = starting.get(p.offset)
    if (have === undefined || p.extent * p.stride > have.extent * have.stride) starting.set(p.offset, p)
  }
  const out: Piece[] = []
  let at = 0
  while (at < extent) {
    const first = starting.get(at)
    if (first === undefined || first.extent < 1) return undefined
    for (let i = 0; i < first.stride; i++) {
      const p = starting.get(at + i)
      if (p?.stride !== first.stride || p.extent !== first.extent) return undefined
      out.push(p)
    }
    at += first.stride * first.extent
  }
  return at === extent && out.length > 1 ? out : undefined
}

/** Whether all pieces of a cover run over the same axes, at strides that make their number a digit of the index. */
export const alike = (cover: readonly Piece[]): boolean =>
  cover.every((p) => p.base.key === cover[0]?.base.key && p.stride === cover[0]?.stride) &&
  (cover[0]?.stride === 1 || cover[0]?.stride === cover.length)

/** A cover of like pieces as one expression over their axes and the number of the piece, and these axes from the outermost in. */
function inDigits(
  cover: readonly Piece[],
  digit: BoundDim,
): { readonly index: Expr; readonly axes: readonly string[] } {
  const [first] = cover
  invariant(first !== undefined && alike(cover), 'pieces that are not alike')
  return first.stride === 1
    ? { index: ix.add(first.base, ix.mul(digit.expr, first.extent)), axes: [...digit.axes, ...first.axes] }
    : { index: ix.add(ix.mul(first.base, first.stride), digit.expr), axes: [...first.axes, ...digit.axes] }
}

/** Pieces by the axes they run over. */
function byBase(cover: readonly Piece[]): readonly (readonly Piece[])[] {
  const groups = new Map<string, Piece[]>()
  for (const p of cover) groups.set(p.base.key, [...(groups.get(p.base.key) ?? []), p])
  return [...groups.values()]
}

/** Expressions along dimension d at which a node, or an elementwise operand of its shape, is evaluated where the rest of the index is the same. */
export function readAlong(
  node: Node,
  index: readonly Expr[],
  d: number,
  members: ReadonlySet<Node>,
  instancesOf: (n: Node) => readonly { readonly index: readonly Expr[]; readonly mask: Predicate }[],
): Expr[] {
  const out: Expr[] = []
  const stack = [node]
  const seen = new Set<Node>(stack)
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    for (const i of instancesOf(n)) {
      const mine = i.index[d]
      if (mine === undefined || mine.key === index[d]?.key || i.mask.length > 0) continue
      if (i.index.every((e, k) => k === d || e.key === index[k]?.key)) out.push(mine)
    }
    if (familyOf(n) !== 'elementwise' || !members.has(n)) continue
    for (const x of n.inputs)
      if (!seen.has(x)) {
        seen.add(x)
        stack.push(x)
      }
  }
  return out
}

/** A reduction over the axes of pieces (and `others`): pieces over the same axes are joined point by point. */
export function foldPieces(
  tiles: Tiles,
  node: NodeOf<'reduce'>,
  { pieces, digit }: Cover,
  others: readonly string[],
  valueAt: (e: Expr) => ValueId,
): ValueId {
  const { combiner } = node.attrs
  invariant(!isArgCombiner(combiner), 'positions in pieces')
  const op = combinerOp[combiner]
  const fold = (arg: ValueId, over: readonly string[]): ValueId => {
    if (over.length === 0) return arg
    const spread = tiles.spread(arg, over, node)
    const out = tiles.letOf(spread).axes.filter((a) => !over.includes(a))
    return tiles.emit({ kind: 'reduce', combiner, arg: spread, axes: over }, node.dtype, out, node)
  }
  const join = (ids: readonly ValueId[]): ValueId => ids.reduce((a, b) => tiles.scalar(op, [a, b], node.dtype, node))
  if (digit !== undefined) {
    const { index, axes } = inDigits(pieces, digit)
    return fold(valueAt(index), axes)
  }
  return join(
    byBase(pieces).map((group) =>
      fold(join(group.map((p) => valueAt(pieceIndex(p)))), [...others, ...(group[0]?.axes ?? [])]),
    ),
  )
}
