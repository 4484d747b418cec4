/** The unscheduled kernel: what one region computes, as tile statements over named axes, before grids and blocks. */

import { axesOf, type Expr, type Scale } from '../../affine/expr.ts'
import { mapPredicate, type Predicate } from '../../affine/predicate.ts'
import type { Substitution } from '../../affine/substitution.ts'
import type { Node } from '../../graph/node.ts'
import type { KernelAxis, LetStmt, ValueId } from '../../kernel/ir.ts'
import { dtypeBytes } from '../../types/dtype.ts'

/** A tensor in memory as the body addresses it: `shape` is the node's, or flat once axes are collapsed. */
export interface BodyTensor {
  readonly node: Node
  readonly shape: readonly number[]
  /** One bit an element (src/plan/cost/formats.ts decides); absent: as the dtype says. */
  readonly format?: 'bits'
}

export interface BodyStore extends BodyTensor {
  readonly value: ValueId
  readonly index: readonly Expr[]
  /** Which points are stored, where the axes count beyond the tensor; absent: all. */
  readonly mask?: Predicate
  /** One of several stores of the node, each of a range of it: its axes along the ranges. */
  readonly pieces?: readonly string[]
  /** Its places come from data: where extents vary, dimensions that do not, at the end, stay apart, so that points which cannot meet are told. */
  readonly isScattered?: true
}

/** The index expressions of a store, those of its mask among them. */
export const storeExpressions = ({ index, mask }: BodyStore): readonly Expr[] =>
  mask === undefined ? index : [...index, ...mask.map((b) => b.expr)]

/** A store with every index expression replaced. */
export const mapStore = (s: BodyStore, map: (e: Expr) => Expr): BodyStore => ({
  ...s,
  index: s.index.map(map),
  ...(s.mask === undefined ? {} : { mask: mapPredicate(s.mask, map) }),
})

/** A store with atoms of its index expressions replaced. */
export const substituteInStore = (s: BodyStore, by: Substitution): BodyStore => ({
  ...s,
  index: by.ofList(s.index),
  ...(s.mask === undefined ? {} : { mask: by.ofPredicate(s.mask) }),
})

/** The launch scalar that ends an axis of a body, where it is open. */
export function endOf({ axes, scales }: Pick<Body, 'axes' | 'scales'>, axis: string): Scale | undefined {
  const open = axes.find((a) => a.name === axis)?.open
  return open === undefined ? undefined : scales?.get(open)
}

/** Bytes of some elements of a tensor in its format. */
export const tensorBytes = (t: BodyTensor, elements: number): number =>
  t.format === 'bits' ? Math.ceil(elements / 8) : elements * dtypeBytes(t.node.dtype)

/** The tensors a body stores: several stores may each hold a range of one. */
export const storedTensors = (body: Body): readonly BodyStore[] =>
  body.stores.filter((s, i) => s.pieces === undefined || body.stores.findIndex((t) => t.node === s.node) === i)

/** Elements of the given axes that a program holds at once: the most that one statement, or the stores of one tensor, runs over. */
export function heldPoints(body: Body, extents: ReadonlyMap<string, number>, axes: ReadonlySet<string>): number {
  let most = 1
  const seen = new Set<readonly string[]>()
  const points = (names: Iterable<string>): number =>
    pointsOf(
      extents,
      [...new Set(names)].filter((a) => axes.has(a)),
    )
  for (const { axes: own, op } of body.lets) {
    const folded = op.kind === 'reduce' || op.kind === 'dot' ? op.axes : []
    if (folded.length === 0 && seen.has(own)) continue
    seen.add(own)
    most = Math.max(most, points([...own, ...folded]))
  }
  const stored = new Map<Node, number>()
  for (const s of body.stores) {
    const n = (stored.get(s.node) ?? 0) + points(s.index.flatMap((e) => [...axesOf(e)]))
    stored.set(s.node, n)
    most = Math.max(most, n)
  }
  return most
}

/** Points of a space over some axes: the product of their extents. */
export function pointsOf(extents: ReadonlyMap<string, number>, axes: Iterable<string>): number {
  let n = 1
  for (const a of axes) n *= extents.get(a) ?? 1
  return n
}

export interface Body {
  readonly axes: readonly KernelAxis[]
  /** In dependence order; every statement feeds a store. */
  readonly lets: readonly LetStmt[]
  readonly stores: readonly BodyStore[]
  /** Materialised nodes the body loads, by the parameter name each has. */
  readonly loads: ReadonlyMap<string, BodyTensor>
  /** The node each value computes (an instance of it). */
  readonly origin: ReadonlyMap<ValueId, Node>
  /** The launch scalars that end open axes and scale index maps, by name; absent: all extents are known. */
  readonly scales?: ReadonlyMap<string, Scale>
}

const isLike = (a: BodyTensor, b: BodyTensor): boolean =>
  a.shape === b.shape && a.format === b.format && a.node.dtype === b.node.dtype

/** Whether a body is another one in other nodes (candidateMemo.ts makes such): all but the nodes is the same there. */
export const isOfOneForm = (a: Body, b: Body | undefined): boolean =>
  a === b ||
  (b !== undefined &&
    a.lets === b.lets &&
    a.axes === b.axes &&
    a.scales === b.scales &&
    a.loads.size === b.loads.size &&
    a.stores.length === b.stores.length &&
    [...a.loads].every(([param, t]) => {
      const other = b.loads.get(param)
      return other !== undefined && isLike(t, other)
    }) &&
    a.stores.every((s, i) => {
      const other = b.stores[i]
      return (
        other !== undefined &&
        isLike(s, other) &&
        s.value === other.value &&
        s.index === other.index &&
        s.mask === other.mask &&
        s.pieces === other.pieces &&
        s.isScattered === other.isScattered
      )
    }))
