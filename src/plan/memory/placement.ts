/** Offsets of intermediate buffers in one arena, from the lifetimes and the reuse of their assignment. */

export interface Interval {
  readonly buffer: number
  readonly bytes: number
  /** Step that first writes it. */
  readonly from: number
  /** Step that last touches it. */
  readonly to: number
  /** The buffer it is written over, which dies at `from`. */
  readonly donor?: number
}

export interface Placement {
  readonly offsets: ReadonlyMap<number, number>
  readonly arenaBytes: number
  readonly inPlace: number
}

/** The block of `n` bytes with what is kept behind them. */
const align = (n: number, alignment: number): number => Math.ceil((n + 64) / alignment) * alignment

/** Buffers that follow each other in one place: alive from the first's beginning to the last's end. */
interface Block {
  readonly buffers: number[]
  readonly bytes: number
  readonly from: number
  to: number
}

/** Joins every buffer with its donor. */
function blocksOf(intervals: readonly Interval[]): { readonly blocks: readonly Block[]; readonly inPlace: number } {
  const holder = new Map<number, Block>()
  const blocks: Block[] = []
  let inPlace = 0
  for (const i of [...intervals].sort((a, b) => a.from - b.from)) {
    const donor = i.donor === undefined ? undefined : holder.get(i.donor)
    if (donor !== undefined && donor.to === i.from && donor.bytes === i.bytes) {
      donor.buffers.push(i.buffer)
      donor.to = i.to
      holder.set(i.buffer, donor)
      inPlace++
      continue
    }
    const block = { buffers: [i.buffer], bytes: i.bytes, from: i.from, to: i.to }
    blocks.push(block)
    holder.set(i.buffer, block)
  }
  return { blocks, inPlace }
}

/** Where an item goes in a sorted list, behind its equals. */
function placeIn<T>(list: readonly T[], key: (x: T) => number, at: number): number {
  let [low, high] = [0, list.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const there = list[middle]
    if (there !== undefined && key(there) <= at) low = middle + 1
    else high = middle
  }
  return low
}

/** Places blocks one after another, each in the first gap among those alive at the same time or `after` steps later. */
function firstFit(
  blocks: readonly Block[],
  alignment: number,
  after: number,
): { readonly starts: ReadonlyMap<Block, number>; readonly end: number } {
  const starts = new Map<Block, number>()
  /** By where they start. */
  const placed: { readonly block: Block; readonly start: number; readonly end: number }[] = []
  let end = 0
  for (const block of blocks) {
    const size = align(block.bytes, alignment)
    let start = 0
    for (const p of placed) {
      if (p.block.from > block.to + after || p.block.to + after < block.from) continue
      if (p.start - start >= size) break
      start = Math.max(start, p.end)
    }
    starts.set(block, start)
    placed.splice(
      placeIn(placed, (p) => p.start, start),
      0,
      { block, start, end: start + size },
    )
    end = Math.max(end, start + size)
  }
  return { starts, end }
}

/** Steps after a buffer's last that leave its place alone where there is room: the most first. */
const steps = [3, 2, 1]

/**
 * Offsets by first fit, once in the order of time and once the largest blocks first; the smaller arena wins. Every block keeps
 * 64 bytes behind its data (vector tails read over). Offsets are multiples of `alignment`. Within `apart` bytes a place stays unused for
 * some steps after its buffer died, so that steps that do not need one another's results do not wait for its memory.
 */
export function placeBuffers(intervals: readonly Interval[], alignment = 64, apart = 0): Placement {
  const { blocks, inPlace } = blocksOf(intervals)
  const bySize = [...blocks].sort((a, b) => b.bytes - a.bytes || a.from - b.from)
  const byTime = [...blocks].sort((a, b) => a.from - b.from || b.bytes - a.bytes)
  const placed = (after: number): ReturnType<typeof firstFit> => {
    const [large, early] = [firstFit(bySize, alignment, after), firstFit(byTime, alignment, after)]
    return large.end < early.end ? large : early
  }
  const least = placed(0)
  const wider = least.end > apart || blocks.length < 2 ? undefined : steps.map(placed).find((p) => p.end <= apart)
  const { starts, end } = wider ?? least
  const offsets = new Map([...starts].flatMap(([block, start]) => block.buffers.map((b) => [b, start] as const)))
  return { offsets, arenaBytes: end, inPlace }
}
