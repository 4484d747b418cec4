/**
 * Which launches wait for which: those that touch the same memory, one of them writing. What is left apart may run side by side
 * in a graph.
 */
import { overlapping, type Place } from '../../runtime/commands.ts'

/** Memory that a launch reads or writes. */
export interface Touch {
  readonly place: Place
  readonly written: boolean
}

interface Access extends Touch {
  readonly launch: number
}

const covers = (a: Place, b: Place): boolean =>
  a.base === b.base && a.offset <= b.offset && a.offset + a.bytes >= b.offset + b.bytes

/**
 * For each launch, in order, the earlier ones it follows directly: those that no other one of them follows already. A launch that
 * starts early waits for these to end, and each of them ended after those it follows itself, so they need no edge.
 */
export function dependenciesOf(launches: readonly (readonly Touch[])[]): number[][] {
  /** What has been done to each base since it was last written over. */
  const byBase = new Map<number, Access[]>()
  /** Bit j: the launch comes after launch j. */
  const behind: bigint[] = []
  return launches.map((touches, launch) => {
    const found = new Set<number>()
    for (const { place, written } of touches)
      for (const a of byBase.get(place.base) ?? [])
        if ((written || a.written) && overlapping(a.place, place)) found.add(a.launch)
    for (const t of touches) {
      const open = byBase.get(t.place.base) ?? []
      const rest = t.written ? open.filter((a) => a.launch === launch || !covers(t.place, a.place)) : open
      rest.push({ ...t, launch })
      byBase.set(t.place.base, rest)
    }
    const direct: number[] = []
    let all = 0n
    for (const j of [...found].sort((a, b) => b - a)) {
      if ((all >> BigInt(j)) & 1n) continue
      direct.push(j)
      all |= (behind[j] ?? 0n) | (1n << BigInt(j))
    }
    behind.push(all)
    return direct.reverse()
  })
}
