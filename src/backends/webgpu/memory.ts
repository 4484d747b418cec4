/**
 * The memory pool of a device: whole buffers by size class. One queue runs everything in order, so what is released may be given
 * out again at once: whoever gets it works on it later. A new buffer is dear (its memory is allocated and cleared by the
 * implementation), so those not in use are kept within a bound, and those released longest ago go first.
 */
import { UserError } from '../../diagnostics/errors.ts'

/** What the pool asks of a device. */
export interface BufferSource<B> {
  readonly create: (bytes: number) => B
  /** Ends a buffer that nothing will be recorded on again. */
  readonly destroy: (buffer: B) => void
  /** Most bytes of one buffer. */
  readonly maxBufferBytes: number
}

/** Unused bytes that are always kept. */
const keptBytes = 256 << 20
/** Reuse takes a buffer of at most so many times the size it looks for. */
const slack = 1.5
/** Takes after which the peak of use is forgotten. */
const period = 1024

const mib = (n: number): string => `${(n / 2 ** 20).toFixed(1)} MiB`

/** Sizes are rounded to eight steps an octave, so that buffers find another use. */
export function sizeClass(bytes: number): number {
  const least = Math.max(256, bytes)
  const step = 2 ** Math.max(8, Math.floor(Math.log2(least)) - 3)
  return Math.ceil(least / step) * step
}

export class BufferPool<B extends { readonly size: number }> {
  /** Bytes of buffers given out. */
  used = 0
  /** Bytes of buffers that wait to be used again. */
  spareBytes = 0
  private readonly source: BufferSource<B>
  private readonly asked: number
  /** Most bytes that were reserved when the device ran out of memory. */
  private learned = Number.POSITIVE_INFINITY
  /** Not in use, released longest ago first, with their places in the lists of their sizes. */
  private readonly spare = new Map<B, number>()
  private readonly bySize = new Map<number, B[]>()
  /** Buffers that turned out to have no memory. */
  private readonly hollow = new WeakSet<B>()
  /** Peaks of use in the last period and in this one. */
  private before = 0
  private peak = 0
  private takes = 0

  constructor(source: BufferSource<B>, limit: number | undefined) {
    this.source = source
    this.asked = limit ?? Number.POSITIVE_INFINITY
  }

  /** Most bytes: as asked for, or what the device turned out to have. */
  get limit(): number {
    return Math.min(this.asked, this.learned)
  }

  /**
   * A buffer of at least `bytes` bytes; one of `known` (the first that is free and fits), where there is one: what a caller has had
   * before, it has bind groups for. Throws E_OUT_OF_MEMORY.
   */
  take(bytes: number, known: readonly B[] = []): B {
    const { maxBufferBytes } = this.source
    this.checkSize(bytes)
    const size = Math.min(sizeClass(bytes), maxBufferBytes)
    if (this.used + size > this.limit)
      this.fail(`no room for ${mib(bytes)}: ${mib(this.used)} of ${mib(this.limit)} are in use`)
    const buffer = this.reuse(size, known) ?? this.fresh(size)
    this.used += buffer.size
    this.note()
    return buffer
  }

  /** Throws E_OUT_OF_MEMORY where no buffer could have so many bytes. */
  checkSize(bytes: number): void {
    const { maxBufferBytes } = this.source
    if (bytes > maxBufferBytes)
      this.fail(`${mib(bytes)} in one buffer: this WebGPU device has buffers of at most ${mib(maxBufferBytes)}`)
  }

  release(buffer: B): void {
    const { size } = buffer
    this.used -= size
    if (this.hollow.has(buffer)) {
      this.source.destroy(buffer)
      return
    }
    const list = this.bySize.get(size) ?? []
    this.bySize.set(size, list)
    this.spare.set(buffer, list.push(buffer) - 1)
    this.spareBytes += size
    // Together no more than was in use at once lately, and a bit.
    this.shrink(Math.max(this.peak, this.before) + keptBytes - this.used)
  }

  /** Ends all buffers that are not in use. */
  trim(): void {
    this.shrink(0)
  }

  /**
   * The device ran out of memory (for a buffer that was taken, where told: it is not given out again): it is not asked for as
   * much again, and what lies unused goes back to it.
   */
  exhausted(buffer?: B): void {
    const reserved = this.used + this.spareBytes
    this.learned = Math.min(this.learned, buffer === undefined ? reserved : reserved - 1)
    if (buffer !== undefined) this.hollow.add(buffer)
    this.trim()
  }

  /** Forgets what lies unused: it ended with its device. */
  drop(): void {
    this.spare.clear()
    this.bySize.clear()
    this.spareBytes = 0
  }

  private reuse(size: number, known: readonly B[]): B | undefined {
    const fits = known.find((b) => b.size >= size && b.size <= slack * size && this.spare.has(b))
    if (fits !== undefined) return this.withdraw(fits)
    for (let c = size; c <= slack * size; c = sizeClass(c + 1)) {
      const found = this.bySize.get(c)?.at(-1)
      if (found !== undefined) return this.withdraw(found)
    }
    return undefined
  }

  /** Takes a buffer out of those not in use; the last of its list takes its place there. */
  private withdraw(b: B): B {
    const list = this.bySize.get(b.size) ?? []
    const place = this.spare.get(b)
    const last = list.pop()
    if (last !== undefined && last !== b && place !== undefined) {
      list[place] = last
      this.spare.set(last, place)
    }
    this.spare.delete(b)
    this.spareBytes -= b.size
    return b
  }

  private fresh(size: number): B {
    this.shrink(this.limit - this.used - size)
    return this.source.create(size)
  }

  /** Ends buffers that are not in use until no more than so many bytes are. */
  private shrink(most: number): void {
    for (const b of this.spare.keys()) {
      if (this.spareBytes <= most) break
      this.source.destroy(this.withdraw(b))
    }
  }

  private note(): void {
    this.peak = Math.max(this.peak, this.used)
    if (++this.takes % period !== 0) return
    this.before = this.peak
    this.peak = this.used
  }

  private fail(message: string): never {
    throw new UserError('E_OUT_OF_MEMORY', message, {
      help: 'work on smaller pieces, free tensors you no longer need (a loop frees what it dropped only where it awaits), or donate inputs to jit',
    })
  }
}
