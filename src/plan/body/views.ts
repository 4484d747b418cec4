/** Views inside a kernel: composition of index maps, where padding and concatenation become predicates. */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import {
  always,
  type Bound,
  conjoin,
  decideBound,
  isNever,
  type Predicate,
  predicateKey,
} from '../../affine/predicate.ts'
import { straighten } from '../../affine/straighten.ts'
import { invariant, unreachable } from '../../diagnostics/errors.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { roundTo } from '../../scalar/eval.ts'
import { isWide } from '../../types/dtype.ts'
import { offsetsAlong } from './cover.ts'
import type { Evaluation } from './evaluation.ts'

/** The value of a view: that of what it shows, at the index map composed with its own. */
export function viewed(b: Evaluation, node: Node, index: readonly Expr[], mask: Predicate): ValueId {
  const [x] = node.inputs
  invariant(x !== undefined, 'a view without input')
  const at = (i: number): Expr => index[i] ?? ix.zero
  switch (node.op) {
    case 'reshape':
      return b.value(x, ix.reshape(index, node.shape, x.shape, b.isInside), mask)
    case 'permute': {
      const inner = new Array<Expr>(x.shape.length).fill(ix.zero)
      node.attrs.perm.forEach((p, i) => {
        inner[p] = at(i)
      })
      return b.value(x, inner, mask)
    }
    case 'broadcast':
      return b.value(
        x,
        node.attrs.dims.map((d, i) => (x.shape[i] === 1 ? ix.zero : at(d))),
        mask,
      )
    case 'slice':
      return b.value(
        x,
        x.shape.map((_, i) => ix.addConst(ix.mul(at(i), node.attrs.step[i] ?? 1), node.attrs.start[i] ?? 0)),
        mask,
      )
    case 'flip':
      return b.value(
        x,
        x.shape.map((n, i) => (node.attrs.axes.includes(i) ? ix.sub(ix.constant(n - 1), at(i)) : at(i))),
        mask,
      )
    case 'window': {
      const { axis, stride, dilation } = node.attrs
      const inner = x.shape.map((_, i) =>
        i < axis ? at(i) : i > axis ? at(i + 1) : ix.add(ix.mul(at(axis), stride), ix.mul(at(axis + 1), dilation)),
      )
      return b.value(x, inner, mask)
    }
    case 'pad':
      return padded(b, node, x, index, mask)
    case 'concat':
      return concatenated(b, node, index, mask)
    default:
      throw unreachable(node as never, 'view')
  }
}

/** Where coordinates of what is padded stand between its first and its last elements. */
function insideOf({ attrs }: NodeOf<'pad'>, x: Node, index: readonly Expr[]): Bound[] {
  return index.map((expr, i) => {
    const lo = attrs.low[i] ?? 0
    const step = (attrs.interior[i] ?? 0) + 1
    return { expr, lo, hi: lo + ((x.shape[i] ?? 0) - 1) * step + 1 }
  })
}

function padded(b: Evaluation, node: NodeOf<'pad'>, x: Node, at: readonly Expr[], mask: Predicate): ValueId {
  const index = straighten(at, [...mask, ...insideOf(node, x, at)])
  const bounds: Bound[] = []
  const inner = x.shape.map((n, i) => {
    const e = ix.addConst(index[i] ?? ix.zero, -(node.attrs.low[i] ?? 0))
    const step = (node.attrs.interior[i] ?? 0) + 1
    if (step > 1) bounds.push({ expr: ix.mod(e, step), lo: 0, hi: 1 })
    const q = ix.div(e, step)
    bounds.push({ expr: q, lo: 0, hi: n })
    return q
  })
  const own = conjoin(always, ...bounds)
  const padding = (): ValueId => b.tiles.constant(node.attrs.value, node.dtype, node)
  if (own.length === 0) return b.value(x, inner, mask)
  if (isNever(own)) return padding()
  for (const { expr, lo, hi } of own) if (b.tiles.cutAt(expr, [lo, hi])) b.branches = true
  const both = conjoin(mask, ...own)
  const v = b.value(x, inner, both)
  const { op, dtype, axes } = b.tiles.letOf(v)
  // A load under exactly this mask gives the padding itself.
  if (op.kind === 'load' && predicateKey(op.mask) === predicateKey(both))
    return b.tiles.emit(
      { ...op, other: roundTo(node.dtype, node.attrs.value) },
      dtype,
      axes,
      b.tiles.origin.get(v) ?? node,
    )
  return b.tiles.scalar('select', [b.tiles.predicate(own, node), v, padding()], node.dtype, node)
}

function concatenated(b: Evaluation, node: NodeOf<'concat'>, index: readonly Expr[], mask: Predicate): ValueId {
  const { axis } = node.attrs
  const at = index[axis] ?? ix.zero
  const edges = offsetsAlong(node.inputs, axis)
  const parts: { readonly p: Predicate; readonly v: ValueId }[] = []
  for (const [i, x] of node.inputs.entries()) {
    const n = x.shape[axis] ?? 0
    const offset = edges[i] ?? 0
    const bound = { expr: at, lo: offset, hi: offset + n }
    if (decideBound(bound) === 'unknown' && b.tiles.cutAt(at, edges)) b.branches = true
    if (n > 0 && decideBound(bound) !== 'false') {
      const p = conjoin(always, bound)
      // The one place of a dimension of extent 1; elsewhere the mask holds.
      const inner = index.with(axis, n === 1 ? ix.zero : ix.addConst(at, -offset))
      parts.push({ p, v: b.value(x, inner, conjoin(mask, ...p)) })
    }
  }
  const last = parts.pop()
  if (last === undefined) return b.tiles.constant(isWide(node.dtype) ? 0n : 0, node.dtype, node)
  return parts.reduceRight(
    (rest, { p, v }) => b.tiles.scalar('select', [b.tiles.predicate(p, node), v, rest], node.dtype, node),
    last.v,
  )
}
