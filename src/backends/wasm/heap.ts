/**
 * The allocator of the backend's one linear memory: 64-byte aligned blocks with at least 64 bytes of padding behind the
 * last element, best fit in segregated free lists, neighbours coalesced.
 */

import { UserError } from '../../diagnostics/errors.ts'
import { readMargin } from '../../schedule/loop/ir/tile.ts'

const alignment = 64
/** Vector code may read this far past a buffer's end. */
const padding = 64
const page = 65536
/** Memory comes from the operating system by so many bytes at least, when they are first written. */
const osPage = 4096
/** Growth in steps of at least this many bytes. */
const growth = 16 * 1024 * 1024

interface Block {
  address: number
  size: number
  free: boolean
  /** Neighbours in memory. */
  before: Block | undefined
  after: Block | undefined
}

/** Bytes of a block that holds so many. */
const sizeOf = (bytes: number): number => Math.ceil((bytes + padding) / alignment) * alignment

/** Free lists by size class: four classes an octave. */
const classOf = (size: number): number => Math.floor(4 * Math.log2(size / alignment))

export class Heap {
  readonly memory: WebAssembly.Memory
  readonly limit: number
  used = 0
  /** Where memory for blocks begins, and where that in use ends. */
  private readonly base: number
  private top: number
  private last: Block | undefined
  /** Where memory begins that no block was in so far. */
  private reached: number
  private readonly lists: Set<Block>[] = []
  private readonly taken = new Map<number, Block>()

  /** Hands out memory from `base` on; memory ends `readMargin` bytes behind it, `limit` included. */
  constructor(memory: WebAssembly.Memory, base: number, limit: number) {
    this.memory = memory
    this.base = Math.ceil(base / alignment) * alignment
    this.top = this.base
    this.reached = this.base
    this.limit = limit
  }

  /** Throws E_OUT_OF_MEMORY where blocks of so many bytes would not fit memory that had nothing else in it. */
  checkRoom(blocks: readonly number[]): void {
    const bytes = blocks.reduce((n, b) => n + sizeOf(b), 0)
    if (this.base + bytes + readMargin > this.limit) this.fail(bytes)
  }

  /**
   * Grows memory at once for blocks that are about to be taken, beyond what is free: the engine collects its garbage whenever memory grows. Where
   * memory does not grow so far, `alloc` tells.
   */
  reserve(blocks: readonly number[]): void {
    const bytes = blocks.reduce((n, b) => n + sizeOf(b), 0)
    const free = this.top - this.base - this.used
    const end = this.top + Math.max(0, bytes - free) + readMargin
    if (end <= this.limit) this.grow(end)
  }

  /** Address of at least `bytes` bytes. Throws E_OUT_OF_MEMORY. */
  alloc(bytes: number): number {
    const size = sizeOf(bytes)
    const block = this.reuse(size) ?? this.extend(size, bytes)
    block.free = false
    this.taken.set(block.address, block)
    this.used += block.size
    this.reached = Math.max(this.reached, block.address + block.size)
    return block.address
  }

  /**
   * The same, of memory that the operating system has given already: where nothing was before, one byte of each page is written here, so that whoever
   * writes the block first does not wait for pages.
   */
  allocPresent(bytes: number): number {
    const from = this.reached
    const address = this.alloc(bytes)
    const view = new Uint8Array(this.memory.buffer)
    for (let at = Math.max(from, address); at < this.reached; at += osPage) view[at] = 0
    return address
  }

  free(address: number): void {
    const block = this.taken.get(address)
    if (block === undefined) return
    this.taken.delete(address)
    this.used -= block.size
    this.release(block)
  }

  private reuse(size: number): Block | undefined {
    for (let c = classOf(size); c < this.lists.length; c++) {
      let best: Block | undefined
      let looked = 0
      for (const b of this.lists[c] ?? []) {
        if (b.size >= size && (best === undefined || b.size < best.size)) best = b
        if (best?.size === size || ++looked > 32) break
      }
      if (best === undefined) continue
      this.unlist(best)
      this.split(best, size)
      return best
    }
    return undefined
  }

  /** Cuts what a block has beyond `size` off as a free block. */
  private split(block: Block, size: number): void {
    if (block.size - size < 2 * alignment) return
    const rest: Block = {
      address: block.address + size,
      size: block.size - size,
      free: true,
      before: block,
      after: block.after,
    }
    if (block.after === undefined) this.last = rest
    else block.after.before = rest
    block.after = rest
    block.size = size
    this.list(rest)
  }

  /** A block at the top of memory, grown as needed. */
  private extend(size: number, bytes: number): Block {
    const spare = this.last?.free === true ? this.last : undefined
    const start = spare?.address ?? this.top
    const end = start + size
    if (end + readMargin > this.limit || !this.grow(end + readMargin)) this.fail(bytes)
    if (spare !== undefined) {
      this.unlist(spare)
      spare.size = size
      this.top = end
      return spare
    }
    const block: Block = { address: start, size, free: false, before: this.last, after: undefined }
    if (this.last !== undefined) this.last.after = block
    this.last = block
    this.top = end
    return block
  }

  private grow(end: number): boolean {
    const have = this.memory.buffer.byteLength
    if (end <= have) return true
    const ceiling = Math.floor(this.limit / page) * page
    for (const want of [Math.max(end, have + growth, have * 1.25), end]) {
      const pages = Math.ceil((Math.min(Math.max(want, end), Math.max(ceiling, end)) - have) / page)
      try {
        this.memory.grow(pages)
        return true
      } catch {}
    }
    return false
  }

  private fail(bytes: number): never {
    const mb = (n: number): string => `${(n / 2 ** 20).toFixed(1)} MiB`
    throw new UserError(
      'E_OUT_OF_MEMORY',
      `no room for ${mb(bytes)}: ${mb(this.used)} of ${mb(this.limit)} are in use`,
      {
        help:
          bytes > this.limit
            ? 'this alone is more than all its memory: use smaller tensors or batches, or give jit a memoryBudget'
            : 'free tensors you no longer need: donate inputs to jit, wrap loops in tidy(), declare tensors with using, or call dispose(); ' +
              'a loop frees what it dropped only where it awaits, as `await x.data()` does',
      },
    )
  }

  private release(block: Block): void {
    block.free = true
    const { before, after } = block
    if (after?.free === true) {
      this.unlist(after)
      this.absorb(block, after)
    }
    if (before?.free === true) {
      this.unlist(before)
      this.absorb(before, block)
      this.list(before)
      return
    }
    this.list(block)
  }

  private absorb(block: Block, next: Block): void {
    block.size += next.size
    block.after = next.after
    if (next.after === undefined) this.last = block
    else next.after.before = block
  }

  private list(block: Block): void {
    const c = classOf(block.size)
    while (this.lists.length <= c) this.lists.push(new Set())
    this.lists[c]?.add(block)
  }

  private unlist(block: Block): void {
    this.lists[classOf(block.size)]?.delete(block)
  }

  /** Checks the block list (tests). */
  verify(): { readonly blocks: number; readonly free: number } {
    let blocks = 0
    let free = 0
    for (let b = this.last; b !== undefined; b = b.before) {
      blocks++
      if (b.free) free += b.size
      if (b.before !== undefined && b.before.address + b.before.size !== b.address) throw new RangeError('a gap')
      if (b.free && b.before?.free === true) throw new RangeError('free neighbours')
    }
    return { blocks, free }
  }
}
