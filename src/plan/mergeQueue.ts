/** Pairs of groups in the order in which merging them is tried. It knows nothing of tensors. */

/** A producer and its consumer, and what speaks for merging them. */
export interface Pair {
  readonly from: number
  readonly to: number
  /** Bytes of the values handed on. */
  readonly saving: number
  /** Whether the producer is a matrix product: its epilogue costs least. */
  readonly epilogue: boolean
  /** Members of both: trials of few are cheap. */
  readonly size: number
}

/** Negative where `p` is tried after `q`. */
const compare = (p: Pair, q: Pair): number =>
  p.saving - q.saving || Number(p.epilogue) - Number(q.epilogue) || q.size - p.size

/** Largest saving first; among equals epilogues of products, then the smaller groups, then what was added last. */
export class MergeQueue {
  /** Last first. */
  private readonly pairs: Pair[]

  constructor(pairs: readonly Pair[]) {
    this.pairs = [...pairs].sort(compare)
  }

  add(pair: Pair): void {
    let [low, high] = [0, this.pairs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const there = this.pairs[middle]
      if (there !== undefined && compare(there, pair) <= 0) low = middle + 1
      else high = middle
    }
    this.pairs.splice(low, 0, pair)
  }

  pop(): Pair | undefined {
    return this.pairs.pop()
  }
}
