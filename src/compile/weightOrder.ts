/**
 * Literal operands of products in an order that loops read. An operand stands in place, or is copied in runs or blocks, where what it is multiplied by
 * or summed over lies side by side in memory. Weights of a transposed convolution have the phases of its results there, which are a grid's: every
 * program would gather its own, element by element, from all of the lines. A literal is written in another order once, when the program is made.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { overElements } from '../host/engine.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { writeElement } from '../scalar/host.ts'
import type { Machine } from '../target/machine.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import { type AxisOffsets, offsetsOf, outside, viewsOf } from './axisOffsets.ts'

type Contraction = NodeOf<'contract'>

/** An operand and the labels of its axes. */
interface Operand {
  readonly node: Node
  readonly labels: string
}

/** The graph with literal operands in the order of loops; itself where there is none to be written, or products are no loops'. */
export function orderWeights(graph: Graph, { loops }: Machine, mode: NumericsMode): Graph {
  if (mode === 'strict' || loops === undefined || !nodesOf(graph).some(hasLiteral)) return graph
  const users = usersOf(graph)
  const ordered = new Map<string, Node>()
  const numbers = new Map<Node, number>()
  const numberOf = (n: Node): number => {
    if (!numbers.has(n)) numbers.set(n, numbers.size)
    return numbers.get(n) ?? 0
  }
  const orderOf = (node: Contraction, side: 0 | 1): Operand | undefined => {
    const operand = node.inputs[side]
    const { lhs, rhs, out } = node.attrs
    const [labels, others] = side === 0 ? [lhs, rhs] : [rhs, lhs]
    if (operand === undefined || !isReadOnce(operand, users)) return undefined
    const { source } = viewsOf(operand)
    if (source.op !== 'constant' || sizeOf(operand.shape) > sizeOf(source.shape)) return undefined
    const offsets = offsetsOf(operand)
    if (offsets === undefined) return undefined
    const isOfBoth = (l: string): boolean => out.includes(l) && others.includes(l)
    const isBeside = (l: string, d: number): boolean => !isOfBoth(l) && isRun(offsets.axes[d] ?? [])
    if ([...labels].some(isBeside)) return undefined
    const rank = (l: string): number => (isOfBoth(l) ? 0 : out.includes(l) ? 2 : 1)
    const to = [...labels].toSorted((a, b) => rank(a) - rank(b)).join('')
    const order = [...to].map((l) => labels.indexOf(l))
    const key = `${numberOf(operand)}:${order}`
    const made = ordered.get(key) ?? inOrigin(operand.origin, () => written(operand, source.attrs.data, offsets, order))
    ordered.set(key, made)
    return { node: made, labels: to }
  }
  let changed = false
  const result = mapGraph(graph, (node, inputs) => {
    if (node.op !== 'contract') return withInputs(node, inputs)
    const [a, b] = [orderOf(node, 0), orderOf(node, 1)]
    const [lhs, rhs] = [a?.node ?? inputs[0], b?.node ?? inputs[1]]
    if ((a === undefined && b === undefined) || lhs === undefined || rhs === undefined) return withInputs(node, inputs)
    changed = true
    const { attrs } = node
    return inOrigin(node.origin, () =>
      makeNode('contract', [lhs, rhs], { ...attrs, lhs: a?.labels ?? attrs.lhs, rhs: b?.labels ?? attrs.rhs }),
    )
  })
  return changed ? result : graph
}

/** Whether a node is a contraction of a view of a literal. */
const hasLiteral = (n: Node): boolean =>
  n.op === 'contract' && n.inputs.some((x) => x.op !== 'constant' && viewsOf(x).source.op === 'constant')

/** Whether nobody else reads an operand, or anything that it is a view of: what is written in another order takes its place. */
function isReadOnce(operand: Node, users: ReadonlyMap<Node, readonly Node[]>): boolean {
  for (let n: Node | undefined = operand; n !== undefined; n = n.inputs[0])
    if (n.inputs.length > 1 || (users.get(n) ?? []).length !== 1) return false
  return true
}

/** Whether an axis goes along memory. */
const isRun = (axis: readonly number[]): boolean => axis.length > 1 && axis.every((x, i) => x === (axis[0] ?? 0) + i)

/** What an operand's axes show of a literal, with the axes in another order. */
function written(operand: Node, data: HostArray, { axes, other }: AxisOffsets, order: readonly number[]): Node {
  const { dtype } = operand
  const shape = order.map((d) => operand.shape[d] ?? 1)
  const out = hostArray(dtype, sizeOf(shape))
  if (other !== undefined) {
    writeElement(out, dtype, 0, other)
    out.fill(out[0] as never)
  }
  const along = order.map((d) => Float64Array.from(axes[d] ?? []))
  overElements(() => write(out, data, along))
  return makeNode('constant', [], { data: out, dtype, shape })
}

/** Elements of a literal by offsets along axes, the last of which moves first; what is outside stays. */
function write(out: HostArray, data: HostArray, along: readonly Float64Array[]): void {
  const last = along.at(-1) ?? Float64Array.of(0)
  const outer = along.slice(0, -1)
  const at = outer.map(() => 0)
  for (let to = 0; to < out.length; to += last.length) {
    const base = outer.reduce((n, axis, d) => n + (axis[at[d] ?? 0] ?? outside), 0)
    if (!Number.isNaN(base)) writeRow(out, data, last, base, to)
    for (let d = outer.length - 1; d >= 0; d--) {
      at[d] = (at[d] ?? 0) + 1
      if ((at[d] ?? 0) < (outer[d]?.length ?? 1)) break
      at[d] = 0
    }
  }
}

function writeRow(out: HostArray, data: HostArray, row: Float64Array, base: number, to: number): void {
  for (let i = 0; i < row.length; i++) {
    const x = data[base + (row[i] ?? 0)]
    if (x !== undefined) out[to + i] = x
  }
}
