/**
 * What the CUDA backend needs of a driver, a compiler and a device. Everything above this file is tested against a driver that
 * records calls as well as on a GPU. Addresses and handles are numbers (device pointers stay below 2^53).
 */

import type { ProductOffsets, StridedProduct } from '../../types/product.ts'

/** A driver call that failed: the name of the error and of the call. */
export class DriverError extends Error {
  readonly error: string
  readonly call: string

  constructor(call: string, error: string, description: string) {
    super(`${call}: ${error} (${description})`)
    this.name = 'DriverError'
    this.error = error
    this.call = call
  }
}

/** Whether a failed call says that memory is short. */
export const isOutOfMemory = (e: unknown): boolean => e instanceof DriverError && e.error === 'CUDA_ERROR_OUT_OF_MEMORY'

export interface DeviceProperties {
  readonly index: number
  readonly name: string
  /** Compute capability: 90 is 9.0. */
  readonly capability: number
  readonly multiprocessors: number
  /** Bytes of memory. */
  readonly memory: number
  /** Bytes of shared memory a block may ask for. */
  readonly sharedBytes: number
  readonly l2Bytes: number
}

/** Memory of the host that the device copies from and to at full speed. */
export interface Pinned {
  readonly address: number
  readonly bytes: Uint8Array
}

/** What a compiled kernel takes of a multiprocessor. */
export interface FunctionAttributes {
  readonly registers: number
  /** Bytes a thread keeps in local memory: spills, and arrays that have no registers. */
  readonly localBytes: number
  readonly sharedBytes: number
  readonly maxThreads: number
}

/** The 8-byte arguments of a launch, in memory that does not move. */
export interface Arguments {
  readonly length: number
  set(i: number, value: number): void
}

export interface Launch {
  readonly fn: number
  readonly grid: number
  /** Rows of so many blocks, where there are more than one row. */
  readonly rows?: number
  readonly threads: number
  /** Dynamic shared memory. */
  readonly sharedBytes: number
  readonly args: Arguments
  /**
   * The kernel itself waits for those it follows before it touches memory that they may write: in a graph it may start before they
   * have ended.
   */
  readonly waits: boolean
}

/** A library's call, which puts kernels of its own on the stream. */
export interface StreamCall {
  readonly enqueue: (stream: number) => void
}

export type StreamWork = Launch | StreamCall

/** Launches started by one call; each waits for those it has to follow. */
export interface GraphRun {
  launch(): void
  /** Takes over the arguments of launches. */
  update(launches: readonly number[]): void
  dispose(): void
}

/** An open device: one context, one stream. Calls throw DriverError. */
export interface CudaContext {
  readonly properties: DeviceProperties
  memAlloc(bytes: number): number
  memFree(address: number): void
  memInfo(): { readonly free: number; readonly total: number }
  hostAlloc(bytes: number): Pinned
  hostFree(p: Pinned): void
  /** Copies on the stream. */
  toDevice(to: number, from: number, bytes: number): void
  toHost(to: number, from: number, bytes: number): void
  copy(to: number, from: number, bytes: number): void
  synchronize(): void
  createEvent(): number
  record(event: number): void
  waitFor(event: number): void
  isDone(event: number): boolean
  /** Milliseconds between two recorded events. */
  elapsed(from: number, to: number): number
  destroyEvent(event: number): void
  loadModule(image: Uint8Array): number
  unloadModule(module: number): void
  getFunction(module: number, name: string): number
  attributes(fn: number): FunctionAttributes
  /** Allows launches with more than 48 KB of dynamic shared memory. */
  allowSharedBytes(fn: number, bytes: number): void
  /** Blocks of a kernel that a multiprocessor holds. */
  occupancy(fn: number, threads: number, sharedBytes: number): number
  makeArguments(length: number): Arguments
  launch(l: StreamWork): void
  /** Launches in order as a graph, with the arguments they have now. */
  /** `after`: by launch, the launches it waits for. */
  makeGraph(launches: readonly StreamWork[], after: readonly (readonly number[])[]): GraphRun
  /** Makes this device the one that calls of libraries mean. */
  activate(): void
  dispose(): void
}

export interface CudaDriver {
  /** What the driver supports: 13000 is CUDA 13.0. */
  readonly version: number
  devices(): DeviceProperties[]
  open(index: number): CudaContext
}

/** Bytes that the addresses of a product's matrices are multiples of. */
export interface ProductAlignment {
  readonly a: number
  readonly b: number
  readonly out: number
  readonly addend?: number
}

/** A product with the algorithm the library chose for it. */
export interface FoundProduct {
  /** Bytes of device memory it works in. */
  readonly workspaceBytes: number
  /** Puts the product on a stream; `at` and `workspace` are addresses. */
  enqueue(at: ProductOffsets, workspace: number, stream: number): void
}

/** Matrix products on an open device. */
export interface ProductHandle {
  /** Throws ProductRefused where there is no algorithm, DriverError where the library fails. */
  find(product: StridedProduct, alignment: ProductAlignment, workspaceBytes: number): FoundProduct
  dispose(): void
}

/** A library of matrix products (cuBLASLt). */
export interface ProductLibrary {
  readonly version: string
  /** For the device of the context. */
  open(context: CudaContext): ProductHandle
}

export interface CompileOutcome {
  /** The compiled image, where there were no errors. */
  readonly image: Uint8Array | undefined
  readonly log: string
}

export interface CudaCompiler {
  readonly version: string
  /** Compute capabilities it makes machine code for. */
  readonly architectures: readonly number[]
  compile(source: string, name: string, options: readonly string[]): CompileOutcome
  /** Many at once, where that is faster. */
  pool?(options: readonly string[]): CompilePool
}

/** The outcome of a compilation that was begun, and its number. */
export interface Finished {
  readonly i: number
  readonly outcome: CompileOutcome
}

/** Compilations under way. */
export interface CompilePool {
  /** Begins one and gives its number: they count from 0. One that is urgent goes before those that wait. */
  begin(job: { readonly source: string; readonly name: string }, isUrgent?: boolean): number
  /** An outcome, of any of them; `mayWait`: waits for one. Undefined: there is none, or none is under way. */
  next(mayWait: boolean): Finished | undefined
  /** Nothing more is begun. */
  end(): void
}
