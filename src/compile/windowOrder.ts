/**
 * Operands of convolutions in the order that a matrix unit reads: channels last. A window of data in the order of its axes is gathered element
 * by element; with channels last, runs of the depth lie side by side, or runs of columns where the depth is positions (gradients of weights). Data and
 * weights in that order are values of their own (an identity over permuted views), which planning stores where the model finds that cheaper than
 * gathering, in the kernel that makes them where it can.
 */

import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { summedLabels } from '../rewrite/contraction.ts'
import type { Machine } from '../target/machine.ts'
import { dtypeBytes, isFloat } from '../types/dtype.ts'
import { type Shape, sizeOf } from '../types/shape.ts'

/** Bytes of neighbours that one copy takes. */
export const run = 16

/** The graph with windowed operands of its contractions over values whose channels come last; itself where there are none. */
export function orderWindows(graph: Graph, { dotBlock }: Machine, mode: NumericsMode): Graph {
  if (mode === 'strict' || dotBlock.gatherSeconds === undefined) return graph
  // What several products read in one order is one value.
  return withContext(() => mapGraph(graph, inOrders))
}

/** A node on other inputs: a product over operands in the order that suits a unit. */
function inOrders(node: Node, inputs: readonly Node[]): Node {
  const [lhs, rhs] = inputs
  const same = withInputs(node, inputs)
  if (node.op !== 'contract' || lhs === undefined || rhs === undefined || !isForUnit(node)) return same
  const { lhs: a, rhs: b } = node.attrs
  const data = ordered(node, lhs, a, b) ?? ordered(node, rhs, b, a)
  if (data === undefined) return same
  return inOrigin(node.origin, () => {
    const isFirst = data.of === lhs
    const other = { node: isFirst ? rhs : lhs, labels: isFirst ? b : a }
    const weights = data.depth === undefined ? byOwn(other, isFirst ? a : b) : byDepth(other, data.depth)
    const [x, y] = isFirst ? [data.node, weights.node] : [weights.node, data.node]
    const labels = isFirst ? { lhs: a, rhs: weights.labels } : { lhs: weights.labels, rhs: b }
    const { out } = node.attrs
    if (data.column === undefined || out.endsWith(data.column))
      return makeNode('contract', [x, y], { ...node.attrs, ...labels })
    // Results side by side as their columns are: planning decides whether they are turned where they are stored or afterwards.
    const turned = out.replace(data.column, '') + data.column
    const product = makeNode('contract', [x, y], { ...node.attrs, ...labels, out: turned })
    return makeNode('permute', [product], { perm: [...out].map((l) => turned.indexOf(l)) })
  })
}

/** Whether a matrix unit may multiply a contraction. */
export const isForUnit = ({ dtype, attrs }: NodeOf<'contract'>): boolean =>
  isFloat(dtype) &&
  (dtypeBytes(dtype) === 2 || (dtypeBytes(dtype) === 4 && attrs.precision !== undefined && attrs.precision !== 'ieee'))

/** The same values as an operation's result: views belong to whoever reads them, what is computed planning may store. */
export const stored = (n: Node): Node => makeNode('cast', [n], { dtype: n.dtype })

/** A value in another order. */
export interface Copy {
  readonly source: Node
  readonly view: NodeOf<'permute'>
}

/** What a node shows in another order, where it is one of those values: a permuted view, stored. */
export function copyOf(node: Node): Copy | undefined {
  const [view] = node.inputs
  const [source] = view?.inputs ?? []
  return node.op === 'cast' && view?.op === 'permute' && node.dtype === view.dtype && source !== undefined
    ? { source, view }
    : undefined
}

interface Ordered {
  readonly of: Node
  readonly node: Node
  /** Summed labels, the channels last; undefined where positions are summed, and the channels are columns. */
  readonly depth: string | undefined
  /** The label of such channels. */
  readonly column: string | undefined
}

/** Whether an axis is of whole copies. */
const isWhole = (extent: number, { dtype }: Node): boolean => (extent * dtypeBytes(dtype)) % run === 0

/** An operand whose windows lie over data with channels last; undefined where it has no windows along the depth, or too few channels. */
function ordered(node: NodeOf<'contract'>, operand: Node, labels: string, others: string): Ordered | undefined {
  const summed = [...summedLabels(labels, others, node.attrs.out)].filter(
    (l) => labels.includes(l) && others.includes(l),
  )
  const views = viewsOf(operand)
  const isSpread = views.chain.some((v) => v.op === 'window' || v.op === 'pad')
  if (!isSpread && !isCutAnywhere(operand, labels, summed)) return undefined
  const extentOf = (label: string): number => operand.shape[labels.indexOf(label)] ?? 1
  const seen = new Map([...labels].map((l, d) => [l, seenBy(views, d)]))
  const own = [...labels].filter((l) => !others.includes(l))
  const along = (of: readonly string[]): number =>
    of.reduce((n, l) => (seen.get(l) === undefined ? n * extentOf(l) : n), 1)
  // Tiles of 16 bits are multiplied as they lie in memory, along the depth or across it.
  const byColumns = dtypeBytes(operand.dtype) === 2 && along(summed) > along(own)
  for (const label of byColumns ? [...own, ...summed] : summed) {
    const at = seen.get(label)
    if (at === undefined || !isWhole(extentOf(label), operand)) continue
    const { source, axis, chain } = at
    const rank = source.shape.length
    if (axis === rank - 1) continue
    const order = [...Array.from({ length: rank }, (_, d) => d).filter((d) => d !== axis), axis]
    const last = stored(makeNode('permute', [source], { perm: order }))
    const back = makeNode('permute', [last], { perm: order.map((_, d) => order.indexOf(d)) })
    const rebuilt = chain.reduceRight<Node>((x, view) => withInputs(view, [x]), back)
    return own.includes(label)
      ? { of: operand, node: rebuilt, depth: undefined, column: label }
      : { of: operand, node: rebuilt, depth: [...summed.filter((l) => l !== label), label].join(''), column: undefined }
  }
  return undefined
}

export interface Seen extends ReturnType<typeof viewsOf> {
  /** Of the source. */
  readonly axis: number
}

/** What views see of an axis, behind all windows: up to where it is an axis no more, since it is joined with others there; undefined of places and taps. */
export function seenBy({ chain, source }: ReturnType<typeof viewsOf>, of: number): Seen | undefined {
  let axis = of
  for (const [i, view] of chain.entries()) {
    const inner = throughView(axis, view)
    if (inner === undefined) {
      const isBehind = !chain.slice(i).some((v) => v.op === 'window')
      return isBehind && i > 0 ? { source: view, axis, chain: chain.slice(0, i) } : undefined
    }
    axis = inner
  }
  return { source, axis, chain }
}

/**
 * Whether lines of an operand of 16 bits, which the depth is no part of, end inside a copy: channels of images of 7 x 7 times a matrix. Lines of one axis
 * are padded instead (plan/cost/paddedRows.ts).
 */
function isCutAnywhere(operand: Node, labels: string, summed: readonly string[]): boolean {
  const first = [...labels].findLastIndex((l) => summed.includes(l)) + 1
  const along = labels.length - first
  if (dtypeBytes(operand.dtype) > 2 || first === 0 || along < (operand.op === 'reshape' ? 1 : 2)) return false
  return !isWhole(sizeOf(operand.shape.slice(first)), operand)
}

/** Views over a node down to what they see, outermost first. */
export function viewsOf(operand: Node): { readonly chain: readonly Node[]; readonly source: Node } {
  const chain: Node[] = []
  let at = operand
  for (;;) {
    const [inner] = at.inputs
    if (!isView(at) || inner === undefined) break
    chain.push(at)
    at = inner
  }
  return { chain, source: at }
}

/** Whether a node is a view that windows are made with: of the phases of transposed convolutions, elements repeated in a row are a part. */
const isView = (n: Node): boolean =>
  n.op === 'window' || n.op === 'pad' || n.op === 'slice' || n.op === 'broadcast' || n.op === 'reshape'

/** The axis of a view's operand that an axis of the view is, or is the last digit of. */
function throughView(axis: number, view: Node): number | undefined {
  if (view.op === 'window') {
    if (axis === view.attrs.axis || axis === view.attrs.axis + 1) return undefined
    return axis > view.attrs.axis ? axis - 1 : axis
  }
  if (view.op === 'reshape') return throughReshape(axis, view.inputs[0]?.shape ?? [], view.shape)
  if (view.op === 'broadcast') {
    const from = view.attrs.dims.indexOf(axis)
    return from >= 0 && view.inputs[0]?.shape[from] === view.shape[axis] ? from : undefined
  }
  const isWhole = view.shape[axis] === view.inputs[0]?.shape[axis]
  return isWhole ? axis : undefined
}

/** The axis that an axis of a reshaped value is, or is the last digit of; axes of one index aside. */
function throughReshape(axis: number, from: Shape, to: Shape): number | undefined {
  // Indices that lie behind an axis end where those behind the one it comes from do.
  const behind = (shape: Shape, d: number): number => shape.slice(d + 1).reduce((n, e) => n * e, 1)
  const source = from.findIndex((e, d) => e > 1 && behind(from, d) === behind(to, axis))
  const extent = from[source]
  return extent !== undefined && extent % (to[axis] ?? 1) === 0 ? source : undefined
}

interface Labelled {
  readonly node: Node
  readonly labels: string
}

/** Weights as a value whose depth is in some order, after all else. */
const byDepth = (of: Labelled, depth: string): Labelled =>
  inOrder(
    of,
    [...of.labels].filter((l) => !depth.includes(l)).join('') +
      [...depth].filter((l) => of.labels.includes(l)).join(''),
  )

/** The other operand with its own labels last, where they are of whole copies: its channels. */
function byOwn(of: Labelled, others: string): Labelled {
  const own = [...of.labels].filter((l) => !others.includes(l))
  const extent = own.reduce((n, l) => n * (of.node.shape[of.labels.indexOf(l)] ?? 1), 1)
  return isWhole(extent, of.node)
    ? inOrder(of, [...of.labels].filter((l) => others.includes(l)).join('') + own.join(''))
    : of
}

/** A value with its axes in the order of some labels. */
function inOrder({ node, labels }: Labelled, to: string): Labelled {
  if (to === labels) return { node, labels }
  return { node: stored(makeNode('permute', [node], { perm: [...to].map((l) => labels.indexOf(l)) })), labels: to }
}
