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
  /** Members of the one that has fewer. */
  readonly smaller: number
}

/** Members of a block: a kernel holds some hundreds. */
const block = 32

/**
 * When a pair is tried: blocks grow when no smaller kernels are left to merge, and take in less than a block when no blocks are. A kernel
 * of n members that took in one after the other would be built n times, n^2 / 2 statements.
 */
function turn({ size, smaller }: Pair): number {
  const larger = size - smaller
  if (larger < block) return 0
  return larger >= 2 * block && smaller < block ? 2 : 1
}

/** Where all are blocks, the kernel that grew last grows on until it is full: small kernels are made into blocks evenly. */
const effort = ({ size }: Pair): number => Math.min(size, 2 * block)

/** Bytes; those of blocks by powers of 256: where they are alike in the large, the block that grew last goes on. */
const savingOf = (p: Pair): number => (turn(p) === 0 ? p.saving : Math.round(Math.log2(1 + p.saving) / 8))

/** A pair with what orders it and the number of those added before it. */
interface Entry {
  readonly pair: Pair
  readonly turn: number
  readonly saving: number
  readonly effort: number
  readonly at: number
}

/** Negative where `p` is tried before `q`. */
const compare = (p: Entry, q: Entry): number =>
  p.turn - q.turn ||
  q.saving - p.saving ||
  Number(q.pair.epilogue) - Number(p.pair.epilogue) ||
  p.effort - q.effort ||
  q.at - p.at

/** By turns, the largest saving first; among equals epilogues of products, then the smaller groups, then what was added last. */
export class MergeQueue {
  private readonly heap = new Heap<Entry>(compare)
  private added = 0

  constructor(pairs: readonly Pair[]) {
    for (const pair of pairs) this.add(pair)
  }

  add(pair: Pair): void {
    this.heap.push({ pair, turn: turn(pair), saving: savingOf(pair), effort: effort(pair), at: this.added++ })
  }

  pop(): Pair | undefined {
    return this.heap.pop()?.pair
  }
}
