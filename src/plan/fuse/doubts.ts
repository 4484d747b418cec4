/**
 * Kernels that the planner is wrong about: what they would run by takes much longer than they cost, and than it does for their parts. They
 * are taken apart, and what their parts are merged into is decided by their schedules.
 */
import type { Node } from '../../graph/node.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { Made } from '../cost/candidateMemo.ts'
import { leastSeconds, scheduledSeconds } from '../cost/loss.ts'
import { byMember, piecesOf } from './pieces.ts'
import type { Planner } from './planner.ts'

/** Schedules that take so many times what the planner counts are in doubt: of their kernels nearly all are as dear as that in parts, too. */
const doubtful = 1.5

/** Fewer rows or columns of a product than this fill no vectors. */
const fewest = 16

/**
 * Chains are not: taken apart they would store what they are there not to. Nor are products, which take most of their kernels either way, but for narrow ones whose
 * results are folded there.
 */
const isDoubtful = (made: Made): boolean =>
  made.scheduled !== undefined &&
  made.roles.chain === undefined &&
  (made.roles.kind !== 'matrix' || isFoldedNarrow(made)) &&
  made.cost.seconds >= leastSeconds &&
  !isStraight(made.body) &&
  scheduledSeconds(made) > doubtful * made.cost.seconds

/** Whether a product has few rows or columns, and other folds beside it. */
function isFoldedNarrow({ body, roles: { matrix, extents } }: Made): boolean {
  if (matrix === undefined || !body.lets.some((l) => l.op.kind === 'reduce')) return false
  return [matrix.m, matrix.n].some((side) => pointsOf(extents, side) < fewest)
}

/** Whether a body folds nothing and goes through everything it touches along one axis alike: there a schedule has nothing to choose. */
function isStraight({ lets, stores }: Body): boolean {
  const last = new Set(stores.map((s) => s.index.at(-1)?.key))
  for (const { op } of lets)
    if (op.kind === 'load') last.add(op.index.at(-1)?.key)
    else if (op.kind === 'reduce' || op.kind === 'scan' || op.kind === 'dot') return false
  last.delete(undefined)
  return last.size <= 1
}

/** Takes doubtful kernels apart into clusters that planning started from (`clusters`); gives the numbers of the parts. */
export function takeApart(planner: Planner, clusters: readonly ReadonlySet<Node>[]): number[] {
  const { groups } = planner
  const clusterOf = byMember(clusters)
  const parts: number[] = []
  for (const g of [...groups.all.values()]) {
    if (g.members.size > 1 && g.made !== undefined && isDoubtful(g.made))
      for (const p of planner.split(g, piecesOf(groups, g, g.members, clusterOf))) parts.push(p.id)
  }
  return parts
}
