/**
 * Reading for programs to come: where a program holds a row, it loads all of it, computes, and stores, and few programs share a
 * multiprocessor, so that memory would idle while they compute. Each program therefore asks for the row of the one that will take
 * its place, into the second-level cache.
 */
import type { SimtMachine } from '../../../target/simt.ts'
import type { Part } from '../part/part.ts'
import type { LaunchShape } from './launchShape.ts'
import type { Layout } from './layout.ts'
import { rowAxes } from './partLayout.ts'

/** The program whose rows are asked for early: so many indices further along a grid axis. */
export interface NextProgram {
  readonly axis: string
  readonly distance: number
  /** Programs before this one have such a program to come. */
  readonly below: number
}

/** Fewer threads a program leave many programs side by side. */
const fewestThreads = 512

/** Threads of a multiprocessor. */
const residentThreads = 2048

export function nextProgramOf(
  part: Part,
  layout: Layout,
  team: LaunchShape,
  programs: number,
  { multiprocessors }: SimtMachine,
): NextProgram | undefined {
  if (multiprocessors === undefined) return undefined
  const [axis, second] = part.part.grid.filter((g) => Math.ceil(part.axis(g.axis).extent / g.block) > 1)
  if (axis === undefined || second !== undefined || layout.threads < fewestThreads) return undefined
  // Which programs are to come is known at launch only.
  if (part.axis(axis.axis).open !== undefined) return undefined
  const rows = rowAxes(part)
  if (rows.size === 0 || [...rows].some((a) => (layout.find(a)?.chunks ?? 1) > 1)) return undefined
  const blocks = team.cluster > 1 ? team.together : Math.floor(residentThreads / team.threads)
  const ahead = Math.ceil((multiprocessors * blocks) / team.cluster)
  if (programs <= ahead) return undefined
  return { axis: axis.axis, distance: ahead * axis.block, below: programs - ahead }
}
