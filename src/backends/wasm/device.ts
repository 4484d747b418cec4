/** The device of the WebAssembly backend: one linear memory, its allocator, the threads on it, scratch for each thread. */

import { TensorBuffers } from '../../runtime/buffers.ts'
import { type MemoryUse, Residents } from '../../runtime/resources.ts'
import { readMargin } from '../../schedule/loop/ir/tile.ts'
import type { Machine } from '../../target/machine.ts'
import type { HostArray } from '../../types/host.ts'
import { Arenas } from './arenas.ts'
import { checkEngine, checkThreads, relaxedMultiplyAdd, sharesMemory } from './engine.ts'
import { Heap } from './heap.ts'
import { processors } from './host.ts'
import type { WasmOptions } from './options.ts'
import { controlBytes, maxWorkers, Pool } from './pool.ts'

const page = 65536
/** The last page stays out of reach: addresses and their immediates must not wrap. */
const most = 65535 * page

export class Device {
  /** Memory of tensors. */
  readonly buffers = new TensorBuffers<number>((a) => {
    this.heap.free(a)
  })
  readonly memory: WebAssembly.Memory
  readonly heap: Heap
  /** Programs that live. */
  readonly residents = new Residents()
  /** Where those programs have their intermediates. */
  readonly arenas: Arenas
  /** Modules of those programs. */
  modules = 0
  /** Multiplications and additions may be fused by relaxed SIMD; where the engine rounds them apart it is not used. */
  readonly relaxed: boolean
  readonly shared: boolean
  readonly maxPages: number
  readonly pool: Pool | undefined
  readonly threads: number
  readonly shareAbove: number
  private view: Uint32Array
  private scratches: number[] = []
  private scratchBytes = 0
  private nextModule = 1

  readonly machine: Machine

  constructor(options: WasmOptions, machine: Machine) {
    this.machine = machine
    const limit = Math.min(options.memoryLimit ?? most, most)
    checkEngine()
    checkThreads(options.threads ?? 1)
    this.relaxed = relaxedMultiplyAdd() === 'fused'
    this.threads = Math.max(1, Math.min(options.threads ?? Math.min(8, processors()), maxWorkers + 1))
    this.shareAbove = options.shareAbove ?? 150_000
    this.shared = this.threads > 1 && sharesMemory()
    this.maxPages = Math.ceil(limit / page)
    const initial = Math.min(this.maxPages, 64)
    this.memory = new WebAssembly.Memory({ initial, maximum: this.maxPages, shared: this.shared })
    // Copies may read a little below a buffer: none lives at the very bottom.
    const control = 1024
    this.heap = new Heap(this.memory, control + controlBytes + readMargin, limit)
    this.arenas = new Arenas(this.heap, this.residents)
    this.view = new Uint32Array(this.memory.buffer)
    this.pool = this.shared
      ? Pool.create({
          memory: this.memory,
          control,
          workers: this.threads - 1,
          patience: options.workerPatience ?? 5000,
        })
      : undefined
  }

  /** Memory as 32-bit words: a fresh view where memory has grown. */
  words(): Uint32Array {
    if (this.view.buffer !== this.memory.buffer || this.view.byteLength !== this.memory.buffer.byteLength)
      this.view = new Uint32Array(this.memory.buffer)
    return this.view
  }

  copyIn(address: number, data: HostArray): void {
    new Uint8Array(this.memory.buffer, address, data.byteLength).set(
      new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    )
  }

  copy(from: number, to: number, bytes: number): void {
    if (from === to || bytes === 0) return
    new Uint8Array(this.memory.buffer).copyWithin(to, from, from + bytes)
  }

  /** Makes sure every thread has scratch of a size. */
  reserveScratch(bytes: number): void {
    if (bytes <= this.scratchBytes) return
    for (const a of this.scratches) this.heap.free(a)
    this.scratches = []
    this.scratchBytes = 0
    const n = this.pool === undefined ? 1 : this.threads
    for (let i = 0; i < n; i++) this.scratches.push(this.heap.alloc(bytes))
    this.scratchBytes = bytes
  }

  /** Scratch of a thread: 0 is the calling one. */
  scratch(thread: number): number {
    return this.scratches[thread] ?? 0
  }

  addModule(module: WebAssembly.Module): number {
    const id = this.nextModule++
    this.modules++
    this.pool?.addModule(id, module)
    return id
  }

  readonly removeModule = (id: number): void => {
    this.modules--
    this.pool?.removeModule(id)
  }

  readonly freeMemory = (address: number): void => {
    this.heap.free(address)
  }

  memoryUse(): MemoryUse {
    const { heap, residents, modules } = this
    const { used, limit } = heap
    const pooledBytes = this.memory.buffer.byteLength - used
    return { used, limit, programs: residents.programs, modules, arenaBytes: residents.bytes, pooledBytes }
  }

  dispose(): void {
    this.pool?.stop()
  }
}
