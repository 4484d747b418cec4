/**
 * Reading for programs to come: where a program holds a row, it loads all of it, computes, and stores, and few programs share a
 * multiprocessor, so that memory would idle while they compute. Each program therefore asks for the row of the one that will take
 * its place, into the second-level cache.
 */

import type { Expr } from '../../index/expr.ts'
import { strideOf, valuesOf } from '../../index/expr.ts'
import type { KernelParam } from '../../kernel/ir.ts'
import { add, type Block, type Ex, int, lt } from './ir.ts'
import type { Layout } from './layout.ts'
import type { Part } from './part.ts'
import { rowAxes } from './partLayout.ts'
import type { Team } from './team.ts'

/** The program that comes later: so many indices further along a grid axis, if there is one. */
export interface Upcoming {
  readonly axis: string
  readonly distance: number
  readonly exists: Ex
}

/** Fewer threads a program leave many programs side by side. */
const fewestThreads = 512

/** Threads of a multiprocessor. */
const residentThreads = 2048

export function upcomingOf(
  part: Part,
  layout: Layout,
  team: Team,
  programs: number,
  multiprocessors: number,
  program: Ex,
): Upcoming | undefined {
  const [axis, second] = part.part.grid.filter((g) => Math.ceil(part.axis(g.axis).extent / g.block) > 1)
  if (axis === undefined || second !== undefined || layout.threads < fewestThreads) return undefined
  const rows = rowAxes(part)
  if (rows.size === 0 || [...rows].some((a) => (layout.find(a)?.chunks ?? 1) > 1)) return undefined
  const blocks = team.cluster > 1 ? team.together : Math.floor(residentThreads / team.threads)
  const ahead = Math.ceil((multiprocessors * blocks) / team.cluster)
  if (programs <= ahead) return undefined
  return { axis: axis.axis, distance: ahead * axis.block, exists: lt(program, int(programs - ahead)) }
}

/** Asks for what a load at a position reads in the program to come. */
export function prefetch(upcoming: Upcoming, p: KernelParam, flat: Expr, at: Ex, out: Block): void {
  const stride = strideOf(flat, upcoming.axis)
  if (stride === undefined || stride === 0 || valuesOf(flat).size > 0 || p.format !== 'plain') return
  const index = add(at, int(stride * upcoming.distance))
  const address: Ex = { k: 'address', type: 'u64', of: p.name, index }
  out.push({ k: 'if', cond: upcoming.exists, body: [{ k: 'call', fn: 'prefetch', args: [address] }], otherwise: [] })
}
