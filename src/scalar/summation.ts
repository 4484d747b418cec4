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
