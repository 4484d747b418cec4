/**
 * Where the cut between two kernels lies that are not one, since the second waits for what a third makes of the first: what the first stores for the
 * second alone may be computed there instead (it reads again what that is made of), and what the second makes of the first's results alone may be
 * computed in the first (which stores less of it).
 */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { bytesOf, dataInputs, type Region } from '../body/region.ts'
import { lossOf } from '../cost/loss.ts'
import { ancestorsWithin, without } from './clusters.ts'
import type { Group } from './groups.ts'
import type { Planner } from './planner.ts'

/** Moves the cuts between kernels that others stand between, where that gains; tells whether any were. */
export function moveCuts(planner: Planner): boolean {
  const { all, links } = planner.groups
  let changed = false
  for (const from of [...all.keys()])
    for (const to of links.successors(from)) {
      const [g, c] = [all.get(from), all.get(to)]
      if (g?.made === undefined || c?.made === undefined || !links.hasIndirectPath(from, to)) continue
      if (!trySink(planner, g, c) && !tryHoist(planner, g, c)) continue
      changed = true
      break
    }
  return changed
}

const holdsProduct = (nodes: Iterable<Node>): boolean => [...nodes].some((n) => familyOf(n) === 'contraction')

/** Computes in the second kernel what the first stores for it alone. */
function trySink(planner: Planner, g: Group, c: Group): boolean {
  const { groups, demanded } = planner
  const isOnly = (o: Node): boolean => !demanded.has(o) && groups.usersOf(o).every((id) => id === c.id)
  const results = g.outputs.filter(isOnly)
  if (results.length === 0 || results.length === g.outputs.length) return false
  const chain = new Set(results.flatMap((o) => [...ancestorsWithin(o, g.members)]))
  const rest = without(g, results)
  // Something has to leave: what is computed in both is a matter of computing again.
  if (rest.members.size === g.members.size || holdsProduct(chain)) return false
  return tryBoth(planner, [g, c], rest, { members: new Set([...c.members, ...chain]), outputs: c.outputs })
}

/** Computes in the first kernel what the second makes of its results, up to what the second waits for others with, where less is stored so. */
function tryHoist(planner: Planner, g: Group, c: Group): boolean {
  const { groups, demanded } = planner
  const { links } = groups
  const waits = (x: Node): boolean => {
    const home = groups.homeOf(x)
    return (
      home !== undefined &&
      home.id !== g.id &&
      (links.successors(g.id).has(home.id) || links.hasIndirectPath(g.id, home.id))
    )
  }
  /** Members that follow from the first kernel's results, and those that wait. */
  const [follows, late] = [new Set<Node>(), new Set<Node>()]
  for (const n of [...c.members].sort((p, q) => p.id - q.id))
    for (const x of dataInputs(n)) {
      if (c.members.has(x) ? late.has(x) : waits(x)) late.add(n)
      if (c.members.has(x) ? follows.has(x) : g.outputs.includes(x)) follows.add(n)
    }
  const early = new Set([...follows].filter((n) => !late.has(n)))
  const awaited = new Set([...late].flatMap(dataInputs))
  const ends = [...early].filter((n) => c.outputs.includes(n) || awaited.has(n))
  const isHome = (n: Node): boolean => groups.isHome(g, n) || groups.isHome(c, n)
  // What a third kernel stores, where anything asks for it, stays with that.
  if (ends.length === 0 || late.size === 0 || !ends.every(isHome)) return false
  const moved = new Set(ends.flatMap((n) => [...ancestorsWithin(n, c.members)]))
  if (holdsProduct(moved)) return false
  const left = new Set([...c.members].filter((n) => !ends.includes(n)))
  const outputs = c.outputs.filter((n) => !moved.has(n))
  const members = new Set(outputs.flatMap((n) => [...ancestorsWithin(n, left)]))
  if (members.size === 0 || members.size === c.members.size) return false
  const reads = new Set([...members].flatMap((n) => dataInputs(n).filter((x) => !members.has(x))))
  const first = new Set([...g.members, ...moved])
  const isRead = (n: Node): boolean =>
    demanded.has(n) || reads.has(n) || groups.usersOf(n).some((id) => id !== g.id && id !== c.id)
  const stored = [...first].filter((n) => isHome(n) && isRead(n))
  const bytes = (nodes: readonly Node[]): number => nodes.reduce((t, n) => t + bytesOf(n), 0)
  if (bytes(stored) > bytes(g.outputs)) return false
  return tryBoth(planner, [g, c], { members: first, outputs: stored }, { members, outputs })
}

/** Puts two kernels in the place of two, if both are and are modelled faster. */
function tryBoth(planner: Planner, old: readonly [Group, Group], ...regions: readonly [Region, Region]): boolean {
  const { groups, judge } = planner
  if (regions.some((r) => planner.mixes(r.members))) return false
  const fresh = regions.map((r) => ({ members: r.members, made: judge.of(r) }))
  const made = fresh.flatMap(({ members, made }) => (made.ok ? [{ members, made }] : []))
  if (made.length < fresh.length) return false
  const loss = lossOf(
    made.map((f) => f.made),
    old.map((x) => x.made),
  )
  if (loss >= 0) return false
  groups.replace(old, made)
  return true
}
