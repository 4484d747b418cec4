/** The graph verifier: every promise a graph makes, checked; run after each pass in tests. A failure is an InternalError. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { isArgCombiner, type Scalar } from '../scalar/ops.ts'
import { type DType, isWide } from '../types/dtype.ts'
import { hostArray } from '../types/host.ts'
import { sameShape, showShape } from '../types/shape.ts'
import type { AttrsByOp, Graph, Node, OpName } from './node.ts'
import { graphsInside, isRegion } from './ops/region.ts'
import { type OpDef, opTable } from './table.ts'
import { nodesOf, topologicalOrder } from './traverse.ts'

/** Throws InternalError unless the graph is well formed. */
export function verifyGraph(graph: Graph): void {
  const nodes = nodesOf(graph)
  for (const o of graph.outputs) invariant(!isRegion(o), `the handle of a ${o.op} is an output`)
  for (const node of nodes) {
    try {
      verifyNode(node)
    } catch (cause) {
      const what = cause instanceof Error ? cause.message : String(cause)
      throw new InternalError(`node ${node.id} (${node.op}, from ${node.origin.name}): ${what}`, cause)
    }
  }
  verifyParams(graph, nodes)
  verifyEffects(graph, nodes)
}

function verifyNode(node: Node): void {
  const def = opTable[node.op] as unknown as OpDef<OpName>
  const n = node.inputs.length
  const fits = typeof def.arity === 'number' ? n === def.arity : n >= def.arity.atLeast
  invariant(fits, `${n} inputs`)
  const { shape, dtype } = def.infer(node.inputs, node.attrs as AttrsByOp[OpName])
  invariant(
    sameShape(shape, node.shape) && dtype === node.dtype,
    `says ${node.dtype}${showShape(node.shape)}, its rule gives ${dtype}${showShape(shape)}`,
  )
  for (const input of node.inputs) invariant(input.id < node.id, `input ${input.id} is younger than its user`)
  verifyAttributes(node)
  for (const input of node.inputs)
    invariant(node.op === 'result' || !isRegion(input), `${node.op} computes with the handle of a ${input.op}`)
  for (const { graph } of graphsInside(node)) verifyInside(graph)
}

/** Graphs known to be well formed: several nodes may hold one. */
const verified = new WeakSet<Graph>()

/** A graph inside: well formed by itself, closed, parameters numbered by position, no effects. */
function verifyInside(graph: Graph): void {
  if (verified.has(graph)) return
  verifyGraph(graph)
  invariant(graph.effects.length === 0 && !nodesOf(graph).some((n) => n.op === 'inspect'), 'an effect inside')
  for (const [i, p] of graph.params.entries())
    invariant(p.attrs.index === i, `parameter ${i} of a graph inside has index ${p.attrs.index}`)
  verified.add(graph)
}

function checkScalar(value: Scalar, dtype: DType): void {
  const want = dtype === 'bool' ? 'boolean' : isWide(dtype) ? 'bigint' : 'number'
  invariant(typeof value === want, `a ${typeof value} stands for ${dtype}`)
}

const distinct = (xs: readonly number[]): boolean => new Set(xs).size === xs.length

/** What shape rules take for granted: axes in range and distinct, literals of the right kind. */
function verifyAttributes(node: Node): void {
  const rank = node.inputs[0]?.shape.length ?? 0
  const inRange = (axis: number, of = rank): void =>
    invariant(Number.isInteger(axis) && axis >= 0 && axis < of, `axis ${axis} of rank ${of}`)
  switch (node.op) {
    case 'constant':
      invariant(
        node.attrs.data.constructor === hostArray(node.dtype, 0).constructor,
        `${node.attrs.data.constructor.name} holds ${node.dtype}`,
      )
      break
    case 'full':
      checkScalar(node.attrs.value, node.dtype)
      break
    case 'pad':
      checkScalar(node.attrs.value, node.dtype)
      for (const list of [node.attrs.low, node.attrs.high, node.attrs.interior])
        invariant(list.length === rank, `${list.length} paddings for rank ${rank}`)
      break
    case 'iota':
      inRange(node.attrs.axis, node.shape.length)
      invariant(node.dtype !== 'bool', 'iota of bool')
      break
    case 'slice':
      for (const list of [node.attrs.start, node.attrs.limit, node.attrs.step])
        invariant(list.length === rank && list.every(Number.isInteger), `slice bounds [${list.join(', ')}]`)
      break
    case 'flip':
      node.attrs.axes.forEach((a) => {
        inRange(a)
      })
      invariant(distinct(node.attrs.axes), 'an axis is flipped twice')
      break
    case 'reduce':
      node.attrs.axes.forEach((a) => {
        inRange(a)
      })
      invariant(distinct(node.attrs.axes), 'an axis is reduced twice')
      invariant(
        !isArgCombiner(node.attrs.combiner) || node.dtype === 'i32' || node.dtype === 'i64',
        `positions as ${node.dtype}`,
      )
      break
    case 'concat':
      inRange(node.attrs.axis)
      break
    case 'scan': {
      const { axis, chunk, tree, reverse, exclusive } = node.attrs
      inRange(axis)
      invariant(chunk === undefined || (Number.isInteger(chunk) && chunk > 0), `chunks of ${chunk}`)
      invariant(tree === undefined || !(reverse || exclusive || chunk !== undefined), 'a tree of no plain scan')
      break
    }
    case 'window':
      inRange(node.attrs.axis)
      break
    case 'broadcast':
      node.attrs.dims.forEach((d) => {
        inRange(d, node.shape.length)
      })
      break
    case 'gather':
    case 'scatter': {
      const indices = node.inputs.length - (node.op === 'gather' ? 1 : 2)
      const used = new Set(node.attrs.sources.flatMap((s) => ('input' in s ? [s.input] : [])))
      invariant(used.size === indices, `${indices} index tensors, ${used.size} of them used`)
      break
    }
    case 'inspect': {
      const [, before] = node.inputs
      invariant(node.inputs.length <= 2, 'an effect has a value and at most one effect before it')
      invariant(before === undefined || before.op === 'inspect', `an effect ordered after ${before?.op}`)
      break
    }
    default:
  }
}

function verifyParams(graph: Graph, nodes: readonly Node[]): void {
  const listed = new Set<Node>(graph.params)
  invariant(listed.size === graph.params.length, 'a parameter is listed twice')
  invariant(distinct(graph.params.map((p) => p.attrs.index)), 'two parameters have one index')
  for (const n of nodes) invariant(n.op !== 'param' || listed.has(n), `parameter node ${n.id} is not listed`)
}

/** Effects stand in one chain through their second inputs, and all of it runs. */
function verifyEffects(graph: Graph, nodes: readonly Node[]): void {
  for (const e of graph.effects) invariant(e.op === 'inspect', `${e.op} listed as an effect`)
  const all = nodes.filter((n) => n.op === 'inspect')
  const run = new Set(topologicalOrder(graph.effects))
  for (const e of all) invariant(run.has(e), `effect ${e.id} is reachable from an output only`)
  const befores = all.flatMap((e) => e.inputs.slice(1))
  invariant(new Set(befores).size === befores.length, 'two effects claim the same place in the order')
  invariant(all.length === 0 || befores.length === all.length - 1, 'the effects are not one chain')
}
