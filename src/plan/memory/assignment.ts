/**
 * Buffer assignment: how long every buffer of a program lives, and which it is written over. One rule for the planner, which asks it
 * of groups of nodes to model the memory of an order, and for the compiler, which asks it of steps and does what it says. Offsets follow
 * from it (placement.ts). Buffers are numbers; it knows nothing of tensors.
 */

/** What one step of a program does to buffers. */
export interface MemoryStep {
  /** Buffers it reads or writes. */
  readonly touches: Iterable<number>
  /** The buffer that it may write `write` over: one of those that `isFree`, since nothing needs their bytes after this step. */
  donorFor(write: number, isFree: (read: number) => boolean): number | undefined
}

/** What a buffer needs. */
export interface BufferNeed {
  readonly bytes: number
  /**
   * An intermediate shares the arena, a result has memory of its own, a donated input may be written over by a result, and what is
   * fixed stays as it is.
   */
  readonly kind: 'intermediate' | 'result' | 'donated' | 'fixed'
  /** Of a result: an input that whoever runs the program may place it on. */
  readonly under?: number | undefined
}

export interface BufferAssignment {
  /** By buffer, the step that first touches it, and the one that last does; -1 where none does. */
  readonly from: Int32Array
  readonly to: Int32Array
  /** By buffer that is written over another, that other: it dies at the step at which the first begins to live. */
  readonly donors: ReadonlyMap<number, number>
  /** Results that may be placed on an input by whoever runs the program. */
  readonly placeable: ReadonlyMap<number, number>
}

type Lifetimes = Pick<BufferAssignment, 'from' | 'to'>

/** The first and the last step that touches each of so many buffers. */
export function lifetimesOf(steps: readonly Pick<MemoryStep, 'touches'>[], count: number): Lifetimes {
  const from = new Int32Array(count).fill(-1)
  const to = new Int32Array(count).fill(-1)
  steps.forEach(({ touches }, i) => {
    for (const b of touches) {
      if (from[b] === -1) from[b] = i
      to[b] = i
    }
  })
  return { from, to }
}

/**
 * Chooses what is written over what: results over donated inputs, in the order they are made, and intermediates over intermediates, by
 * number. A buffer has one donor, and gives its memory to one other of as many bytes. `decided` are donors that must be chosen; others are
 * chosen for buffers that are `open`.
 */
export function assignBuffers(
  steps: readonly MemoryStep[],
  needs: readonly BufferNeed[],
  decided: ReadonlyMap<number, number> = new Map(),
  isOpen: (buffer: number) => boolean = () => true,
): BufferAssignment {
  const lifetimes = lifetimesOf(steps, needs.length)
  const { from, to } = lifetimes
  const donors = new Map<number, number>()
  const placeable = new Map<number, number>()
  const taken = new Set<number>(decided.values())
  /** A donor for a buffer, of those that may be. */
  const donorOf = (b: number, mayBe: (x: number, need: BufferNeed) => boolean): number | undefined => {
    const at = from[b] ?? -1
    const wanted = decided.get(b)
    const bytes = needs[b]?.bytes
    return steps[at]?.donorFor(b, (x) => {
      const need = needs[x]
      if (need === undefined || to[x] !== at || need.bytes !== bytes) return false
      return (wanted === undefined ? !taken.has(x) : x === wanted) && mayBe(x, need)
    })
  }
  const mayHave = (b: number): boolean => decided.has(b) || isOpen(b)
  const give = (b: number, donor: number): void => {
    donors.set(b, donor)
    taken.add(donor)
  }
  steps.forEach(({ touches }, i) => {
    for (const b of touches) {
      const need = needs[b]
      if (need?.kind !== 'result' || from[b] !== i || donors.has(b)) continue
      const donor = mayHave(b) ? donorOf(b, (_, { kind }) => kind === 'donated') : undefined
      if (donor !== undefined) give(b, donor)
      else if (need.under !== undefined && donorOf(b, (x) => x === need.under) !== undefined)
        placeable.set(b, need.under)
    }
  })
  needs.forEach(({ kind }, b) => {
    if (kind !== 'intermediate' || from[b] === -1 || !mayHave(b)) return
    const donor = donorOf(b, (_, need) => need.kind === 'intermediate')
    if (donor !== undefined) give(b, donor)
  })
  return { from, to, donors, placeable }
}

/** The most bytes of intermediates alive during one step: one that is written over another counts as one with it while both live. */
export function peakBytes({ from, to, donors }: BufferAssignment, needs: readonly BufferNeed[], steps: number): number {
  // What begins and what has ended before each step; the step at which a buffer is written over another counts it less.
  const change = new Float64Array(steps + 1)
  const shared = new Float64Array(steps)
  needs.forEach(({ kind, bytes }, b) => {
    const [first, last] = [from[b] ?? -1, to[b] ?? -1]
    if (kind !== 'intermediate' || first === -1) return
    change[first] = (change[first] ?? 0) + bytes
    change[last + 1] = (change[last + 1] ?? 0) - bytes
    if (donors.has(b)) shared[first] = (shared[first] ?? 0) + bytes
  })
  let live = 0
  let most = 0
  for (let i = 0; i < steps; i++) {
    live += change[i] ?? 0
    most = Math.max(most, live - (shared[i] ?? 0))
  }
  return most
}
