/** What a device cannot run, asked of a graph before it is planned: the error names the operation and the user's call. */
import { UserError } from '../diagnostics/errors.ts'
import type { Graph, OpName } from '../graph/node.ts'
import { graphsInside } from '../graph/ops/region.ts'
import { nodesOf } from '../graph/traverse.ts'
import type { DType } from '../types/dtype.ts'

export interface Capabilities {
  /** Why it cannot hold values of a dtype, or undefined. */
  readonly dtype: (dtype: DType) => string | undefined
  /** Why it cannot run an operation, or undefined. */
  readonly op: (op: OpName) => string | undefined
}

const runs = new Set(['body', 'test', 'then', 'otherwise'])

/** Throws E_UNSUPPORTED for the first operation that the device cannot run. */
export function checkCapabilities(graph: Graph, device: string, capabilities: Capabilities): void {
  const graphs = [graph]
  for (let next = graphs.pop(); next !== undefined; next = graphs.pop())
    for (const n of nodesOf(next)) {
      const why = capabilities.op(n.op) ?? capabilities.dtype(n.dtype)
      if (why !== undefined) {
        const { where } = n.origin
        // Outside jit operations wait: the place of the error is where a value was asked for.
        const later =
          where === undefined && n.op !== 'param' ? '; inside jit this error says the line of the operation' : ''
        const name = n.op === 'param' ? 'an input' : n.origin.name === 'unknown' ? n.op : n.origin.name
        throw new UserError('E_UNSUPPORTED', `${name} cannot run on the device ${device}: ${why}`, {
          help: `use another dtype or operation, or run it on another device, for instance setDevice('wasm')${later}`,
          ...(where === undefined ? {} : { where }),
        })
      }
      // Derivatives of rules are for transforms; what is left of them when a program is compiled does not run.
      for (const { role, graph: g } of graphsInside(n)) if (runs.has(role)) graphs.push(g)
    }
}
