/** The limit of what a plan stores: a value may be larger than any memory as long as no kernel has to write it down. */
import { UserError } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import { operationOf, showSize, tooLarge } from '../graph/tooLarge.ts'
import { storageOf } from '../plan/body/region.ts'
import { storedBytes } from '../plan/body/stored.ts'
import { type FusionPlan, type RefusedMerge, storedBy } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import type { Assembled } from './assemble.ts'

const smaller = 'use smaller batches, or split the tensor'

/** Why a value of a plan stands in memory, and what to do about it. */
function reasonOf(node: Node, graph: Graph, plan: FusionPlan, fuse: boolean): { why: string; help: string } {
  if (node.op === 'param') return { why: 'inputs stand in memory', help: smaller }
  if (graph.outputs.some((o) => storageOf(o) === node))
    return { why: 'it is a result of the program', help: `${smaller}, or return less of it` }
  if (!fuse) return { why: 'every operation stores its value without fusion', help: `fuse the program, or ${smaller}` }
  const refused = plan.refused.find((r) => storageOf(r.from) === node)
  if (refused !== undefined)
    return { why: failedFusion(refused), help: `${smaller}; explain() of a smaller shape shows the plan` }
  return { why: 'an operation that stands alone reads it', help: smaller }
}

const failedFusion = ({ to, code, detail }: RefusedMerge): string =>
  `it could not be fused into ${operationOf(to)} (${code}: ${detail})`

/** The largest of the values that a plan stores and the target's memory does not reach. */
function largestBeyond(
  graph: Graph,
  plan: FusionPlan,
  target: Machine,
): { readonly node: Node; readonly bytes: number } | undefined {
  let largest: { readonly node: Node; readonly bytes: number } | undefined
  for (const node of [...graph.params, ...plan.groups.flatMap(storedBy)]) {
    const bytes = storedBytes(node, plan.stored)
    if (bytes > target.mostBytes.value && bytes > (largest?.bytes ?? 0)) largest = { node, bytes }
  }
  return largest
}

/** Whether a plan stores a value beyond what the target's memory reaches. */
export const isStoredBeyond = (
  planned: { readonly graph: Graph; readonly plan: FusionPlan },
  target: Machine,
): boolean => largestBeyond(planned.graph, planned.plan, target) !== undefined

/** Throws E_OVERFLOW for the largest of the values that a plan stores, if it is more than the target's memory reaches. */
export function checkStored(graph: Graph, plan: FusionPlan, target: Machine, fuse: boolean): void {
  const largest = largestBeyond(graph, plan, target)
  if (largest === undefined) return
  throw tooLarge({
    ...largest,
    most: target.mostBytes.value,
    holder: `the target ${target.name}`,
    ...reasonOf(largest.node, graph, plan, fuse),
  })
}

/** Throws E_OVERFLOW for a partial result, or intermediate values together, that are more than the target's memory reaches. */
export function checkAssembled(name: string, { program }: Assembled, plan: FusionPlan, target: Machine): void {
  const { value, arena } = target.mostBytes
  const partial = program.buffers.find((b) => b.bytes > value)
  if (partial !== undefined)
    throw new UserError(
      'E_OVERFLOW',
      `a kernel of ${name} needs ${showSize(partial.bytes)} for partial results, and the target ${target.name} has at most ${value} bytes for one`,
      { help: smaller },
    )
  if (program.arenaBytes <= arena) return
  const stored = plan.groups.flatMap(storedBy)
  const bytes = (n: Node): number => storedBytes(n, plan.stored)
  const [most] = [...stored].sort((a, b) => bytes(b) - bytes(a))
  const where = most?.origin.where
  const of = most === undefined ? '' : `; the largest, ${showSize(bytes(most))}, is of ${operationOf(most)}`
  throw new UserError(
    'E_OVERFLOW',
    `intermediate values of ${name} take ${showSize(program.arenaBytes)} at once, and the target ${target.name} has at most ${arena} bytes for them${of}`,
    { help: `${smaller}, or give jit a memoryBudget`, ...(where === undefined ? {} : { where }) },
  )
}
