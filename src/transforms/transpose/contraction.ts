/**
 * Transposing contractions: the cotangent contracted with the known operand, labels as they were, so nothing is transposed
 * in memory. Permutations, sliding windows and padding between the contraction and what it is linear in are taken in the same step:
 * the gradient of a convolution in its data is one contraction over windows of the cotangent, not a sum of shifted products.
 */
import { contractLabelled } from '../../compose/contract.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import type { Precision } from '../../types/product.ts'
import { sizeOf } from '../../types/shape.ts'
import { operand } from '../rule.ts'
import { flipAxis, sliceOne } from '../shift.ts'
import type { TransposeRules, Transposition } from './rule.ts'
import { windowsOfPositions } from './window.ts'

/** A tensor whose axes carry labels. */
interface Labelled {
  readonly node: Node
  readonly labels: string
}

/** What the contraction is linear in. Its leading axes may be read as other ones (`lead`): labels are those of that reading. */
interface Target extends Labelled {
  readonly lead?: { readonly extents: readonly number[]; readonly axes: number }
}

/** What a permutation permutes, labels moved along. */
function throughPermutes(x: Labelled): Labelled {
  let { node, labels } = x
  while (node.op === 'permute') {
    const { perm } = node.attrs
    const before = labels
    labels = perm.map((_, i) => before[perm.indexOf(i)] ?? '').join('')
    node = operand(node, 0)
  }
  return { node, labels }
}

/** A reshape of the axes before those a window slid over (a convolution's channels into groups) is taken after the window. */
function throughReshape({ node, labels }: Labelled): Target | undefined {
  const inner = node.op === 'reshape' ? operand(node, 0) : undefined
  if (inner?.op !== 'window' || sizeOf(node.shape) === 0) return undefined
  let same = 0
  while (same < inner.shape.length && node.shape.at(-1 - same) === inner.shape.at(-1 - same)) same++
  const axes = inner.shape.length - same
  if (inner.attrs.axis < axes) return undefined
  return { node: inner, labels, lead: { extents: node.shape.slice(0, node.shape.length - same), axes } }
}

/** The cotangent of the contraction and its known operand, as they are once the linear operand is `target`. */
interface Problem {
  readonly target: Target
  readonly known: Labelled
  readonly cotangent: Labelled
}

/** The same with a window of the target taken away; undefined when positions and taps do not meet the labels that need. */
function throughWindow({ target, known, cotangent }: Problem): Problem | undefined {
  const { node, labels, lead = { extents: [], axes: 0 } } = target
  if (node.op !== 'window' || node.attrs.axis < lead.axes) return undefined
  const { axis } = node.attrs
  const place = axis - lead.axes + lead.extents.length
  const position = labels[place] ?? ''
  const tap = labels[place + 1] ?? ''
  const slid = cotangent.labels.indexOf(position)
  const slides = slid >= 0 && !known.labels.includes(position)
  if (!slides || cotangent.labels.includes(tap) || !known.labels.includes(tap)) return undefined
  const inner = operand(node, 0)
  return {
    target: { ...target, node: inner, labels: labels.slice(0, place + 1) + labels.slice(place + 2) },
    known: { node: flipAxis(known.node, known.labels.indexOf(tap)), labels: known.labels },
    cotangent: {
      node: windowsOfPositions(cotangent.node, slid, node.attrs, inner.shape[axis] ?? 0),
      labels: cotangent.labels.slice(0, slid + 1) + tap + cotangent.labels.slice(slid + 1),
    },
  }
}

/** The elements along a label that padding did not add. */
function crop({ node, labels }: Labelled, label: string, start: number, limit: number, step: number): Labelled {
  const axis = labels.indexOf(label)
  return { node: axis < 0 ? node : sliceOne(node, axis, start, limit, step), labels }
}

/** The same with a padding of the target taken away: what was padded is not computed instead of being dropped. */
function throughPad({ target, known, cotangent }: Problem): Problem | undefined {
  const { node, labels, lead = { extents: [], axes: 0 } } = target
  if (node.op !== 'pad') return undefined
  const inner = operand(node, 0)
  let [k, c] = [known, cotangent]
  for (const [axis, n] of inner.shape.entries()) {
    if (node.shape[axis] === n) continue
    if (axis < lead.axes) return undefined
    const label = labels[axis - lead.axes + lead.extents.length] ?? ''
    const start = node.attrs.low[axis] ?? 0
    const step = (node.attrs.interior[axis] ?? 0) + 1
    const limit = start + Math.max(0, (n - 1) * step + 1)
    k = crop(k, label, start, limit, step)
    c = crop(c, label, start, limit, step)
  }
  return { target: { ...target, node: inner }, known: k, cotangent: c }
}

/** Takes everything between the contraction and what it is linear in that labels can express. */
function simplify(problem: Problem): Problem {
  let p = problem
  for (;;) {
    if (p.target.lead === undefined) p = { ...p, target: throughPermutes(p.target) }
    const grouped = p.target.lead === undefined ? throughReshape(p.target) : undefined
    const next = throughWindow(grouped === undefined ? p : { ...p, target: grouped }) ?? throughPad(p)
    if (next === undefined) return p
    p = next
  }
}

/** The contraction that gives the target's cotangent, operands in the order the forward pass had them. */
function solve({ target, known, cotangent }: Problem, knownFirst: boolean, precision: Precision | undefined): Node {
  const { node, labels, lead = { extents: [], axes: 0 } } = target
  const shape = [...lead.extents, ...node.shape.slice(lead.axes)]
  const present = [...labels].filter((l) => known.labels.includes(l) || cotangent.labels.includes(l))
  const c = throughPermutes(cotangent)
  const k = throughPermutes(known)
  const [a, b] = knownFirst ? [k, c] : [c, k]
  const y = contractLabelled(a.node, a.labels, b.node, b.labels, present.join(''), precision)
  // A label only the target has was summed alone: every position gets the same cotangent.
  const dims = present.map((l) => labels.indexOf(l))
  const whole = present.length === labels.length ? y : makeNode('broadcast', [y], { shape, dims })
  return reshape(whole, node.shape)
}

function transposeContract({ node, cotangent, isLinear, give }: Transposition<'contract'>): void {
  const { lhs, rhs, out, precision } = node.attrs
  const left: Labelled = { node: operand(node, 0), labels: lhs }
  const right: Labelled = { node: operand(node, 1), labels: rhs }
  const first = isLinear(left.node)
  const [target, known] = first ? [left, right] : [right, left]
  const problem = simplify({ target, known, cotangent: { node: cotangent, labels: out } })
  give(problem.target.node, solve(problem, !first, precision))
}

export const contractionTranspose: TransposeRules<'contract'> = { contract: transposeContract }
