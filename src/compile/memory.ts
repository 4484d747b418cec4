/** The static memory plan: offsets of intermediate buffers in one arena from their lifetimes, reused and in place. */

export interface Interval {
  readonly buffer: number
  readonly bytes: number
  /** Step that first writes it. */
  readonly from: number
  /** Step that last touches it. */
  readonly to: number
  /** A buffer dying at `from` whose bytes it may take over (written in place). */
  readonly over?: number
}

export interface MemoryPlan {
  readonly offsets: ReadonlyMap<number, number>
  readonly arenaBytes: number
  readonly inPlace: number
}

const align = (n: number): number => Math.ceil((n + 64) / 64) * 64

/** First fit over lifetimes, larger first at a step. Every block keeps 64 bytes behind its data (vector tails read over). */
export function planMemory(intervals: readonly Interval[]): MemoryPlan {
  const offsets = new Map<number, number>()
  const placed: { from: number; to: number; start: number; end: number }[] = []
  let arenaBytes = 0
  let inPlace = 0
  const order = [...intervals].sort((a, b) => a.from - b.from || b.bytes - a.bytes)
  const at = new Map(order.map((i) => [i.buffer, i]))
  for (const i of order) {
    const host = i.over === undefined ? undefined : at.get(i.over)
    const hostStart = host === undefined ? undefined : offsets.get(host.buffer)
    if (host !== undefined && hostStart !== undefined && host.to === i.from && host.bytes === i.bytes) {
      offsets.set(i.buffer, hostStart)
      placed.push({ from: i.from, to: i.to, start: hostStart, end: hostStart + align(i.bytes) })
      inPlace++
      continue
    }
    const size = align(i.bytes)
    const busy = placed.filter((p) => p.from <= i.to && p.to >= i.from).sort((a, b) => a.start - b.start)
    let start = 0
    for (const p of busy) {
      if (p.start - start >= size) break
      start = Math.max(start, p.end)
    }
    offsets.set(i.buffer, start)
    placed.push({ from: i.from, to: i.to, start, end: start + size })
    arenaBytes = Math.max(arenaBytes, start + size)
  }
  return { offsets, arenaBytes, inPlace }
}
