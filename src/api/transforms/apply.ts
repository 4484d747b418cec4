/** Transforms of functions: a call traced where it stands, and graphs made from its graph applied there. */
import { UserError } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { type AppliedGraph, named, recordGraph, type TensorCore } from '../tensor/core.ts'
import { Tensor, wrap } from '../tensor/tensor.ts'
import { traceFunction } from '../tensor/traceFunction.ts'
import { describe, leavesOf, type TensorSpec, type TreeLeaf, type TreeSpec } from '../tensor/tree.ts'

/** Any function of trees; how generic functions name what they only call through a trace. */
export type AnyFunction = (...args: never[]) => unknown

/** An argument of a transformed call. */
export interface Argument {
  readonly tree: TreeSpec
  /** Its tensors in order, and the place of the first among all. */
  readonly leaves: readonly TreeLeaf[]
  readonly tensors: readonly Tensor[]
  readonly first: number
}

/** A call traced for a transform. */
export interface TracedCall {
  /** The user's call. */
  readonly name: string
  readonly arguments: readonly Argument[]
  /** Parameters are the arguments' tensors, then what the function closes over; one output for each tensor of the result. */
  readonly graph: Graph
  /** What stands for the parameters. */
  readonly operands: readonly TensorCore[]
  readonly result: TreeSpec
  /** Tensors of the result, in the order of the outputs. */
  readonly outputs: readonly TreeLeaf[]
}

/** The arguments of a call. Throws E_STRUCTURE, E_ARGUMENT for a tensor spec. */
export const argumentsOf = (name: string, args: readonly unknown[]): Argument[] =>
  named(name, () => {
    let first = 0
    return args.map((arg, i): Argument => {
      const path = `argument ${i}`
      const found: (Tensor | TensorSpec)[] = []
      const tree = describe(arg, found, path)
      const tensors = found.filter((x) => x instanceof Tensor)
      if (tensors.length < found.length)
        throw new UserError('E_ARGUMENT', `${path} holds a tensor spec`, { help: 'specs are for explain and compile' })
      const start = first
      first += tensors.length
      return { tree, leaves: leavesOf(tree, path), tensors, first: start }
    })
  })

/**
 * Traces a call; `seen` are the arguments the function gets if they are not the call's own. Throws what the function throws,
 * E_STRUCTURE for a result that is no tree.
 */
export function traceCall(
  name: string,
  f: AnyFunction,
  args: readonly unknown[],
  described: readonly Argument[] = argumentsOf(name, args),
  differentiated = true,
): TracedCall {
  const traced = traceFunction(f, args, { name, program: false, differentiated })
  const outputs = traced.places.flatMap((p) => traced.graph.outputs[p] ?? [])
  return {
    name,
    arguments: described,
    graph: { ...traced.graph, outputs },
    operands: [...described.flatMap((a) => a.tensors), ...traced.captured],
    result: traced.result,
    outputs: leavesOf(traced.result, 'the result'),
  }
}

/** Tensors of the outputs of a graph that `build` makes on operands. */
export const applyGraph = (
  name: string,
  operands: readonly TensorCore[],
  build: (operands: readonly Node[]) => AppliedGraph,
): Tensor[] => recordGraph(name, operands, build).map(wrap)

/** Takes a list's elements one by one. */
export function taker<T>(list: readonly T[]): () => T | undefined {
  let next = 0
  return () => list[next++]
}
