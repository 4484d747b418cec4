/**
 * Locals that are never needed at once share a slot. A baseline compiler keeps the state of every local at every branch, so a function of
 * thousands of them takes a time that grows with their square.
 *
 * Code is seen as marks in order: reads and writes of locals, and the structure around them. A local is needed from its first mark to its
 * last. Loops stretch that: what is written before a loop and used in it is needed until the loop ends, and what some path may read before
 * it writes (its first write stands in a block that does not hold all of its marks) is needed throughout the loops it stands in. A local's
 * value is undefined until it is set (`FunctionBuilder.local`).
 */
export const markKinds = ['get', 'set', 'tee', 'loop', 'block', 'else', 'end'] as const
export type MarkKind = (typeof markKinds)[number]

const codeOfKind = { get: 0, set: 1, tee: 2, loop: 3, block: 4, else: 5, end: 6 } as const satisfies Record<
  MarkKind,
  number
>

/** Marks in the order of the code: for each its position in bytes, its kind, and its local (-1: it has none). */
export class Marks {
  length = 0
  /** Two numbers a mark: its position, and its kind with its local above it. */
  private data = new Int32Array(64)

  private reserve(marks: number): void {
    const need = 2 * (this.length + marks)
    if (need <= this.data.length) return
    const grown = new Int32Array(Math.max(need, 2 * this.data.length))
    grown.set(this.data.subarray(0, 2 * this.length))
    this.data = grown
  }

  add(at: number, kind: MarkKind, local = -1): void {
    this.reserve(1)
    const i = 2 * this.length++
    this.data[i] = at
    this.data[i + 1] = (local << 3) | codeOfKind[kind]
  }

  at(i: number): number {
    return this.data[2 * i] ?? 0
  }

  kind(i: number): MarkKind {
    return markKinds[(this.data[2 * i + 1] ?? 0) & 7] ?? 'end'
  }

  local(i: number): number {
    return (this.data[2 * i + 1] ?? 0) >> 3
  }

  /** The last mark becomes another. */
  replace(kind: MarkKind): void {
    const i = 2 * this.length - 1
    this.data[i] = ((this.data[i] ?? 0) & ~7) | codeOfKind[kind]
  }

  /** Appends marks of code that stands some bytes further on. */
  append(other: Marks, by: number): void {
    this.reserve(other.length)
    const { data } = this
    const from = 2 * this.length
    const n = 2 * other.length
    for (let i = 0; i < n; i += 2) {
      data[from + i] = (other.data[i] ?? 0) + by
      data[from + i + 1] = other.data[i + 1] ?? 0
    }
    this.length += other.length
  }
}

interface Region {
  /** Whether it repeats; else it may be left out. */
  readonly isLoop: boolean
  readonly begin: number
  end: number
  readonly outer: Region | undefined
}

interface Span {
  readonly local: number
  /** Its first mark, and the innermost region that may be left out around it; undefined: the function. */
  first: number
  readonly arm: Region | undefined
  readonly writesFirst: boolean
  last: number
  /** The innermost region of its first mark, that of the last one seen, and those met after the first, as often as they change. */
  readonly region: Region | undefined
  lastRegion: Region | undefined
  others: (Region | undefined)[] | undefined
}

const armOf = (region: Region | undefined): Region | undefined => {
  let r = region
  while (r?.isLoop === true) r = r.outer
  return r
}

/** The outermost loop around a region (or itself) that does not hold a mark. */
function outermostLoop(region: Region | undefined, without: number): Region | undefined {
  let found: Region | undefined
  for (let r = region; r !== undefined; r = r.outer)
    if (r.isLoop && !(r.begin <= without && without <= r.end)) found = r
  return found
}

function spansOf(marks: Marks, params: number): Span[] {
  const all: Span[] = []
  const ofLocal: (Span | undefined)[] = []
  let region: Region | undefined
  const open = (isLoop: boolean, begin: number): void => {
    region = { isLoop, begin, end: Number.POSITIVE_INFINITY, outer: region }
  }
  const close = (end: number): void => {
    if (region === undefined) return
    region.end = end
    region = region.outer
  }
  for (let i = 0; i < marks.length; i++) {
    const kind = marks.kind(i)
    if (kind === 'loop' || kind === 'block') open(kind === 'loop', i)
    else if (kind === 'end') close(i)
    else if (kind === 'else') {
      close(i)
      open(false, i)
    } else {
      const local = marks.local(i)
      if (local < params) continue
      const have = ofLocal[local]
      if (have === undefined) {
        const made: Span = {
          local,
          first: i,
          arm: armOf(region),
          writesFirst: kind !== 'get',
          last: i,
          region,
          lastRegion: region,
          others: undefined,
        }
        ofLocal[local] = made
        all.push(made)
      } else {
        have.last = i
        if (have.lastRegion !== region) {
          have.lastRegion = region
          have.others ??= []
          have.others.push(region)
        }
      }
    }
  }
  for (const s of all) {
    const { arm, first } = s
    const dominated = s.writesFirst && (arm === undefined || s.last <= arm.end)
    const stretch = (r: Region | undefined): void => {
      const loop = outermostLoop(r, dominated ? first : Number.NEGATIVE_INFINITY)
      if (loop === undefined) return
      s.last = Math.max(s.last, loop.end)
      if (!dominated) s.first = Math.min(s.first, loop.begin)
    }
    stretch(s.region)
    s.others?.forEach(stretch)
  }
  return all
}

/** By local, the slot among those of its type; locals below `params` are left out. */
export function slotsOf<T>(
  marks: Marks,
  params: number,
  typeOf: (local: number) => T,
): { readonly slot: readonly (number | undefined)[]; readonly counts: ReadonlyMap<T, number> } {
  const slot: (number | undefined)[] = []
  const counts = new Map<T, number>()
  const free = new Map<T, number[]>()
  const spans = spansOf(marks, params).sort((a, b) => a.first - b.first)
  // Slots become free in the order of the last marks of their locals.
  const ended = [...spans].sort((a, b) => a.last - b.last)
  let done = 0
  for (const s of spans) {
    for (let over = ended[done]; over !== undefined && over.last < s.first; over = ended[++done]) {
      const type = typeOf(over.local)
      const pool = free.get(type)
      if (pool === undefined) free.set(type, [slot[over.local] ?? 0])
      else pool.push(slot[over.local] ?? 0)
    }
    const type = typeOf(s.local)
    const have = free.get(type)?.pop()
    const next = counts.get(type) ?? 0
    slot[s.local] = have ?? next
    if (have === undefined) counts.set(type, next + 1)
  }
  return { slot, counts }
}
