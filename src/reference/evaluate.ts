/**
 * The reference backend: evaluates a graph node by node with plain loops. It knows neither index maps nor kernels, so it is
 * an independent oracle of everything below the graph.
 */
import { callInspector, callKernel, invariant, UserError } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { isRegion } from '../graph/ops/region.ts'
import { scalarOf } from '../graph/table.ts'
import { tooLarge } from '../graph/tooLarge.ts'
import { nodesOf } from '../graph/traverse.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import { contract } from './contraction.ts'
import { elementwise } from './elementwise.ts'
import { gather, scatter } from './indexing.ts'
import { reduce, scan } from './reduction.ts'
import { type ApplyGraph, evaluateRegion } from './region.ts'
import { full, iota, randomBits, randomMask } from './source.ts'
import { bytesFor, fromHost, mostBytes, type RefTensor, type Rounding, toHostArray } from './tensor.ts'
import { broadcast, concat, flip, pad, permute, reshape, slice, slidingWindow } from './view.ts'

export { type RefTensor, type Rounding, toHostArray } from './tensor.ts'

export interface EvaluateOptions {
  /** How floats round between operations; `f64` unless told. */
  readonly rounding?: Rounding
}

/**
 * The outputs of a graph for inputs by parameter index; effects call back in order.
 * Throws E_ARGUMENT on inputs that do not fit the parameters, E_CALLBACK when a user's function throws.
 */
export function evaluateGraph(graph: Graph, inputs: readonly HostArray[], options: EvaluateOptions = {}): RefTensor[] {
  const rounding = options.rounding ?? 'f64'
  const args = graph.params.map((p) => readParam(p, inputs))
  return applyGraph(graph, args, rounding)
}

/** The outputs of a graph for arguments by position. */
function applyGraph(graph: Graph, args: readonly RefTensor[], rounding: Rounding): RefTensor[] {
  const nodes = nodesOf(graph)
  const uses = new Map<Node, number>()
  const use = (n: Node, by: number): number => {
    const left = (uses.get(n) ?? 0) + by
    uses.set(n, left)
    return left
  }
  for (const n of nodes) for (const x of n.inputs) use(x, 1)
  for (const n of graph.outputs) use(n, 1)

  const values = new Map<Node, readonly RefTensor[]>()
  graph.params.forEach((p, i) => {
    const a = args[i]
    invariant(a !== undefined, `parameter ${i} has no value`)
    values.set(p, [a])
  })
  const lookUp = (n: Node, index = 0): RefTensor => {
    const v = values.get(n)?.[index]
    invariant(v !== undefined, `node ${n.id} (${n.op}) has no value`)
    return v
  }
  for (const node of nodes) {
    if (node.op === 'param') continue
    if (isRegion(node)) {
      const apply: ApplyGraph = (inside, on) => applyGraph(inside, on, rounding)
      values.set(
        node,
        evaluateRegion(
          node,
          node.inputs.map((x) => lookUp(x)),
          apply,
        ),
      )
    } else if (node.op === 'result') {
      const [region] = node.inputs
      invariant(region !== undefined, 'result without region')
      values.set(node, [lookUp(region, node.attrs.index)])
    } else {
      values.set(node, [
        evaluateNode(
          node,
          node.inputs.map((x) => lookUp(x)),
          rounding,
        ),
      ])
    }
    for (const x of node.inputs) if (use(x, -1) === 0) values.delete(x)
  }
  return graph.outputs.map((n) => lookUp(n))
}

/** The value of a node of constants, rounded to its dtype: what importers compute shapes with. */
export function evaluateConstant(node: Node): HostArray {
  const [value] = evaluateGraph({ params: [], outputs: [node], effects: [] }, [], { rounding: 'dtype' })
  invariant(value !== undefined, 'a constant without value')
  return toHostArray(value)
}

function readParam(node: NodeOf<'param'>, inputs: readonly HostArray[]): RefTensor {
  const host = inputs[node.attrs.index]
  if (host === undefined) throw new UserError('E_ARGUMENT', `input ${node.attrs.index} is missing`)
  return fromHost(host, node.dtype, node.shape)
}

/** Throws E_OVERFLOW before anything is allocated for a node whose value has no room; a reshape is the memory of what it reshapes. */
function checkValue(node: Node): void {
  const bytes = bytesFor(sizeOf(node.shape))
  if (bytes > mostBytes && node.op !== 'reshape')
    throw tooLarge({
      node,
      bytes,
      most: mostBytes,
      holder: 'the reference device',
      why: 'it stores the value of every operation, views among them',
      help: 'run it on another device, where values that kernels do not store take no memory',
    })
}

/** One node on the values of its inputs. Throws E_OVERFLOW for a value that has no room. */
export function evaluateNode(node: Node, inputs: readonly RefTensor[], rounding: Rounding): RefTensor {
  checkValue(node)
  const scalar = scalarOf(node)
  if (scalar !== undefined) return elementwise(scalar.op, inputs, node.dtype, rounding)
  const input = (i: number): RefTensor => {
    const x = inputs[i]
    invariant(x !== undefined, `${node.op} without input ${i}`)
    return x
  }
  switch (node.op) {
    case 'constant':
      return fromHost(node.attrs.data, node.dtype, node.shape)
    case 'full':
      return full(node)
    case 'iota':
      return iota(node)
    case 'randomBits':
      return randomBits(input(0), node)
    case 'randomMask':
      return randomMask(input(0), node)
    case 'reshape':
      return reshape(input(0), node)
    case 'permute':
      return permute(input(0), node.attrs.perm)
    case 'broadcast':
      return broadcast(input(0), node)
    case 'slice':
      return slice(input(0), node)
    case 'flip':
      return flip(input(0), node)
    case 'pad':
      return pad(input(0), node)
    case 'concat':
      return concat(inputs, node)
    case 'window':
      return slidingWindow(input(0), node)
    case 'gather':
      return gather(inputs, input(0), node)
    case 'scatter':
      return scatter(inputs, input(0), input(1), node, rounding)
    case 'reduce':
      return reduce(input(0), node, rounding)
    case 'scan':
      return scan(input(0), node, rounding)
    case 'contract':
      return contract(input(0), input(1), node, rounding)
    case 'opaque':
      return runOpaque(node, inputs)
    case 'inspect':
      return runInspect(node, input(0))
    default:
      throw new UserError('E_UNSUPPORTED', `the reference backend does not know ${node.op}`)
  }
}

function runOpaque(node: NodeOf<'opaque'>, inputs: readonly RefTensor[]): RefTensor {
  const { kernel } = node.attrs
  const output = hostArray(node.dtype, sizeOf(node.shape))
  callKernel(kernel.name, () => kernel.run(inputs.map(toHostArray), output))
  return fromHost(output, node.dtype, node.shape)
}

function runInspect(node: NodeOf<'inspect'>, x: RefTensor): RefTensor {
  const { callback } = node.attrs
  callInspector(callback.label, () => callback.call(toHostArray(x), x.shape, x.dtype))
  return x
}
