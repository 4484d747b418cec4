/** Heads of attention, packed in the last axis and apart. */
import { UserError } from '../../diagnostics/errors.ts'
import * as n from '../nodes.ts'

/** [batch, sequence, heads * width] as [batch, heads, sequence, width]. */
export function unpackHeads(x: n.Node, heads: number): n.Node {
  if (x.shape.length === 4) return x
  const [batch = 1, sequence = 1, width = 1] = x.shape
  if (heads < 1 || width % heads !== 0) throw new UserError('E_SHAPE', `a width of ${width} in ${heads} heads`)
  return n.permute(n.reshape(x, [batch, sequence, heads, width / heads]), [0, 2, 1, 3])
}

/** The inverse of `unpackHeads`. */
export function packHeads(x: n.Node): n.Node {
  const [batch = 1, heads = 1, sequence = 1, width = 1] = x.shape
  return n.reshape(n.permute(x, [0, 2, 1, 3]), [batch, sequence, heads * width])
}
