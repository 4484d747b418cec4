/**
 * The memory pool of a device: blocks cut from segments the driver gave, best fit, of equal ones the lowest, neighbours joined: the same
 * calls after one another get the same addresses, whatever the order in which results are freed, so that graphs serve again. Everything
 * runs on one stream, so what is freed may be given out again at once: whoever gets it works on it later.
 */
import { UserError } from '../../diagnostics/errors.ts'
import { type CudaContext, isOutOfMemory } from './driver.ts'

const alignment = 512
/** Small blocks share segments of this size; larger ones are segments of their own, rounded up to it. */
const segmentBytes = 32 << 20
const granularity = 2 << 20

interface Block {
  readonly address: number
  size: number
  free: boolean
  before: Block | undefined
  after: Block | undefined
}

const mib = (n: number): string => `${(n / 2 ** 20).toFixed(1)} MiB`

export class MemoryPool {
  readonly limit: number
  used = 0
  /** Bytes taken from the driver. */
  reserved = 0
  private readonly context: CudaContext
  /** Free blocks by size, the lowest last. */
  private readonly free = new Map<number, Block[]>()
  /** Sizes of free blocks, ascending. */
  private sizes: number[] = []
  private readonly taken = new Map<number, Block>()

  constructor(context: CudaContext, limit: number | undefined) {
    this.context = context
    this.limit = Math.min(limit ?? Number.POSITIVE_INFINITY, context.properties.memory)
  }

  /** Address of at least `bytes` bytes. Throws E_OUT_OF_MEMORY. */
  alloc(bytes: number): number {
    const size = Math.max(1, Math.ceil(bytes / alignment)) * alignment
    if (this.used + size > this.limit) this.fail(bytes)
    const block = this.reuse(size) ?? this.extend(size, bytes)
    block.free = false
    this.taken.set(block.address, block)
    this.used += block.size
    return block.address
  }

  release(address: number): void {
    const block = this.taken.get(address)
    if (block === undefined) return
    this.taken.delete(address)
    this.used -= block.size
    block.free = true
    const { before, after } = block
    let whole = block
    if (before?.free === true) {
      this.unlist(before)
      join(before, block)
      whole = before
    }
    if (after?.free === true) {
      this.unlist(after)
      join(whole, after)
    }
    this.list(whole)
  }

  private reuse(size: number): Block | undefined {
    const at = lowerBound(this.sizes, size)
    const found = this.sizes[at]
    // A block of its own segment is not cut to pieces for something much smaller.
    if (found === undefined || (size < found && found > segmentBytes && size < found / 2)) return undefined
    const block = this.free.get(found)?.at(-1)
    if (block === undefined) return undefined
    this.unlist(block)
    if (block.size - size >= alignment) this.cut(block, size)
    return block
  }

  private cut(block: Block, size: number): void {
    const rest: Block = {
      address: block.address + size,
      size: block.size - size,
      free: true,
      before: block,
      after: block.after,
    }
    if (block.after !== undefined) block.after.before = rest
    block.after = rest
    block.size = size
    this.list(rest)
  }

  private extend(size: number, bytes: number): Block {
    const want = size >= segmentBytes ? Math.ceil(size / granularity) * granularity : segmentBytes
    for (const n of [want, size]) {
      const address = this.take(n)
      if (address === undefined) continue
      const block: Block = { address, size: n, free: true, before: undefined, after: undefined }
      if (n - size >= alignment) this.cut(block, size)
      return block
    }
    return this.fail(bytes)
  }

  /** A segment of the driver's; when memory is short, what lies unused goes back to it first. */
  private take(bytes: number): number | undefined {
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        const address = this.context.memAlloc(bytes)
        this.reserved += bytes
        return address
      } catch (e) {
        if (!isOutOfMemory(e)) throw e
        if (attempt === 0) this.trim()
      }
    }
    return undefined
  }

  /** Gives segments that are free as a whole back to the driver. */
  trim(): void {
    this.context.synchronize()
    for (const block of [...this.free.values()].flat()) {
      if (block.before !== undefined || block.after !== undefined) continue
      this.unlist(block)
      this.context.memFree(block.address)
      this.reserved -= block.size
    }
  }

  private fail(bytes: number): never {
    throw new UserError(
      'E_OUT_OF_MEMORY',
      `no room for ${mib(bytes)} on ${this.context.properties.name}: ${mib(this.used)} of ${mib(this.limit)} are in use`,
      {
        help: 'free tensors you no longer need: donate inputs to jit, wrap loops in tidy(), declare tensors with using, or call dispose(); a loop frees what it dropped only where it awaits, as `await x.data()` does',
      },
    )
  }

  private list(block: Block): void {
    const same = this.free.get(block.size)
    if (same !== undefined) {
      const at = same.findIndex((b) => b.address < block.address)
      same.splice(at < 0 ? same.length : at, 0, block)
      return
    }
    this.free.set(block.size, [block])
    this.sizes.splice(lowerBound(this.sizes, block.size), 0, block.size)
  }

  private unlist(block: Block): void {
    const same = this.free.get(block.size) ?? []
    const at = same.indexOf(block)
    if (at >= 0) same.splice(at, 1)
    if (same.length > 0) return
    this.free.delete(block.size)
    this.sizes.splice(lowerBound(this.sizes, block.size), 1)
  }

  /** Checks the blocks (tests). */
  verify(): void {
    for (const [size, blocks] of this.free)
      for (const b of blocks) {
        if (b.size !== size || !b.free) throw new RangeError('a block in the wrong list')
        if (b.after?.free === true || b.before?.free === true) throw new RangeError('free neighbours')
      }
    for (const b of this.taken.values())
      if (b.after !== undefined && b.after.address !== b.address + b.size) throw new RangeError('a gap')
  }
}

/** Makes one block of two neighbours. */
function join(block: Block, next: Block): void {
  block.size += next.size
  block.after = next.after
  if (next.after !== undefined) next.after.before = block
}

/** First place in an ascending list whose value is not below `x`. */
function lowerBound(list: readonly number[], x: number): number {
  let [low, high] = [0, list.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((list[middle] ?? 0) < x) low = middle + 1
    else high = middle
  }
  return low
}
