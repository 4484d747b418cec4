/**
 * Convolutions over few channels (images of three colours): a matrix unit's operand would be gathered element by element, however it is ordered, since
 * no run of neighbours is as long as a copy. With the channels padded with zeros to one, `windowOrder.ts` puts them last. The zeros are multiplied too,
 * which costs less than gathering; gradients of weights have rows for them that are left out.
 */
import { pad, sliceAxis } from '../compose/views.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { mapGraph, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import type { Machine } from '../target/machine.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { isForUnit, run, type Seen, seenBy, stored, viewsOf } from './windowOrder.ts'

/** Of images: behind their number, before their places. */
const channelAxis = 1

/** Of what is multiplied, the most that may be zeros beside each channel. */
const mostZeros = 2

/** The graph with the channels of such convolutions padded; itself where there are none. */
export function padChannels(graph: Graph, { dotBlock }: Machine, mode: NumericsMode): Graph {
  if (mode === 'strict' || dotBlock.gatherSeconds === undefined) return graph
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    const [lhs, rhs] = inputs
    if (node.op !== 'contract' || lhs === undefined || rhs === undefined || !isForUnit(node)) return same
    const { lhs: a, rhs: b, out } = node.attrs
    const found = channelsOf(lhs, a) ?? channelsOf(rhs, b)
    if (found === undefined) return same
    const { of, label, extent, seen } = found
    // Groups of channels are batches of products.
    if (a.includes(label) && b.includes(label) && out.includes(label)) return same
    const more = extent - (seen.source.shape[channelAxis] ?? 0)
    return inOrigin(node.origin, () => {
      const widened = (x: Node, axis: number): Node => (axis < 0 ? x : padEnd(x, axis, more))
      const data = seen.chain.reduceRight<Node>(
        (x, view) => withInputs(view, [x]),
        stored(padEnd(seen.source, channelAxis, more)),
      )
      const [x, y] = of === lhs ? [data, widened(rhs, b.indexOf(label))] : [widened(lhs, a.indexOf(label)), data]
      const made = makeNode('contract', [x, y], node.attrs)
      const axis = out.indexOf(label)
      return axis < 0 ? made : sliceAxis(made, axis, 0, extent - more)
    })
  })
}

interface Channels {
  readonly of: Node
  readonly label: string
  /** What they are padded to. */
  readonly extent: number
  readonly seen: Seen
}

/** The channels of images that an operand has windows over, where they are fewer than a copy takes: the axis behind that of images. */
function channelsOf(operand: Node, labels: string): Channels | undefined {
  const views = viewsOf(operand)
  const isPlain = views.chain.every((v) => v.op === 'window' || v.op === 'pad')
  if (!isPlain || !views.chain.some((v) => v.op === 'window')) return undefined
  const group = run / dtypeBytes(operand.dtype)
  for (const [d, label] of [...labels].entries()) {
    const [extent = 1, seen] = [operand.shape[d], seenBy(views, d)]
    if (seen?.axis !== channelAxis) continue
    const isFew = extent < group && extent * (1 + mostZeros) >= group
    return isFew ? { of: operand, label, extent: group, seen } : undefined
  }
  return undefined
}

const padEnd = (x: Node, axis: number, more: number): Node =>
  pad(
    x,
    x.shape.map((_, d) => [0, d === axis ? more : 0] as const),
  )
