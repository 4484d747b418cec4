/**
 * Which launches wait for which: those that touch the same memory, one of them writing. What is left apart may run side by side
 * in a graph. Programs with loops have tens of thousands of launches: what is done here is in proportion to their number.
 */
import type { Place } from '../../runtime/commands.ts'

/** Memory that a launch reads or writes. */
export interface Touch {
  readonly place: Place
  readonly written: boolean
}

/** Bytes of a base that share their history. */
interface Piece {
  readonly start: number
  readonly end: number
  /** The launch that wrote them last. */
  readonly writer: number | undefined
  /** Those that have read them since. */
  readonly readers: number[]
}

/** What was done to the bytes of a base: pieces in order, none of which overlap. */
class History {
  private readonly pieces: Piece[] = []

  /** Adds the launches that whoever touches these bytes next comes after. */
  before({ start, end, written }: { start: number; end: number; written: boolean }, found: Set<number>): void {
    for (let i = this.indexOf(start); i < this.pieces.length; i++) {
      const piece = this.pieces[i]
      if (piece === undefined || piece.start >= end) return
      if (piece.writer !== undefined) found.add(piece.writer)
      if (written) for (const reader of piece.readers) found.add(reader)
    }
  }

  write(launch: number, start: number, end: number): void {
    const { first, count } = this.cut(start, end)
    this.pieces.splice(first, count, { start, end, writer: launch, readers: [] })
  }

  read(launch: number, start: number, end: number): void {
    const { first, count } = this.cut(start, end)
    const read: Piece[] = []
    let at = start
    const untouched = (until: number): void => {
      if (at < until) read.push({ start: at, end: until, writer: undefined, readers: [launch] })
    }
    for (const piece of this.pieces.slice(first, first + count)) {
      untouched(piece.start)
      piece.readers.push(launch)
      read.push(piece)
      at = piece.end
    }
    untouched(end)
    this.pieces.splice(first, count, ...read)
  }

  /** The pieces between two bytes; one that reaches over an end is made two. */
  private cut(start: number, end: number): { readonly first: number; readonly count: number } {
    const { pieces } = this
    const split = (at: number): number => {
      const i = this.indexOf(at)
      const piece = pieces[i]
      if (piece === undefined || piece.start >= at) return i
      pieces.splice(i, 1, { ...piece, end: at }, { ...piece, start: at, readers: [...piece.readers] })
      return i + 1
    }
    const first = split(start)
    return { first, count: split(end) - first }
  }

  /** The first piece that ends behind a byte. */
  private indexOf(at: number): number {
    let [low, high] = [0, this.pieces.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.pieces[middle]?.end ?? 0) <= at) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Words of 32 launches that a launch remembers: of those before it may have an edge to one that it comes after anyway. */
const remembered = 64

/** The launches, by number, that one comes after. */
class Earlier {
  private readonly from: number
  private readonly words: Uint32Array

  constructor(launch: number) {
    const last = launch >> 5
    this.from = Math.max(0, last + 1 - remembered)
    this.words = new Uint32Array(last + 1 - this.from)
  }

  has(launch: number): boolean {
    return (((this.words[(launch >> 5) - this.from] ?? 0) >> (launch & 31)) & 1) === 1
  }

  add(launch: number): void {
    const at = (launch >> 5) - this.from
    if (at >= 0) this.words[at] = (this.words[at] ?? 0) | (1 << (launch & 31))
  }

  addAll(other: Earlier): void {
    const shift = other.from - this.from
    for (let i = Math.max(0, -shift); i < other.words.length; i++)
      this.words[i + shift] = (this.words[i + shift] ?? 0) | (other.words[i] ?? 0)
  }
}

/**
 * For each launch, in order, the earlier ones it follows directly: those that no other one of them follows already. A launch that
 * starts early waits for these to end, and each of them ended after those it follows itself, so they need no edge.
 */
export function dependenciesOf(launches: readonly (readonly Touch[])[]): number[][] {
  const byBase = new Map<number, History>()
  const earlier: Earlier[] = []
  return launches.map((touches, launch) => {
    const spans = touches.flatMap(({ place: { base, offset, bytes }, written }) => {
      const history = byBase.get(base) ?? new History()
      byBase.set(base, history)
      return bytes > 0 ? [{ history, start: offset, end: offset + bytes, written }] : []
    })
    const found = new Set<number>()
    for (const s of spans) s.history.before(s, found)
    for (const s of spans) if (!s.written) s.history.read(launch, s.start, s.end)
    for (const s of spans) if (s.written) s.history.write(launch, s.start, s.end)
    const behind = new Earlier(launch)
    const direct: number[] = []
    for (const j of [...found].sort((a, b) => b - a)) {
      if (behind.has(j)) continue
      direct.push(j)
      behind.add(j)
      const further = earlier[j]
      if (further !== undefined) behind.addAll(further)
    }
    earlier.push(behind)
    return direct.reverse()
  })
}
