/** Half-precision results that are widened again where they are computed. */
import type { Node } from '../../graph/node.ts'

/** What a cast gives without the rounding of the result that it widens again, where that is computed here. */
export function unrounded(node: Node, isHere: (x: Node) => boolean): Node | undefined {
  const [x] = node.inputs
  if (node.op !== 'cast' || x?.op !== 'cast' || x.attrs.loose !== true || !isHere(x)) return undefined
  const [wide] = x.inputs
  return wide?.dtype === node.dtype ? wide : undefined
}
