/** What the rule tables of the transforms share: explicit gaps, operands that must be there, positions of parameters. */
import { invariant, UserError } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import { isFloat } from '../types/dtype.ts'

/** A gap in a rule table, with the reason users read. */
export interface Unsupported {
  readonly unsupported: string
  /** What to do about it. */
  readonly help?: string
}

export const unsupported = (why: string, help?: string): Unsupported =>
  help === undefined ? { unsupported: why } : { unsupported: why, help }

/** Throws E_UNSUPPORTED for a node a transform cannot go through. */
export function refuse(node: Node, transform: string, why: string, help?: string): never {
  const { name, where } = node.origin
  throw new UserError('E_UNSUPPORTED', `${transform} of ${name} (${node.op}): ${why}`, {
    ...(help === undefined ? {} : { help }),
    ...(where === undefined ? {} : { where }),
  })
}

/** Input `i` of a node. */
export function operand(node: { readonly inputs: readonly Node[]; readonly op: string }, i: number): Node {
  const x = node.inputs[i]
  invariant(x !== undefined, `${node.op} without input ${i}`)
  return x
}

/** The element of a list that must be there. */
export function at<T>(list: readonly T[], i: number, what: string): T {
  const x = list[i]
  invariant(x !== undefined, `no ${what} ${i}`)
  return x
}

/** The first parameter index no parameter of the graph has. */
export const freeIndex = (graph: Graph): number => graph.params.reduce((m, p) => Math.max(m, p.attrs.index + 1), 0)

/** Throws E_DTYPE unless derivatives in this parameter exist. */
export function checkDifferentiable(graph: Graph, position: number): void {
  const p = graph.params[position]
  if (p === undefined) throw new UserError('E_ARGUMENT', `a derivative in input ${position} of ${graph.params.length}`)
  if (!isFloat(p.dtype))
    throw new UserError('E_DTYPE', `a derivative in input ${position}, which is ${p.dtype}`, {
      help: 'differentiate in float inputs; cast the input outside the function',
    })
}
