/** The order of a product's depth, where loops on a core multiply it. */
import { ancestorsOf } from '../../kernel/walk.ts'
import { pointsOf } from '../body/body.ts'
import type { Analysis } from './analysis.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { positionOfLoad, strideAlong } from './positions.ts'

/**
 * The axes of the depth in the order of memory, the innermost last, of the operand that has more elements: it is copied into rows of the depth, in runs
 * of what stands side by side (the channels of windows whose channels are last). Strict sums keep the order of their terms; so does what no one load has.
 */
export function depthOrder({ body, lets, extents, mode, target }: Analysis, { id, k }: MatrixRole): readonly string[] {
  const op = lets.get(id)?.op
  if (mode === 'strict' || target.loops === undefined || op?.kind !== 'dot' || k.length < 2) return k
  let [most, order] = [0, k]
  for (const at of ancestorsOf([op.a, op.b], lets)) {
    const l = lets.get(at)
    if (l?.op.kind !== 'load' || !k.every((a) => l.axes.includes(a))) continue
    const elements = pointsOf(extents, l.axes)
    const position = positionOfLoad(body, l.op)
    const strides = new Map(k.map((a) => [a, strideAlong(position, a)]))
    if (elements <= most || [...strides.values()].includes(0)) continue
    most = elements
    order = [...k].sort((p, q) => (strides.get(q) ?? 0) - (strides.get(p) ?? 0))
  }
  return order
}
