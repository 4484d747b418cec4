/** How much an import may do: the work of evaluating nodes, and how many nodes functions and unrolled steps may write out. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { sizeOf } from '../types/shape.ts'

/** Products of a contraction: the points over all its labels. */
function contractionWork(n: Node & { readonly op: 'contract' }): number {
  const extents = new Map<string, number>()
  const { lhs, rhs } = n.attrs
  for (const [i, labels] of [lhs, rhs].entries())
    for (const [axis, label] of [...labels].entries()) extents.set(label, n.inputs[i]?.shape[axis] ?? 1)
  return [...extents.values()].reduce((a, b) => a * b, 1)
}

/** What one node adds, its inputs not counted. */
function ownWork(n: Node): number {
  switch (n.op) {
    case 'constant':
      return 0
    case 'contract':
      return contractionWork(n)
    case 'cond':
      return workOf([...n.attrs.then.outputs, ...n.attrs.otherwise.outputs])
    case 'custom':
      return workOf(n.attrs.body.outputs)
    case 'loop':
      return n.attrs.length * (1 + workOf(n.attrs.body.outputs))
    case 'while':
      return Number.POSITIVE_INFINITY
    default:
      return sizeOf(n.shape)
  }
}

/**
 * Elements and products that evaluating nodes computes, each node counted once; infinite where a loop ends by what it computes,
 * so that nothing says how long it takes. Counts no further than a little over `enough`.
 */
export function workOf(outputs: readonly Node[], enough = Number.POSITIVE_INFINITY): number {
  const seen = new Set<Node>()
  const stack = [...outputs]
  let work = 0
  for (let n = stack.pop(); n !== undefined && work <= enough; n = stack.pop()) {
    if (seen.has(n)) continue
    seen.add(n)
    work += 1 + ownWork(n)
    stack.push(...n.inputs)
  }
  return work
}

/** Most nodes that functions, branches and unrolled steps of a model write out. */
export const maxWritten = 100_000

/** Counts what is written out. Throws E_OVERFLOW. */
export class Written {
  private count = 0

  add(): void {
    this.count++
    if (this.count > maxWritten)
      throw new UserError(
        'E_OVERFLOW',
        `the model's local functions and unrolled loops write out to more than ${maxWritten} nodes`,
        { help: 'export it with fewer calls of functions in functions, or with shorter loops' },
      )
  }
}
