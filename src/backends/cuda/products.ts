/** Matrix products of a device by its library: one handle, one workspace, an algorithm for every kind of product. */
import { type ProductOffsets, productKey, type StridedProduct } from '../../types/product.ts'
import type { CudaContext, FoundProduct, ProductAlignment, ProductHandle, ProductLibrary } from './driver.ts'
import type { MemoryPool } from './memory.ts'

/** What algorithms may work in; all run on one stream, so one workspace serves them. */
const workspaceBytes = 32 << 20

/** Alignment that algorithms tell apart, at most. */
const widest = 256

export class Products {
  private readonly library: ProductLibrary
  private readonly context: CudaContext
  private readonly pool: MemoryPool
  private readonly found = new Map<string, FoundProduct>()
  private handle: ProductHandle | undefined
  private workspace: number | undefined

  constructor(library: ProductLibrary, context: CudaContext, pool: MemoryPool) {
    this.library = library
    this.context = context
    this.pool = pool
  }

  /** The product on a stream, at addresses of these alignments. Throws ProductRefused, DriverError. */
  find(product: StridedProduct, alignment: ProductAlignment): (at: ProductOffsets, stream: number) => void {
    const { a, b, out, addend } = alignment
    const key = `${productKey(product)} at ${a} ${b} ${out}${addend === undefined ? '' : ` ${addend}`}`
    this.handle ??= this.library.open(this.context)
    const found = this.found.get(key) ?? this.handle.find(product, alignment, workspaceBytes)
    this.found.set(key, found)
    if (found.workspaceBytes > 0) this.workspace ??= this.pool.alloc(workspaceBytes)
    const workspace = found.workspaceBytes > 0 ? (this.workspace ?? 0) : 0
    return (at, stream) => found.enqueue(at, workspace, stream)
  }

  dispose(): void {
    this.handle?.dispose()
    this.handle = undefined
    this.found.clear()
    if (this.workspace !== undefined) this.pool.release(this.workspace)
    this.workspace = undefined
  }
}

/** The power of two, at most `widest`, that divides all of some numbers. */
export function alignmentOf(numbers: readonly number[]): number {
  let most = widest
  for (const n of numbers) while (n % most !== 0) most /= 2
  return most
}
