/**
 * Which sums join the loop over chunks that finds what their terms are taken against (src/kernel/streams.ts says which sums stream).
 */
import { foldAxes } from '../../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { type Streamed, streamedSum } from '../../../kernel/streams.ts'
import type { Place } from '../access/place.ts'
import { combinerOf } from './folds.ts'

/** How a sum may join the loop of its anchor. */
export interface Streaming {
  readonly streamed: Streamed
  /** What it waits for there: values, and (below zero) ends of steps. */
  readonly needs: readonly number[]
  /** Statements to compute there. */
  readonly closure: readonly LetStmt[]
}

/** A sum with how it streams. */
export interface Follower {
  readonly let: LetStmt
  readonly streamed: Streamed
}

/** A fold whose running result is an anchor, with the sums that are taken against it. */
export interface StreamPlan {
  readonly anchor: LetStmt
  readonly followers: readonly Follower[]
}

/** Whether the anchor is a mean of what was met rather than the greatest or least of it. */
export const isMean = ({ anchor }: StreamPlan): boolean => combinerOf(anchor) === 'sum'

/** What the terms of a stream's sums are taken against. */
export const againstOf = ({ followers }: StreamPlan): ValueId[] => [
  ...new Set(followers.map((f) => f.streamed.against)),
]

/** The sums of a stream that move with their moments. */
export const carriedOf = (stream: StreamPlan): readonly Follower[] =>
  isMean(stream) ? stream.followers.filter((f) => f.streamed.law.kind === 'polynomial') : []

/**
 * How a sum's part in a loop over chunks may join that of its anchor, if it may; `closure`: statements along chunked axes that it
 * needs, `before`: what it waits for besides values.
 */
export function streamingOf(
  { setting, part, isChunked }: Place,
  sum: LetStmt,
  closure: readonly LetStmt[],
  before: readonly number[],
): Streaming | undefined {
  const streamed = setting.mode === 'fast' ? streamedSum(sum, part.lets) : undefined
  if (streamed === undefined || closure.some((l) => foldAxes(l).some(isChunked))) return undefined
  const own = new Set([...closure.map((l) => l.id), ...streamed.through])
  const all = [...part.lets.values()].filter((l) => own.has(l.id))
  const reads = [sum, ...all].flatMap((l) => operandsOf(l.op))
  const needs = reads.filter((id) => !own.has(id) && id !== streamed.against)
  return { streamed, needs: [...needs, ...before], closure: all }
}
