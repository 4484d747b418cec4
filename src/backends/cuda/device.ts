/** An open CUDA device: its context, memory pool, kernels, and copies through pinned memory. */
import { UserError } from '../../diagnostics/errors.ts'
import { TensorBuffers } from '../../runtime/buffers.ts'
import { type MemoryUse, Residents, type Resources } from '../../runtime/resources.ts'
import { cudaTargetOf } from '../../target/cuda.ts'
import type { SimtTarget } from '../../target/machine.ts'
import type { EarlyStart } from '../../target/simt.ts'
import { KernelCache } from './compile.ts'
import {
  type CudaCompiler,
  type CudaContext,
  DriverError,
  isOutOfMemory,
  type Pinned,
  type ProductLibrary,
} from './driver.ts'
import { MemoryPool } from './memory.ts'
import { Products } from './products.ts'

const chunkBytes = 8 << 20

interface Chunk {
  readonly pinned: Pinned
  readonly event: number
  /** The event was recorded and not waited for. */
  busy: boolean
}

export interface CudaDeviceOptions {
  readonly memoryLimit?: number | undefined
  /** Where compiled kernels are kept; undefined: the user's cache folder. */
  readonly cacheFolder?: string | undefined
  /** Matrix products; undefined: the device has kernels alone. */
  readonly products?: ProductLibrary | undefined
  readonly earlyStart?: EarlyStart | undefined
}

export class CudaDevice {
  /** Memory of tensors. */
  readonly buffers = new TensorBuffers<number>((a) => {
    this.pool.release(a)
  })
  readonly context: CudaContext
  readonly pool: MemoryPool
  readonly kernels: KernelCache
  readonly products: Products | undefined
  /** Programs that live. */
  readonly residents = new Residents()
  private readonly earlyStart: EarlyStart | undefined
  private chunks: readonly Chunk[] | undefined

  constructor(context: CudaContext, compiler: CudaCompiler, options: CudaDeviceOptions = {}) {
    this.context = context
    this.earlyStart = options.earlyStart
    this.pool = new MemoryPool(context, options.memoryLimit)
    this.products = options.products === undefined ? undefined : new Products(options.products, context, this.pool)
    this.kernels =
      options.cacheFolder === undefined
        ? new KernelCache(context, compiler)
        : new KernelCache(context, compiler, options.cacheFolder)
  }

  /** The device as planning and code generation see it. */
  get machine(): SimtTarget {
    const { capability, multiprocessors, sharedBytes } = this.context.properties
    const hasLibrary = this.products !== undefined
    return cudaTargetOf({ capability, multiprocessors, sharedBytes, hasLibrary, earlyStart: this.earlyStart })
  }

  private staging(): readonly Chunk[] {
    this.chunks ??= [0, 1].map(() => ({
      pinned: this.context.hostAlloc(chunkBytes),
      event: this.context.createEvent(),
      busy: false,
    }))
    return this.chunks
  }

  private settle(c: Chunk): void {
    if (c.busy) this.context.waitFor(c.event)
    c.busy = false
  }

  /** Copies host data to the device; it is staged when this returns, and there when later work runs. */
  copyIn(address: number, data: ArrayBufferView): void {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    const chunks = this.staging()
    for (let at = 0, i = 0; at < bytes.length; at += chunkBytes, i++) {
      const c = chunks[i % chunks.length]
      if (c === undefined) continue
      this.settle(c)
      const part = bytes.subarray(at, Math.min(bytes.length, at + chunkBytes))
      c.pinned.bytes.set(part)
      this.context.toDevice(address + at, c.pinned.address, part.length)
      this.context.record(c.event)
      c.busy = true
    }
  }

  /** Waits for all work and copies memory of the device into `out`. */
  copyOut(address: number, out: ArrayBufferView): void {
    const bytes = new Uint8Array(out.buffer, out.byteOffset, out.byteLength)
    const chunks = this.staging()
    const n = Math.ceil(bytes.length / chunkBytes)
    const start = (i: number): void => {
      const c = chunks[i % chunks.length]
      if (c === undefined || i >= n) return
      this.settle(c)
      this.context.toHost(
        c.pinned.address,
        address + i * chunkBytes,
        Math.min(chunkBytes, bytes.length - i * chunkBytes),
      )
      this.context.record(c.event)
      c.busy = true
    }
    start(0)
    for (let i = 0; i < n; i++) {
      start(i + 1)
      const c = chunks[i % chunks.length]
      if (c === undefined) continue
      this.settle(c)
      bytes.set(c.pinned.bytes.subarray(0, Math.min(chunkBytes, bytes.length - i * chunkBytes)), i * chunkBytes)
    }
    if (n === 0) this.context.synchronize()
  }

  /** Memory that a program holds. */
  take(bytes: number, resources: Resources): number {
    return resources.hold(this.release, this.pool.alloc(bytes), bytes)
  }

  private readonly release = (address: number): void => {
    this.pool.release(address)
  }

  memoryUse(): MemoryUse {
    const { pool, residents, kernels } = this
    return {
      used: pool.used,
      limit: pool.limit,
      programs: residents.programs,
      modules: kernels.modules,
      arenaBytes: residents.bytes,
      pooledBytes: pool.reserved - pool.used,
    }
  }

  dispose(): void {
    this.context.synchronize()
    for (const c of this.chunks ?? []) {
      this.context.destroyEvent(c.event)
      this.context.hostFree(c.pinned)
    }
    this.chunks = undefined
    this.kernels.dispose()
    this.products?.dispose()
    this.pool.trim()
    this.context.dispose()
  }
}

/** Errors after which a context answers nothing but errors. */
const fatal = new Set([
  'CUDA_ERROR_ILLEGAL_ADDRESS',
  'CUDA_ERROR_LAUNCH_FAILED',
  'CUDA_ERROR_LAUNCH_TIMEOUT',
  'CUDA_ERROR_MISALIGNED_ADDRESS',
  'CUDA_ERROR_ILLEGAL_INSTRUCTION',
  'CUDA_ERROR_HARDWARE_STACK_ERROR',
  'CUDA_ERROR_ECC_UNCORRECTABLE',
  'CUDA_ERROR_ASSERT',
])

/** Runs calls of the driver; what they throw becomes an error of the library. */
export function guarded<T>(device: string, body: () => T): T {
  try {
    return body()
  } catch (e) {
    if (!(e instanceof DriverError)) throw e
    if (isOutOfMemory(e))
      throw new UserError('E_OUT_OF_MEMORY', `${device} has no memory left for ${e.call}`, {
        help: 'free tensors you no longer need, or set a memoryBudget on jit',
        cause: e,
      })
    throw new UserError('E_DEVICE', `${device}: ${e.message}`, {
      ...(fatal.has(e.error) ? { help: 'the device answers this process no more: start the process again' } : {}),
      cause: e,
    })
  }
}
