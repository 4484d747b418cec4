/** Options of the WebAssembly backend, apart from it: public types name them, and need no type of the host. */

/** Options of a device: its threads, and its memory. */
export interface WasmOptions {
  /** Threads that run kernels, the calling one included; default: the processors, at most 8. 1 outside Node. */
  readonly threads?: number
  /** Most bytes of memory, at most 4 GiB. */
  readonly memoryLimit?: number
  /** Milliseconds to wait for a worker thread that should have finished (then E_WORKER_LOST). */
  readonly workerPatience?: number
  /** Estimated nanoseconds of work above which a kernel is split over threads (150,000; tests split everything). */
  readonly shareAbove?: number
}
