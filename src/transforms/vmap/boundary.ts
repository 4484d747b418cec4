/**
 * Batching rules of users' kernels and callbacks: they see one element of the batch at a time, in order. A
 * callback has seen the whole batch before the next callback starts.
 */
import { zeros } from '../../compose/source.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { InspectCallback, Node } from '../../graph/node.ts'
import { sizeOf } from '../../types/shape.ts'
import { elementOf } from './operand.ts'
import type { BatchRules } from './rule.ts'

/** A callback that sees each element of a batch. */
const perElement = ({ label, call }: InspectCallback): InspectCallback => ({
  label,
  call: (data, shape, dtype) => {
    const [size = 0, ...rest] = shape
    const n = sizeOf(rest)
    for (let b = 0; b < size; b++) call(data.slice(b * n, (b + 1) * n), rest, dtype)
  },
})

export const boundaryBatching: BatchRules<'opaque' | 'inspect'> = {
  opaque: (b): Node => {
    if (b.size === 0) return zeros([0, ...b.node.shape], b.node.dtype)
    const parts = Array.from({ length: b.size }, (_, i) => {
      const y = makeNode('opaque', elementOf(b, i), b.node.attrs)
      return reshape(y, [1, ...y.shape])
    })
    return makeNode('concat', parts, { axis: 0 })
  },
  inspect: ({ node, inputs }) => makeNode('inspect', inputs, { callback: perElement(node.attrs.callback) }),
}
