/** Lines that stand in one set of the memory right beside a core. */
import { cacheLine, pageBytes } from '../../../target/loops.ts'

/** Lines that a set holds on most cores, or more. */
const ways = 8

/**
 * Whether lines at so many bytes from each other do not stand beside the core together. A line's place in its page says which set it is in, for that
 * is known before the page is: rows at a multiple of a page share one.
 */
export function crowdSets(distances: readonly number[]): boolean {
  const linesOfPage = pageBytes / cacheLine
  const sets = new Map<number, number>()
  for (const line of new Set(distances.map((d) => Math.floor(d / cacheLine)))) {
    const set = ((line % linesOfPage) + linesOfPage) % linesOfPage
    sets.set(set, (sets.get(set) ?? 0) + 1)
  }
  return Math.max(0, ...sets.values()) > ways
}
