/** Python's slicing of a tensor's axes. */
import type { SliceSpec } from '../compose/index.ts'
import * as c from '../compose/index.ts'
import type { Node } from '../graph/node.ts'

/** One axis of `slice`: [start, stop, step], an index, or null for the whole. */
export type SliceArgument = number | null | readonly [start?: number | null, stop?: number | null, step?: number | null]

/** Python's slicing of the leading axes. */
export function sliceNode(x: Node, specs: readonly SliceArgument[]): Node {
  const whole = c.slice(
    x,
    specs.map((s): SliceSpec | undefined => {
      if (typeof s === 'number' || s === null) return undefined
      return { start: s[0] ?? undefined, stop: s[1] ?? undefined, step: s[2] ?? undefined }
    }),
  )
  return specs.reduceRight<Node>((y, s, i) => (typeof s === 'number' ? c.selectAt(y, i, s) : y), whole)
}
