/** Batching: a graph over a leading axis of some inputs, by one rule an op. */
import { moveAxis } from '../compose/views.ts'
import { InternalError, invariant, UserError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import { isRegion, type RegionOp } from '../graph/ops/region.ts'
import { opDef } from '../graph/table.ts'
import { nodesOf } from '../graph/traverse.ts'
import { rebuild } from './inline.ts'
import { at, operand, refuse } from './rule.ts'
import {
  type BatchedNode,
  type Batching,
  type BatchRules,
  batchRules,
  type RegionBatching,
  type RegionBatchRules,
  regionBatching,
} from './vmap/index.ts'
import { repeatBatch } from './vmap/operand.ts'

export type { BatchedNode } from './vmap/index.ts'

export interface BatchedGraph {
  readonly outputs: readonly BatchedNode[]
  readonly effects: readonly Node[]
}

function batchNode<O extends Exclude<OpName, RegionOp | 'result'>>(
  node: NodeOf<O>,
  call: Omit<Batching<O>, 'node'>,
): Node {
  const rule = (batchRules as BatchRules)[node.op]
  if (rule === 'constant') throw new InternalError(`${node.op} has no inputs to batch`)
  if (typeof rule === 'object') return refuse(node as Node, 'vmap', rule.unsupported)
  return rule({ ...call, node })
}

/** The results of a region over a batch. */
function batchRegion<O extends RegionOp>(
  node: NodeOf<O>,
  call: Pick<RegionBatching<O>, 'inputs' | 'batched' | 'size'>,
): readonly BatchedNode[] {
  const { size } = call
  const rule: (call: RegionBatching<O>) => readonly BatchedNode[] = (regionBatching as RegionBatchRules)[node.op]
  return rule({
    ...call,
    node,
    apply: (graph, args) => batchGraph(graph, args, size).outputs,
    inside: (graph, batched) =>
      withContext(() => {
        const params = graph.params.map((p, i) => param(i, batched[i] === true ? [size, ...p.shape] : p.shape, p.dtype))
        const args = params.map((p, i) => ({ node: p, batched: batched[i] === true }))
        return { params, outputs: batchGraph(graph, args, size).outputs }
      }),
  })
}

/**
 * The graph on `args`, one for each parameter, those batched with a leading axis of extent `size`. What depends on no batched
 * argument is computed once. Nodes are built in the current context, in the origins of the nodes they stand for.
 */
export function batchGraph(graph: Graph, args: readonly BatchedNode[], size: number): BatchedGraph {
  invariant(args.length === graph.params.length, 'one argument for each parameter')
  const images = new Map<Node, BatchedNode>(graph.params.map((p, i) => [p, at(args, i, 'argument')]))
  const image = (n: Node): BatchedNode => {
    const r = images.get(n)
    invariant(r !== undefined, 'a node before its inputs')
    return r
  }
  const regions = new Map<Node, readonly BatchedNode[]>()
  for (const node of nodesOf(graph)) {
    if (node.op === 'param') continue
    const ofRegion = node.op === 'result' ? regions.get(operand(node, 0)) : undefined
    if (node.op === 'result' && ofRegion !== undefined) {
      images.set(node, at(ofRegion, node.attrs.index, 'result'))
      continue
    }
    const operands = node.inputs.map(image)
    const inputs = operands.map((o) => o.node)
    const batched = operands.map((o) => o.batched)
    // The second input of an effect is its place in the order, no value.
    const depends = opDef(node).boundary === 'effect' ? batched[0] === true : batched.includes(true)
    if (isRegion(node) && depends) {
      regions.set(
        node,
        inOrigin(node.origin, () => batchRegion(node, { inputs, batched, size })),
      )
      continue
    }
    const made = inOrigin(node.origin, () =>
      depends && !isRegion(node) && node.op !== 'result'
        ? batchNode(node, { inputs, batched, size })
        : rebuild(node, inputs),
    )
    images.set(node, { node: made, batched: depends })
  }
  return { outputs: graph.outputs.map(image), effects: graph.effects.map((n) => image(n).node) }
}

function checkAxes(axes: readonly (number | null)[], nodes: readonly Node[], extra: number, what: string): void {
  if (axes.length !== nodes.length)
    throw new UserError('E_ARGUMENT', `${axes.length} axes for ${nodes.length} ${what}s of vmap`)
  axes.forEach((axis, i) => {
    const rank = at(nodes, i, what).shape.length + extra
    if (axis !== null && (!Number.isInteger(axis) || axis < 0 || axis >= rank))
      throw new UserError('E_AXIS', `vmap over axis ${axis} of ${what} ${i}, which has rank ${rank}`)
  })
}

/**
 * The graph over a batch of `size`: parameter i has the batch inserted at axis `inAxes[i]` (null: none, one value for all),
 * output i at `outAxes[i]` (null: the output does not depend on the batch). Throws E_AXIS for an axis out of range, E_ARGUMENT
 * for a null where the output depends on the batch.
 */
export function vmapGraph(
  graph: Graph,
  inAxes: readonly (number | null)[],
  outAxes: readonly (number | null)[],
  size: number,
): Graph {
  if (!Number.isInteger(size) || size < 0)
    throw new UserError('E_ARGUMENT', `vmap over a batch of ${size}`, { help: 'its size is a whole number' })
  checkAxes(inAxes, graph.params, 1, 'input')
  checkAxes(outAxes, graph.outputs, 1, 'output')
  return withContext(() => {
    const params = graph.params.map((p, i) => {
      const axis = inAxes[i] ?? null
      return axis === null ? p : param(p.attrs.index, p.shape.toSpliced(axis, 0, size), p.dtype)
    })
    const args = params.map((p, i): BatchedNode => {
      const axis = inAxes[i] ?? null
      return axis === null ? { node: p, batched: false } : { node: moveAxis(p, axis, 0), batched: true }
    })
    const { outputs, effects } = batchGraph(graph, args, size)
    const placed = outputs.map(({ node, batched }, i) => {
      const axis = outAxes[i] ?? null
      if (axis !== null) return moveAxis(batched ? node : repeatBatch(node, size), 0, axis)
      if (!batched) return node
      throw new UserError('E_ARGUMENT', `output ${i} of vmap depends on the batch, but its axis is null`, {
        help: 'give the axis the batch shall have in it',
      })
    })
    return { params, outputs: placed, effects }
  })
}
