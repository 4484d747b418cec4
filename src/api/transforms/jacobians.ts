/** Jacobians and Hessians: linear maps applied to a basis, all directions in one batched program. */
import { eye, ones } from '../../compose/index.ts'
import { zeros } from '../../compose/source.ts'
import { moveAxis, reshape } from '../../compose/views.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { batchGraph, jvpGraph } from '../../transforms/index.ts'
import { isFloat } from '../../types/dtype.ts'
import { showShape, sizeOf } from '../../types/shape.ts'
import { checkTransform, kinds, optionNames } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { rebuildTree, type TreeLeaf } from '../tensor/tree.ts'
import { type AnyFunction, type Argument, applyGraph, argumentsOf, traceCall } from './apply.ts'
import {
  type ArgNums,
  type ArgumentsAt,
  chosenArguments,
  type GradOptions,
  type LinearCall,
  linearCall,
  parametersOf,
  resultFor,
  transposedGraph,
} from './derivatives.ts'

/** The structure of a Jacobian of an R in an X: in place of each tensor of R, a tree like X. */
export type Jacobian<R, X> = R extends Tensor
  ? X
  : R extends (...args: never[]) => unknown
    ? R
    : R extends object
      ? { -readonly [K in keyof R]: Jacobian<R[K], X> }
      : R

/** One direction along each element of a type, batched in front: [size, ...shape]. */
function basis({ shape, dtype }: TreeLeaf): Node {
  const n = sizeOf(shape)
  return n === 1 ? ones([1, ...shape], dtype) : reshape(eye(n, n, 0, dtype), [n, ...shape])
}

const zerosFor = (p: Node): Node => zeros(p.shape, p.dtype)

/** Outputs of a graph in which parameter `at` is a batch of directions and `known` stand for the first parameters. */
function sweep(graph: Graph, known: readonly Node[], at: number, directions: Node): readonly Node[] {
  const size = directions.shape[0] ?? 0
  const args = graph.params.map((p, i) => ({
    node: i === at ? directions : (known[i] ?? zerosFor(p)),
    batched: i === at,
  }))
  return batchGraph(graph, args, size).outputs.map(({ node, batched }) =>
    // What does not depend on the direction is the derivative of nothing.
    batched ? node : zeros([size, ...node.shape], node.dtype),
  )
}

/** Rows first: for each input, the blocks of all outputs. */
type Sweep = (at: LinearCall, inputs: readonly TreeLeaf[], residuals: readonly Node[]) => Node[]

/** Forward mode: a pass for each input. */
const forwardBlocks: Sweep = ({ linear, call }, inputs, residuals) =>
  inputs.flatMap((input, i) => {
    const { tangent } = linear
    const place = linear.residuals + i
    const along = jvpGraph(
      tangent,
      tangent.params.map((_, k) => k === place),
    )
    const one: Graph = { ...along, outputs: along.outputs.slice(tangent.outputs.length) }
    return sweep(one, residuals, tangent.params.length, basis(input)).map((y, o) =>
      reshape(moveAxis(y, 0, -1), [...(call.outputs[o]?.shape ?? []), ...input.shape]),
    )
  })

/** Reverse mode: a pass for each output. */
const reverseBlocks: Sweep = ({ linear, call }, inputs, residuals) => {
  const rows = call.outputs.map((output, o) => {
    const result = linear.tangent.outputs[o]
    const only = { ...linear, tangent: { ...linear.tangent, outputs: result === undefined ? [] : [result] } }
    return sweep(transposedGraph(only), residuals, linear.residuals, basis(output)).map((x, i) =>
      reshape(x, [...output.shape, ...(inputs[i]?.shape ?? [])]),
    )
  })
  return inputs.flatMap((_, i) => rows.flatMap((row) => row[i] ?? []))
}

function jacobianOf(name: string, f: AnyFunction, args: readonly unknown[], argnums: ArgNums, blocks: Sweep): unknown {
  const described = argumentsOf(name, args)
  const chosen = named(name, () => chosenArguments(described, argnums))
  const call = traceCall(name, f, args, described)
  named(name, () => {
    const bad = call.outputs.find((y) => !isFloat(y.dtype))
    if (bad !== undefined)
      throw new UserError('E_DTYPE', `the derivative of ${bad.path}, which is ${bad.dtype}${showShape(bad.shape)}`, {
        help: 'return float tensors only, or cast with astype',
      })
  })
  // Parameters in ascending order are the linear inputs in that order.
  const wrt = parametersOf(chosen).toSorted((a, b) => a - b)
  const at = linearCall(call, wrt)
  const inputs = wrt.flatMap((p) => described.flatMap((a) => a.leaves[p - a.first] ?? []))
  const made = applyGraph(name, at.residuals, (nodes) => ({ outputs: blocks(at, inputs, nodes), effects: [] }))
  const count = call.outputs.length
  let output = 0
  return rebuildTree(call.result, () => {
    const o = output++
    return resultFor(argnums, chosen, (a: Argument) => {
      let leaf = a.first
      return rebuildTree(a.tree, () => made[wrt.indexOf(leaf++) * count + o])
    })
  })
}

const jacobianOptions = optionNames<GradOptions>('{ argnums: [0, 1] }', { argnums: kinds.anything })

const checkCall = (name: string, f: unknown, options: GradOptions): void =>
  placed(() => checkTransform(name, f, options, jacobianOptions))

/**
 * The Jacobian in forward mode, one pass for each element of the arguments: cheap for few inputs (JAX's `jacfwd`). In place of
 * each tensor of the result stands a tree like the argument `argnums` (0), or a list of such trees, of tensors [...result
 * shape, ...argument shape].
 * @throws E_ARGUMENT for what is no function, and for positions and options that are none; calls throw E_DTYPE for tensors that
 * are not float, E_UNSUPPORTED through operations without derivative
 * @example jacfwd((x: Tensor) => stack([x.sum(), x.prod()]))(tensor([2, 3])) // [[1, 1], [3, 2]]
 */
export function jacfwd<A extends readonly unknown[], R, const N extends ArgNums = 0>(
  f: (...args: A) => R,
  options: GradOptions<N> = {},
): (...args: A) => Jacobian<R, ArgumentsAt<A, N>> {
  checkCall('jacfwd', f, options)
  return (...args) =>
    jacobianOf('jacfwd', f, args, options.argnums ?? 0, forwardBlocks) as Jacobian<R, ArgumentsAt<A, N>>
}

/**
 * The Jacobian in reverse mode, one pass for each element of the result: cheap for few outputs (JAX's `jacrev`). Otherwise as
 * `jacfwd`.
 * @throws E_ARGUMENT for what is no function, and for positions and options that are none; calls throw E_DTYPE for tensors that
 * are not float, E_UNSUPPORTED through operations without derivative
 * @example jacrev((x: Tensor) => stack([x.sum(), x.prod()]))(tensor([2, 3])) // [[1, 1], [3, 2]]
 */
export function jacrev<A extends readonly unknown[], R, const N extends ArgNums = 0>(
  f: (...args: A) => R,
  options: GradOptions<N> = {},
): (...args: A) => Jacobian<R, ArgumentsAt<A, N>> {
  checkCall('jacrev', f, options)
  return (...args) =>
    jacobianOf('jacrev', f, args, options.argnums ?? 0, reverseBlocks) as Jacobian<R, ArgumentsAt<A, N>>
}

/**
 * Second derivatives, forward over reverse (JAX's `hessian`): in place of each tensor of the Jacobian a tree like the argument,
 * of tensors [...result shape, ...argument shape, ...argument shape].
 * @throws E_ARGUMENT for what is no function, and for positions and options that are none; calls throw E_DTYPE for tensors that
 * are not float, E_UNSUPPORTED through operations without derivative
 * @example hessian((x: Tensor) => x.prod())(tensor([2, 3])) // [[0, 1], [1, 0]]
 */
export function hessian<A extends readonly unknown[], R, const N extends ArgNums = 0>(
  f: (...args: A) => R,
  options: GradOptions<N> = {},
): (...args: A) => Jacobian<Jacobian<R, ArgumentsAt<A, N>>, ArgumentsAt<A, N>> {
  checkCall('hessian', f, options)
  return jacfwd(jacrev(f, options), options)
}
