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

/** Pairs that nothing but when they were added tells apart, the last on top, with what orders them among others. */
interface Rank {
  readonly turn: number
  /** Bytes; those of blocks by powers of 256: where they are alike in the large, the block that grew last goes on. */
  readonly saving: number
  readonly epilogue: boolean
  readonly effort: number
  readonly pairs: Pair[]
}

/** Negative where pairs of `p` are tried before those of `q`. */
const compare = (p: Rank, q: Rank): number =>
  p.turn - q.turn || q.saving - p.saving || Number(q.epilogue) - Number(p.epilogue) || p.effort - q.effort

/** By turns, the largest saving first; among equals epilogues of products, then the smaller groups, then what was added last. */
export class MergeQueue {
  /** Ranks that have pairs: of a program's pairs most are like others, layer by layer. */
  private readonly heap = new Heap<Rank>(compare)
  private readonly ranks = new Map<string, Rank>()

  constructor(pairs: readonly Pair[]) {
    for (const pair of pairs) this.add(pair)
  }

  add(pair: Pair): void {
    const { epilogue } = pair
    const at = turn(pair)
    const saving = at === 0 ? pair.saving : Math.round(Math.log2(1 + pair.saving) / 8)
    const cost = effort(pair)
    const key = `${at} ${saving} ${epilogue} ${cost}`
    let rank = this.ranks.get(key)
    if (rank === undefined) {
      rank = { turn: at, saving, epilogue, effort: cost, pairs: [] }
      this.ranks.set(key, rank)
    }
    if (rank.pairs.push(pair) === 1) this.heap.push(rank)
  }

  pop(): Pair | undefined {
    const pairs = this.heap.peek()?.pairs
    const pair = pairs?.pop()
    if (pairs?.length === 0) this.heap.pop()
    return pair
  }
}
