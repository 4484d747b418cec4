/** A template of programs, the extents that it serves, and why it may have none. */

import type { TraceTemplate } from '../../compile/open/align.ts'
import type { SampleRange } from '../../compile/open/samples.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Extents } from '../../runtime/extents.ts'
import type { Compiled } from './device.ts'

/** The range of a dimension, by its number. */
export type OpenRange = SampleRange & { readonly dimension: number }

/** A program for a part of a template's range, made when it is needed. */
export interface Schedule {
  readonly ranges: readonly OpenRange[]
  compiled: Compiled | undefined
  /** Why it has none for all of its range: more memory than there may be. */
  refused?: UserError | undefined
}

/** A template and the extents that it serves. */
export interface Template {
  /** In the order of their ranges. */
  schedules: readonly Schedule[]
  /** Calls at new extents so far. */
  calls: number
  readonly trace: TraceTemplate
  /** By number of dimension, its range; a closed one has one value. */
  ranges: readonly { readonly least: number; readonly most: number }[]
  /** Numbers of the dimensions that are open. */
  readonly open: readonly number[]
}

/** Whether a part of a template's range holds some extents. */
export const holds = ({ ranges }: Schedule, at: Extents): boolean =>
  ranges.every(({ dimension, lo, hi }) => lo <= (at[dimension] ?? 0) && (at[dimension] ?? 0) <= hi)

/** Takes a part that has no program from a template where it is at an end: extents there are for another template. */
export function dropEnd(t: Template, part: Schedule): void {
  if (part !== t.schedules[0] && part !== t.schedules.at(-1)) return
  t.schedules = t.schedules.filter((s) => s !== part)
  const all = t.schedules.flatMap((s) => s.ranges)
  t.ranges = t.ranges.map((r, i) => {
    const own = all.filter((x) => x.dimension === i)
    return own.length === 0 ? r : { least: Math.min(...own.map((x) => x.lo)), most: Math.max(...own.map((x) => x.hi)) }
  })
}

/** Why there is no program. Throws what is no refusal: what the compiler makes must be what its own verifier takes. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof UserError) || error.code === 'E_KERNEL_INVALID') throw error
  return error.where === undefined ? error.summary : `${error.summary} (${error.where})`
}

/** What an error says where it is that there is too little memory. */
export const outOfMemory = (error: unknown): UserError | undefined =>
  error instanceof UserError && error.code === 'E_OUT_OF_MEMORY' ? error : undefined

export const withoutNumbers = (reason: string): string => reason.replace(/\d+/g, '#')
