/** Values whose derivative is zero: by the user's wish, and anchors whose derivative cancels. */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { type DType, type FloatDType, isFloat } from '../types/dtype.ts'

const bitsOf = { f32: 'i32', f64: 'i64', f16: 'i16', bf16: 'i16' } as const satisfies Record<FloatDType, DType>

/**
 * x with a zero derivative: its bits as an integer (which has no tangent) and back. Integers and bools pass as they are.
 * Nothing of it is left in a compiled graph.
 */
export function stopGradient(x: Node): Node {
  if (!isFloat(x.dtype)) return x
  const bits = makeNode('bitcast', [x], { dtype: bitsOf[x.dtype] })
  return makeNode('bitcast', [bits], { dtype: x.dtype })
}
