/** Evaluating composed nodes with the reference backend. */

import { constant } from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import type { DType } from '../../src/types/dtype.ts'

/** A literal of nested-free values. */
export const lit = (
  values: readonly Scalar[],
  shape: readonly number[] = [values.length],
  dtype: DType = 'f32',
): Node => constant(toHost(values, dtype), shape, dtype)

/** 0, 1, 2, ... over a shape. */
export function ramp(shape: readonly number[], dtype: DType = 'f32', from = 0): Node {
  const n = shape.reduce((p, d) => p * d, 1)
  return lit(
    Array.from({ length: n }, (_, i) => i + from),
    shape,
    dtype,
  )
}

/** Flat host values of a node. */
export function run(node: Node): Scalar[] {
  const graph = { params: [], outputs: [node], effects: topologicalOrder([node]).filter((n) => n.op === 'inspect') }
  verifyGraph(graph)
  const [t] = evaluateGraph(graph, [], { rounding: 'dtype' })
  if (t === undefined) throw new Error('no output')
  const host = toHostArray(t)
  return Array.from({ length: host.length }, (_, i) => readElement(host, node.dtype, i))
}

/** Flat values as numbers. */
export const numbers = (node: Node): number[] => run(node).map(Number)

/** Dtype and shape as text. */
export const typeOf = (node: Node): string => `${node.dtype}[${node.shape.join()}]`
