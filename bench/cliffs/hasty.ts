/** A rough time of a graph run operation by operation on a slow core, by which programs are kept small enough to be measured often. */
import type { Graph } from '../../src/graph/node.ts'
import { familyOf, scalarOf } from '../../src/graph/table.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'

export function hasty(graph: Graph): number {
  let seconds = 0
  for (const n of nodesOf(graph)) {
    const size = sizeOf(n.shape)
    const family = familyOf(n)
    if (family === 'source') continue
    const bytes = [n, ...n.inputs].reduce((sum, x) => sum + sizeOf(x.shape) * dtypeBytes(x.dtype), 0)
    if (n.op === 'contract') {
      const depth = [...n.attrs.lhs].reduce(
        (d, l, i) => d * (n.attrs.out.includes(l) ? 1 : (n.inputs[0]?.shape[i] ?? 1)),
        1,
      )
      seconds += (2 * size * depth) / 2e10 + size * 4e-10
      continue
    }
    // Views alone move nothing of their own.
    if (family === 'view' && n.op !== 'concat' && n.op !== 'pad') continue
    seconds +=
      bytes / 8e9 + (scalarOf(n)?.cost === 'special' ? size * 1e-9 : 0) + (family === 'scatter' ? size * 1e-8 : 0)
  }
  return seconds
}
