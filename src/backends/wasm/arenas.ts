/**
 * Arenas that programs share: one program runs at a time, and nothing in its arena outlives the run. A program that calls code of the user has
 * an arena of its own, since that code may run others.
 */
import type { Residents } from '../../runtime/resources.ts'
import type { Heap } from './heap.ts'

/** An arena is given to programs that need at least one part in this many of it: the largest of them may go before the others. */
const mostSpare = 4

export interface Arena {
  readonly address: number
  readonly bytes: number
  holders: number
}

export class Arenas {
  private readonly heap: Heap
  private readonly residents: Residents
  private readonly shared = new Set<Arena>()

  constructor(heap: Heap, residents: Residents) {
    this.heap = heap
    this.residents = residents
  }

  /**
   * An arena of at least so many bytes until `release`; nobody else has it unless `mayShare`. Its pages are present where every run writes `wholly`.
   * Throws E_OUT_OF_MEMORY.
   */
  take(bytes: number, mayShare: boolean, wholly: boolean): Arena {
    let found: Arena | undefined
    if (mayShare)
      for (const a of this.shared)
        if (a.bytes >= bytes && a.bytes <= mostSpare * bytes && a.bytes < (found?.bytes ?? Number.POSITIVE_INFINITY))
          found = a
    const { heap } = this
    const arena = found ?? { address: wholly ? heap.allocPresent(bytes) : heap.alloc(bytes), bytes, holders: 0 }
    if (found === undefined) this.residents.bytes += bytes
    if (mayShare) this.shared.add(arena)
    arena.holders++
    return arena
  }

  /** A holder is done. */
  readonly release = (arena: Arena): void => {
    if (--arena.holders > 0) return
    this.shared.delete(arena)
    this.residents.bytes -= arena.bytes
    this.heap.free(arena.address)
  }
}
