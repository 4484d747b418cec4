/** Parts of the range that a program with open extents serves: each has kernels planned for its own extents (docs/open.md, "Ranges by size"). */
import { primeAbove, type SampleRange } from '../../compile/open/samples.ts'

/** Parts of a range, at most. */
const mostParts = 4

/** How many times its least extent the greatest of a part is, where there are enough parts. */
const partRatio = 4

/** The number of the range that is cut, its parts in order, each of which begins where the one before ends; none: nothing is cut. */
export interface Cut {
  readonly range: number
  readonly parts: readonly { readonly lo: number; readonly hi: number }[]
}

/** Parts of a range that is cut until they fit memory, at most. */
const mostFitting = 12

/** Cuts the range whose ends are furthest apart. Where parts meet is none of the `taken` extents. */
export const cutRanges = (ranges: readonly SampleRange[], taken: ReadonlySet<number>): Cut | undefined =>
  cutWidest(ranges, ({ lo, hi }) => Math.min(mostParts, Math.floor(Math.log(hi / lo) / Math.log(partRatio))), taken)

/** Cuts one of `parts` parts of a range in two, so that less memory holds the first of them. */
export const cutInTwo = (ranges: readonly SampleRange[], parts: number, taken: ReadonlySet<number>): Cut | undefined =>
  cutWidest(ranges, ({ lo, hi }) => (parts < mostFitting && hi >= 2 * lo ? 2 : 1), taken)

function cutWidest(
  ranges: readonly SampleRange[],
  countOf: (range: SampleRange) => number,
  taken: ReadonlySet<number>,
): Cut | undefined {
  const ratio = (r: SampleRange): number => r.hi / r.lo
  const widest = ranges.reduce((best, r, i) => (ratio(r) > ratio(ranges[best] ?? r) ? i : best), 0)
  const range = ranges[widest]
  if (range === undefined) return undefined
  const { lo, hi } = range
  const count = countOf(range)
  if (count < 2) return undefined
  const used = new Set([...taken, ...ranges.flatMap((r) => [r.lo, r.hi])])
  const edges = Array.from({ length: count - 1 }, (_, i) => {
    const edge = primeAbove(Math.round(lo * (hi / lo) ** ((i + 1) / count)), used)
    used.add(edge)
    return edge
  })
  if (edges.some((e) => e <= lo || e >= hi)) return undefined
  const ends = [lo, ...edges, hi]
  return { range: widest, parts: ends.slice(1).map((end, i) => ({ lo: ends[i] ?? lo, hi: end })) }
}
