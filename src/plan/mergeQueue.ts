/** Pairs of groups in the order in which merging them is tried. It knows nothing of tensors. */
import { Heap } from './heap.ts'

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

/** A pair with the number of those added before it. */
interface Entry {
  readonly pair: Pair
  readonly at: number
}

/** Negative where `p` is tried before `q`. */
const compare = ({ pair: p, at: i }: Entry, { pair: q, at: j }: Entry): number =>
  q.saving - p.saving || Number(q.epilogue) - Number(p.epilogue) || p.size - q.size || j - i

/** Largest saving first; among equals epilogues of products, then the smaller groups, then what was added last. */
export class MergeQueue {
  private readonly heap = new Heap<Entry>(compare)
  private added = 0

  constructor(pairs: readonly Pair[]) {
    for (const pair of pairs) this.add(pair)
  }

  add(pair: Pair): void {
    this.heap.push({ pair, at: this.added++ })
  }

  pop(): Pair | undefined {
    return this.heap.pop()?.pair
  }
}
