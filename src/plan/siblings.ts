/** Groups that read the same tensor over the same axes as one kernel with several results: it is read once. */

import type { Machine } from '../target/machine.ts'
import { pointsOf } from './body.ts'
import type { KernelCost } from './cost.ts'
import type { Group } from './groups.ts'
import type { Planner } from './planner.ts'
import { type Refused, refuse } from './refusal.ts'
import { bytesOf } from './region.ts'

/** Whether reading a tensor once instead of twice is a part of two kernels' traffic. What saves launches alone is a union's matter. */
const worthSharing = (bytes: number, a: KernelCost, b: KernelCost): boolean =>
  64 * bytes >= Math.min(a.bytesRead + a.bytesWritten, b.bytesRead + b.bytesWritten)

/** Points of the space a group's kernel runs over. */
function spaceOf(g: Group): number {
  let n = 1
  for (const x of g.made?.body.axes ?? []) n *= x.extent
  return n
}

/** Cheap test before a sibling trial: the same number of points, or those of an operand or the result of a matrix product. */
function alike(a: Group, b: Group): boolean {
  const [p, q] = [a.made?.roles.matrix, b.made?.roles.matrix]
  if (p !== undefined && q !== undefined) return false
  const product = p ?? q
  if (product === undefined) return spaceOf(a) === spaceOf(b)
  const [matrix, other] = p === undefined ? [b, a] : [a, b]
  const { m, n, k } = product
  return [m, n, k].some(
    (side) => spaceOf(other) * pointsOf(matrix.made?.roles.extents ?? new Map(), side) === spaceOf(matrix),
  )
}

/** Whether a kernel has no room for another kernel's results beside what it reads and stores itself. */
const isFull = (g: Group, target: Machine): boolean =>
  (g.made?.body.loads.size ?? 0) + g.outputs.length >= target.maxBuffers

const fullRefusal = ({ maxBuffers }: Machine): Refused =>
  refuse('too-many-buffers', `more than ${maxBuffers} buffers, the target binds ${maxBuffers}`)

/** Joins siblings, those of the largest tensors first; what was joined may then join what it reads. */
export function mergeSiblings(planner: Planner): void {
  const { groups, target } = planner
  // Kernels that bind all they may: told once, not for every other reader.
  const full = new Set<number>()
  const joined = new Set<number>()
  const leaves = groups
    .read()
    .filter((n) => bytesOf(n) > 0)
    .sort((p, q) => bytesOf(q) - bytesOf(p))
  // Pairs refused: no merge of others changes that.
  const refused = new Set<string>()
  for (const leaf of leaves) {
    const seen = groups.usersOf(leaf)
    for (let i = 0; i < seen.length; i++) {
      for (let j = i + 1; j < seen.length; j++) {
        const a = groups.all.get(seen[i] ?? -1)
        const b = groups.all.get(seen[j] ?? -1)
        if (a?.made === undefined || b?.made === undefined || !alike(a, b)) continue
        if (!worthSharing(bytesOf(leaf), a.made.cost, b.made.cost)) continue
        if (isFull(a, target) && b.outputs.length > 0 && !planner.groups.links.touch(a.id, b.id)) {
          if (!full.has(a.id)) planner.refuse(a, b, fullRefusal(target), undefined)
          full.add(a.id)
          continue
        }
        const pair = a.id < b.id ? `${a.id},${b.id}` : `${b.id},${a.id}`
        if (refused.has(pair)) continue
        const merged = planner.tryMerge(a, b)
        if (merged === undefined) {
          refused.add(pair)
          continue
        }
        joined.add(merged.id)
        seen[i] = merged.id
        seen.splice(j--, 1)
      }
    }
  }
  planner.mergeEdges([...joined].filter((id) => groups.all.has(id)))
}
