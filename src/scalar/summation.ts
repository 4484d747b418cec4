/**
 * The order of long sums and products (docs/numerics.md, "Reductions"): consecutive terms are folded in order, a chunk at a time, and the
 * chunks' totals in a balanced tree: that of m totals is the fold of the first 2^k (the greatest power of two below m) with that of the
 * rest. A counter in binary holds it on the way: where bit j of the number of totals is set, the fold of a block of 2^j stands in place
 * j. Every prefix is such a tree of its own, folded from the lowest set bit up.
 */

/** Terms of a chunk in strict mode. */
export const strictChunk = 1024

/**
 * Terms that an accumulator folds in order in fast mode, of n in all: a chunk of s, any number of accumulators that are merged in pairs
 * and the tree above them make s - 1 + log2(n / s) + 1 additions one upon another, which are at most 4 log2 n.
 */
export const fastChunkOf = (n: number): number => (n >= 2 ** 20 ? 64 : n >= 512 ? 32 : 16)

/** Additions one upon another that a sum of n terms may take in fast mode (docs/numerics.md, "Modes"). */
export const mostAdditions = (n: number): number => 4 * Math.log2(Math.max(1, n))

/**
 * How accumulators of fast mode that take `each` terms in each of `rounds` rounds fold them. Every so many rounds what the `copies`
 * hold is a total, which another accumulator takes; so often what that holds is a total of totals, and so on.
 */
export interface Levels {
  /** Accumulators that take the terms of a round by turns. */
  readonly copies: number
  /** log2 of the rounds after which each level's total is taken, the lowest level first; the last level's never is. */
  readonly closes: readonly number[]
}

/** Where so many totals of 2^log2 rounds close: the first after 2^first, the others' spans as even as they come. */
function closesOf(log2: number, totals: number, first: number): number[] {
  const closes: number[] = []
  for (let i = 0, at = first; i < totals; at += Math.floor((log2 - first + i) / totals), i++) closes.push(at)
  return closes
}

/** Additions one upon another of levels. */
function additionsOf(each: number, rounds: number, { copies, closes }: Levels): number {
  const own = Math.ceil(each / copies)
  const top = closes.at(-1) ?? 0
  const spans = closes.map((c, i) => c - (closes[i - 1] ?? 0))
  const inLevels = spans.reduce((sum, b, i) => sum + (i === 0 ? own : 1) * 2 ** b - 1, 0)
  const last = Math.ceil(rounds / 2 ** top)
  const inLast = closes.length === 0 ? own * rounds - 1 : last
  return inLevels + inLast + Math.log2(copies)
}

/** The fewest accumulators whose sums take no more additions one upon another than `most`; else what takes the fewest additions. */
export function levelsOf(each: number, rounds: number, most: number): Levels {
  const log2 = Math.ceil(Math.log2(Math.max(1, rounds)))
  const none: Levels = { copies: 1, closes: [] }
  let best = none
  for (let more = 0; more <= log2 + 8; more++)
    for (let copies = 1; copies <= Math.min(1 + more, each); copies *= 2) {
      const levels = more - (copies - 1)
      if (levels > log2) continue
      for (let first = levels === 0 ? 0 : log2 - levels; first >= 0; first--) {
        const found = { copies, closes: closesOf(log2, levels, first) }
        if (additionsOf(each, rounds, found) <= most) return found
        if (additionsOf(each, rounds, found) < additionsOf(each, rounds, best)) best = found
      }
    }
  return best
}

/** Places that the tree of so many totals needs. */
export const placesOf = (totals: number): number => Math.ceil(Math.log2(Math.max(1, totals) + 1))

/** Folds every block of 2^k totals, beginning at a multiple of 2^k, in the tree: it stands where its last total stood. */
export function foldBlocks<T>(totals: readonly T[], merge: (a: T, b: T) => T): T[] {
  const out = [...totals]
  for (let half = 1; half < out.length; half *= 2)
    for (let i = 2 * half - 1; i < out.length; i += 2 * half) {
      const [a, b] = [out[i - half], out[i]]
      if (a !== undefined && b !== undefined) out[i] = merge(a, b)
    }
  return out
}

/** The tree, a total at a time. */
export class Totals {
  private readonly merge: (a: number, b: number) => number
  private readonly places: number[] = []
  private count = 0

  constructor(merge: (a: number, b: number) => number) {
    this.merge = merge
  }

  /** Takes the next chunk's total. */
  push(total: number): void {
    let x = total
    let j = 0
    for (; (this.count >>> j) & 1; j++) x = this.merge(this.places[j] ?? x, x)
    this.places[j] = x
    this.count++
  }

  /** The fold of all totals so far with one that follows them: of a chunk under way, or the identity. */
  with(last: number): number {
    let x = last
    for (let j = 0; this.count >>> j > 0; j++) if ((this.count >>> j) & 1) x = this.merge(this.places[j] ?? x, x)
    return x
  }
}
