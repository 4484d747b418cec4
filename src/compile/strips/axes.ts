/** What axes of a node have to do with those of its inputs, and a node again with one of them shorter: what going through an axis in strips asks. */
import { add, cast } from '../../compose/elementwise.ts'
import { makeNode } from '../../graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { summedLabels } from '../../rewrite/contraction.ts'
import { combinerOp, isArgCombiner } from '../../scalar/ops.ts'
import { isFloat } from '../../types/dtype.ts'
import { resized, type Shape, sizeOf } from '../../types/shape.ts'

/**
 * Axis `axis` of input `input` is axis `own` of the node, part by part: a share of the one, from its beginning on, is the same share of the other. All but
 * reshapes have as many indices on both sides. What a node folds away counts as axes behind its own.
 */
export interface Meeting {
  readonly input: number
  readonly axis: number
  readonly own: number
}

/** Whether an axis of a node is one that it folds away. */
export const isFolded = (n: Node, axis: number): boolean => axis >= n.shape.length

const all = (input: number, { shape }: Node): Meeting[] => shape.map((_, axis) => ({ input, axis, own: axis }))

const isWhole = (n: Node, x: Node, axis: number): boolean => n.shape[axis] === x.shape[axis]

/** Axes of a reshape with as many elements outside them before and after: rows of a batch that are joined with it, too. */
function ofReshape(from: Shape, to: Shape): Meeting[] {
  return from.flatMap((extent, axis): Meeting[] => {
    const outer = sizeOf(from.slice(0, axis))
    const own = to.findIndex((n, i) => n > 1 && sizeOf(to.slice(0, i)) === outer)
    return own < 0 || extent === 1 ? [] : [{ input: 0, axis, own }]
  })
}

/** How folds of parts of what a node folds make the fold of the whole; undefined where they do not. */
export function combinerOf(n: Node): keyof typeof combinerOp | undefined {
  if (n.op === 'contract') return 'sum'
  if (n.op !== 'reduce' || n.dtype === 'bool' || isArgCombiner(n.attrs.combiner)) return undefined
  return n.attrs.combiner in combinerOp ? (n.attrs.combiner as keyof typeof combinerOp) : undefined
}

/** Which axes of a node are axes of its inputs. Axes that are not named have nothing to do with each other, or more than that. */
export function meetingsOf(n: Node): readonly Meeting[] {
  const [x] = n.inputs
  if (familyOf(n) === 'elementwise') return n.inputs.flatMap((input, i) => all(i, input))
  if (x === undefined) return []
  const axes = x.shape.map((_, i) => i)
  const kept = (where: (axis: number) => boolean): Meeting[] => all(0, x).filter(({ axis }) => where(axis))
  switch (n.op) {
    case 'reshape':
      return ofReshape(x.shape, n.shape)
    case 'permute':
      return n.attrs.perm.map((axis, own) => ({ input: 0, axis, own }))
    case 'broadcast':
      return n.attrs.dims.flatMap((own, axis) =>
        x.shape[axis] === n.shape[own] && n.shape[own] !== 1 ? [{ input: 0, axis, own }] : [],
      )
    case 'slice':
      return kept((d) => isWhole(n, x, d) && n.attrs.step[d] === 1)
    case 'flip':
      return kept((d) => !n.attrs.axes.includes(d))
    case 'pad':
      return kept((d) => isWhole(n, x, d) && n.attrs.low[d] === 0)
    case 'concat':
      return n.inputs.flatMap((input, i) => all(i, input)).filter((m) => m.axis !== n.attrs.axis)
    case 'window':
      return kept((d) => d !== n.attrs.axis).map((m) => ({ ...m, own: m.axis < n.attrs.axis ? m.axis : m.axis + 1 }))
    case 'gather': {
      const [, ...indices] = n.inputs
      const own = n.attrs.sources.flatMap((s, axis): Meeting[] =>
        'axis' in s && x.shape[axis] === n.shape[s.axis] ? [{ input: 0, axis, own: s.axis }] : [],
      )
      return [...own, ...indices.flatMap((input, i) => all(i + 1, input))]
    }
    case 'reduce': {
      const left = axes.filter((d) => !n.attrs.axes.includes(d))
      const order = combinerOf(n) === undefined ? left : [...left, ...n.attrs.axes]
      return order.map((axis, own) => ({ input: 0, axis, own }))
    }
    case 'scan':
      return kept((d) => d !== n.attrs.axis)
    case 'contract': {
      const { lhs, rhs, out } = n.attrs
      const order = [...out, ...summedLabels(lhs, rhs, out)]
      return [lhs, rhs].flatMap((labels, input) =>
        [...labels].map((label, axis) => ({ input, axis, own: order.indexOf(label) })),
      )
    }
    default:
      return []
  }
}

/** Whether a node may be computed in strips: it is what its inputs say, or numbers that its place says. */
export const mayBeStripped = (n: Node): boolean =>
  !['param', 'constant', 'randomBits', 'randomMask', 'scatter'].includes(n.op) &&
  !['boundary', 'region'].includes(familyOf(n))

/** Whether a part of an axis asks for parts of what the node reads, or for no more than what it repeats along it. */
export const hasParts = (n: Node, axis: number, meetings: readonly Meeting[]): boolean =>
  n.inputs.length === 0 || n.op === 'broadcast' || meetings.some((m) => m.own === axis)

/** Whether a node counts along an axis of its own. */
const countsAlong = (n: Node, axis: number): boolean => n.op === 'iota' && n.attrs.axis === axis

/** A node over `extent` indices of an axis of it, on inputs that have as many; `first`, a scalar, is the number of the first. */
export function withExtent(n: Node, axis: number, extent: number, inputs: readonly Node[], first: Node): Node {
  const shape = resized(n.shape, axis, extent)
  const made = <O extends OpName>(op: O, attrs: AttrsByOp[O]): Node => makeNode(op, inputs, attrs) as Node
  switch (n.op) {
    case 'reshape':
      return made('reshape', { shape })
    case 'broadcast':
      return made('broadcast', { ...n.attrs, shape })
    case 'full':
      return made('full', { ...n.attrs, shape })
    case 'gather':
      return made('gather', { ...n.attrs, shape })
    case 'slice':
      return made('slice', { ...n.attrs, limit: resized(n.attrs.limit, axis, extent) })
    case 'iota': {
      if (!countsAlong(n, axis)) return made('iota', { ...n.attrs, shape })
      // Floats are rounded once.
      const dtype = isFloat(n.dtype) ? first.dtype : n.dtype
      const start = makeNode('broadcast', [cast(first, dtype)], { shape, dims: [] })
      return cast(add(made('iota', { ...n.attrs, shape, dtype }), start), n.dtype)
    }
    default:
      return made<OpName>(n.op, n.attrs as AttrsByOp[OpName])
  }
}
