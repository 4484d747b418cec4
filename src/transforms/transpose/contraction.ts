/**
 * Transposing contractions: the cotangent contracted with the known operand, labels as they were, so nothing is transposed
 * in memory. Permutations, sliding windows and padding between the contraction and what it is linear in are taken in the same step:
 * the gradient of a convolution in its data is one contraction over windows of the cotangent, not a sum of shifted products; of a strided one
 * by phases, so that no zeros between the cotangents are multiplied.
 */
import { contractLabelled, labelAt } from '../../compose/contract.ts'
import { type Phases, phasesOf, phaseWeights, phaseWindows, roomFor } from '../../compose/phases.ts'
import { pad, reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
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
  /** Axes that are made by phases (src/compose/phases.ts), by their label, which is that of the positions. */
  readonly phased?: ReadonlyMap<string, Phased>
}

/** An axis made by phases: the label of these, and how they interleave, without padding where that was taken away with them. */
interface Phased {
  readonly label: string
  readonly phases: Phases
  readonly padding: Node | undefined
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
function throughWindow({ target, known, cotangent }: Problem, withPadding: boolean): Problem | undefined {
  const { node, labels, lead = { extents: [], axes: 0 } } = target
  if (node.op !== 'window' || node.attrs.axis < lead.axes) return undefined
  const { axis } = node.attrs
  const place = axis - lead.axes + lead.extents.length
  const position = labels[place] ?? ''
  const tap = labels[place + 1] ?? ''
  const slid = cotangent.labels.indexOf(position)
  const slides = slid >= 0 && !known.labels.includes(position) && target.phased?.has(position) !== true
  if (!slides || cotangent.labels.includes(tap) || !known.labels.includes(tap)) return undefined
  const inner = operand(node, 0)
  const apart = inPhases({ target, known, cotangent }, node, position, tap, withPadding)
  if (apart !== undefined) return apart
  return {
    target: { ...target, node: inner, labels: labels.slice(0, place + 1) + labels.slice(place + 2) },
    known: { node: flipAxis(known.node, known.labels.indexOf(tap)), labels: known.labels },
    cotangent: {
      node: windowsOfPositions(cotangent.node, slid, node.attrs, inner.shape[axis] ?? 0),
      labels: cotangent.labels.slice(0, slid + 1) + tap + cotangent.labels.slice(slid + 1),
    },
  }
}

/** The padding that the input of windows is, where it can be taken away with a window along one of its axes, and which axis that is of it. */
function paddingBelow(
  node: Node,
  along: number,
  lead: number,
): { readonly node: NodeOf<'pad'>; readonly axis: number } | undefined {
  let [below, axis] = [node, along]
  while (below.op === 'window') {
    if (below.attrs.axis === axis || below.attrs.axis === axis - 1) return undefined
    if (below.attrs.axis < axis) axis--
    below = operand(below, 0)
  }
  if (below.op !== 'pad') return undefined
  const inner = operand(below, 0)
  const { low, interior } = below.attrs
  const isTaken = below.shape.every((n, d) => d >= lead || (inner.shape[d] === n && low[d] === 0))
  return isTaken && interior[axis] === 0 && (low[axis] ?? 0) >= 0 ? { node: below, axis } : undefined
}

/**
 * The same with strided windows taken away by phases, where those have fewer taps than windows over the cotangent with zeros between
 * (a data gradient is a transposed convolution).
 */
function inPhases(
  { target, known, cotangent }: Problem,
  node: NodeOf<'window'>,
  position: string,
  tap: string,
  withPadding: boolean,
): Problem | undefined {
  const { axis, size, stride, dilation } = node.attrs
  const slid = cotangent.labels.indexOf(position)
  const below = withPadding ? paddingBelow(operand(node, 0), axis, target.lead?.axes ?? 0) : undefined
  const inner = below === undefined ? operand(node, 0) : operand(below.node, 0)
  const length = inner.shape[below?.axis ?? axis] ?? 0
  const low = below?.node.attrs.low[below.axis] ?? 0
  const extent = cotangent.node.shape[slid] ?? 0
  if (stride === 1 || extent === 0 || length === 0) return undefined
  const phases = phasesOf({ stride, dilation, extent, kernel: size, low, length })
  if (phases.taps >= size) return undefined
  const used = new Set([...target.labels, ...known.labels, ...cotangent.labels])
  for (const { label } of target.phased?.values() ?? []) used.add(label)
  let next = 0
  while (used.has(labelAt(next))) next++
  const label = labelAt(next)
  const [before, after] = roomFor(phases)
  const room = pad(
    cotangent.node,
    cotangent.node.shape.map((_, d): [number, number] => (d === slid ? [before, after] : [0, 0])),
  )
  const put = (labels: string, at: number, more: string): string =>
    labels.slice(0, at + 1) + more + labels.slice(at + 1)
  const tapped = known.labels.indexOf(tap)
  const place = target.labels.indexOf(position)
  return {
    target: {
      ...target,
      node: operand(node, 0),
      labels: target.labels.slice(0, place + 1) + target.labels.slice(place + 2),
      phased: new Map([...(target.phased ?? []), [position, { label, phases, padding: below?.node }]]),
    },
    known: { node: phaseWeights(known.node, [tapped], [phases]), labels: put(known.labels, tapped, label) },
    cotangent: {
      node: phaseWindows(room, slid, phases),
      labels: put(cotangent.labels, slid, phases.apart ? label + tap : tap),
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
    const phased = target.phased?.get(label)
    if (phased?.padding === node) continue
    if (phased !== undefined) return undefined
    const start = node.attrs.low[axis] ?? 0
    const step = (node.attrs.interior[axis] ?? 0) + 1
    const limit = start + Math.max(0, (n - 1) * step + 1)
    k = crop(k, label, start, limit, step)
    c = crop(c, label, start, limit, step)
  }
  const taken = [...(target.phased ?? [])].map(([label, p]) => [label, { ...p, padding: undefined }] as const)
  return { target: { ...target, node: inner, phased: new Map(taken) }, known: k, cotangent: c }
}

/** Takes everything between the contraction and what it is linear in that labels can express. */
function simplify(problem: Problem, withPadding = true): Problem {
  let p = problem
  for (;;) {
    if (p.target.lead === undefined) p = { ...p, target: { ...p.target, ...throughPermutes(p.target) } }
    const grouped = p.target.lead === undefined ? throughReshape(p.target) : undefined
    const next =
      throughWindow(grouped === undefined ? p : { ...p, target: { ...p.target, ...grouped } }, withPadding) ??
      throughPad(p)
    if (next === undefined) break
    p = next
  }
  // Phases that count without a padding are those of nothing else.
  const isLeft = [...(p.target.phased?.values() ?? [])].some((q) => q.padding !== undefined)
  return isLeft ? simplify(problem, false) : p
}

/** The contraction that gives the target's cotangent, operands in the order the forward pass had them. */
function solve({ target, known, cotangent }: Problem, knownFirst: boolean, precision: Precision | undefined): Node {
  const { node, lead = { extents: [], axes: 0 } } = target
  // Phases stand behind their positions until they are read as one axis.
  const axes = [...lead.extents, ...node.shape.slice(lead.axes)].flatMap((extent, i) => {
    const label = target.labels[i] ?? ''
    const phased = target.phased?.get(label)
    if (phased === undefined) return [{ label, extent }]
    const { count, stride } = phased.phases
    return [
      { label, extent: count },
      { label: phased.label, extent: stride },
    ]
  })
  const labels = axes.map((a) => a.label).join('')
  const shape = axes.map((a) => a.extent)
  const present = [...labels].filter((l) => known.labels.includes(l) || cotangent.labels.includes(l))
  const c = throughPermutes(cotangent)
  const k = throughPermutes(known)
  const [a, b] = knownFirst ? [k, c] : [c, k]
  const y = contractLabelled(a.node, a.labels, b.node, b.labels, present.join(''), precision)
  // A label only the target has was summed alone: every position gets the same cotangent.
  const dims = present.map((l) => labels.indexOf(l))
  const whole = present.length === labels.length ? y : makeNode('broadcast', [y], { shape, dims })
  return reshape(interleaved(whole, target), node.shape)
}

/** Positions and phases read as one axis each, and what they count beyond it dropped. */
function interleaved(y: Node, { node, labels, lead = { extents: [], axes: 0 }, phased }: Target): Node {
  if (phased === undefined) return y
  const read = [...lead.extents, ...node.shape.slice(lead.axes)]
  const spans = read.map((n, i) => {
    const { count, stride } = phased.get(labels[i] ?? '')?.phases ?? { count: n, stride: 1 }
    return count * stride
  })
  return pad(
    reshape(y, spans),
    read.map((n, i): [number, number] => [0, n - (spans[i] ?? n)]),
  )
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
