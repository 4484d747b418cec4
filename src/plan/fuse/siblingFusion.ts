/** Groups that read the same tensor over the same axes as one kernel with several results: it is read once. */

import type { Machine } from '../../target/machine.ts'
import { pointsOf } from '../body/body.ts'
import { bytesOf } from '../body/region.ts'
import { statementsBeyond } from '../cost/bounds.ts'
import type { KernelCost } from '../cost/cost.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Group, Groups } from './groups.ts'
import { boundBy, type Growth, growthOf, isLike, mostAtOnce } from './growth.ts'
import type { Planner } from './planner.ts'

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

/** Whether a kernel binds all the buffers that the target lets it: what joins it has to touch it. */
const isBound = (a: Group, { maxBuffers }: Machine): boolean => boundBy(a) >= maxBuffers

/** Why a kernel has no room for another beside what it computes itself, where that is plain. */
function whyFull(a: Group, b: Group, { links }: Groups, target: Machine): Refused | undefined {
  const { maxBuffers, maxStatements } = target
  if (isBound(a, target) && b.outputs.length > 0 && !links.touch(a.id, b.id))
    return refuse('too-many-buffers', `more than ${maxBuffers} buffers, the target binds ${maxBuffers}`)
  const least = statementsBeyond(a, b, maxStatements)
  if (least === undefined) return undefined
  return refuse('too-many-live-values', `${least} statements, the target takes ${maxStatements}`)
}

/** Joins siblings, those of the largest tensors first; what was joined may then join what it reads. */
export function fuseSiblings(planner: Planner): void {
  const { groups, target } = planner
  // Kernels that hold all they may: told once, not for every other reader.
  const full = new Set<number>()
  const joined = new Set<number>()
  // Joining others gives a tensor no more readers.
  const leaves = groups
    .sharedReads()
    .map((node) => ({ node, bytes: bytesOf(node) }))
    .filter(({ bytes }) => bytes > 0)
    .sort((p, q) => q.bytes - p.bytes)
  // Pairs refused: no merge of others changes that.
  const refused = new Set<string>()
  for (const { node: leaf, bytes } of leaves) {
    const seen = groups.usersOf(leaf)
    const groupAt = (i: number): Group | undefined => groups.all.get(seen[i] ?? -1)
    const mayJoin = (a: Group | undefined, b: Group | undefined): boolean =>
      a?.made !== undefined && b?.made !== undefined && alike(a, b) && worthSharing(bytes, a.made.cost, b.made.cost)
    for (let i = 0; i < seen.length; i++) {
      let growth: Growth | undefined
      for (let j = i + 1; j < seen.length; j++) {
        const a = groupAt(i)
        const b = groupAt(j)
        if (a === undefined || b === undefined || !mayJoin(a, b)) continue
        const tooMuch = whyFull(a, b, groups, target)
        if (tooMuch !== undefined) {
          if (!full.has(a.id)) planner.refuse(a, b, tooMuch, undefined)
          full.add(a.id)
          // Thousands of others may read the tensor: without neighbours none of them has room either.
          if (isBound(a, target) && groups.links.isApart(a.id)) break
          continue
        }
        const pair = a.id < b.id ? `${a.id},${b.id}` : `${b.id},${a.id}`
        if (refused.has(pair)) continue
        const most = growth !== undefined && isLike(growth.like, b) ? mostAtOnce(growth, target) : 1
        const alikes: [Group, ...Group[]] = [b]
        for (let k = j + 1; k < seen.length && alikes.length < most; k++) {
          const g = groupAt(k)
          if (g === undefined || !mayJoin(a, g) || !isLike(b, g)) break
          alikes.push(g)
        }
        const many = growth === undefined ? undefined : planner.tryMergeAll(a, alikes, growth.gain)
        const merged = many ?? planner.tryMerge(a, b)
        if (merged === undefined) {
          refused.add(pair)
          continue
        }
        const added: [Group, ...Group[]] = many === undefined ? [b] : alikes
        growth = growthOf(a, added, merged)
        joined.add(merged.id)
        seen[i] = merged.id
        seen.splice(j, added.length)
        j--
      }
    }
  }
  planner.mergeEdges([...joined].filter((id) => groups.all.has(id)))
}
