/** The CUDA backend: kernels compiled by NVRTC, launched through the driver API. */
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import type { Backend, DeviceBuffer, Executable, StepTime } from '../../runtime/backend.ts'
import type { Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import type { MemoryUse } from '../../runtime/resources.ts'
import type { SimtTarget } from '../../target/machine.ts'
import type { EarlyStart } from '../../target/simt.ts'
import type { DType } from '../../types/dtype.ts'
import { type HostArray, hostArray } from '../../types/host.ts'
import type { KernelResources } from './compile.ts'
import { openProducts } from './cublasLt.ts'
import { CudaDevice, guarded } from './device.ts'
import type { CudaCompiler, CudaDriver, DeviceProperties, ProductLibrary } from './driver.ts'
import { CudaExecutable } from './executable.ts'
import { openDriver } from './ffi.ts'
import type { KernelTimes } from './loading.ts'
import { openCompiler } from './nvrtc.ts'

export interface CudaOptions {
  /** Which device, counted from 0. */
  readonly index?: number
  /** Most bytes of memory; the device's own unless given. */
  readonly memoryLimit?: number
  /** Folder of compiled kernels; the user's cache folder unless given. */
  readonly cacheFolder?: string
  /** Another driver and compiler (tests). */
  readonly driver?: CudaDriver
  readonly compiler?: CudaCompiler
  /** Another library of matrix products, or none; cuBLASLt where it is found unless given. */
  readonly products?: ProductLibrary | 'none'
  /**
   * When a kernel of a graph lets those that follow it start, which wait by themselves for its end (compute capability 9.0):
   * as soon as all its blocks run (`start`), when they have begun to work (`work`, the default), when they have ended (`exit`), or
   * never before the driver has seen the end (`never`).
   */
  readonly earlyStart?: EarlyStart
}

let driver: CudaDriver | undefined
let compiler: CudaCompiler | undefined

/** The driver of this process. Throws E_DEVICE naming what is missing. */
export function theDriver(): CudaDriver {
  driver ??= openDriver()
  return driver
}

/** NVRTC of this process. Throws E_DEVICE naming what is missing. */
export function theCompiler(): CudaCompiler {
  compiler ??= openCompiler()
  return compiler
}

let products: ReturnType<typeof openProducts> | undefined

/** cuBLASLt of this process, or why there is none: products are kernels then. */
export function theProducts(): ProductLibrary | { readonly missing: string } {
  products ??= openProducts()
  return products
}

function productsOf(options: CudaOptions): ProductLibrary | undefined {
  if (options.products === 'none' || (options.driver !== undefined && options.products === undefined)) return undefined
  const found = options.products ?? theProducts()
  return 'missing' in found ? undefined : found
}

/** Opens a device. Throws E_DEVICE naming what is missing: the package koffi, the driver, NVRTC, or the device. */
export function createCudaBackend(options: CudaOptions = {}): CudaBackend {
  const open = options.driver ?? theDriver()
  const count = open.devices().length
  const index = options.index ?? 0
  if (!Number.isInteger(index) || index < 0 || index >= count)
    throw new UserError('E_DEVICE', `there is no CUDA device ${index}: the driver sees ${count}`, {
      help: count === 0 ? 'nvidia-smi shows whether the driver sees a GPU' : `use an index below ${count}`,
    })
  const compiler = options.compiler ?? theCompiler()
  const { memoryLimit, cacheFolder, earlyStart } = options
  const products = productsOf(options)
  return guarded(
    'the CUDA driver',
    () =>
      new CudaBackend(new CudaDevice(open.open(index), compiler, { memoryLimit, cacheFolder, products, earlyStart })),
  )
}

/** Lets other tasks of the process run. */
const pause = (): Promise<void> => new Promise((done) => setImmediate(done))

export class CudaBackend implements Backend {
  readonly name = 'cuda'
  readonly runsOpen = true
  private readonly device: CudaDevice

  constructor(device: CudaDevice) {
    this.device = device
  }

  get properties(): DeviceProperties {
    return this.device.context.properties
  }

  /** The device as planning and code generation see it. */
  get machine(): SimtTarget {
    return this.device.machine
  }

  /** Whether products may be library calls. */
  get hasLibrary(): boolean {
    return this.device.products !== undefined
  }

  private guard<T>(body: () => T): T {
    return guarded(this.properties.name, body)
  }

  alloc(bytes: number): DeviceBuffer {
    return this.guard(() => this.device.buffers.adopt(this.device.pool.alloc(bytes), bytes))
  }

  free(buffer: DeviceBuffer): void {
    this.device.buffers.end(this.device.buffers.own(buffer))
  }

  write(buffer: DeviceBuffer, data: HostArray): void {
    const b = this.device.buffers.own(buffer)
    if (data.byteLength > b.bytes) throw new InternalError(`${data.byteLength} bytes into a buffer of ${b.bytes}`)
    this.guard(() => this.device.copyIn(b.memory, data))
  }

  readSync(buffer: DeviceBuffer, dtype: DType, n: number): HostArray {
    const b = this.device.buffers.own(buffer)
    const out = hostArray(dtype, n)
    this.guard(() => this.device.copyOut(b.memory, out))
    return out
  }

  /** Waits without keeping the process from other work. */
  async read(buffer: DeviceBuffer, dtype: DType, n: number): Promise<HostArray> {
    await this.settled()
    return this.readSync(buffer, dtype, n)
  }

  /** Resolves when what was started so far is done. */
  async settled(): Promise<void> {
    const { context } = this.device
    const event = this.guard(() => context.createEvent())
    try {
      this.guard(() => context.record(event))
      while (!this.guard(() => context.isDone(event))) await pause()
    } finally {
      this.guard(() => context.destroyEvent(event))
    }
  }

  copy(buffer: DeviceBuffer): DeviceBuffer {
    const from = this.device.buffers.own(buffer)
    return this.guard(() => {
      const to = this.device.buffers.adopt(this.device.pool.alloc(from.bytes), from.bytes)
      if (from.bytes > 0) this.device.context.copy(to.memory, from.memory, from.bytes)
      return to
    })
  }

  prepare(program: Program): Executable {
    return this.guard(() => new CudaExecutable(this.device, program))
  }

  async profile(
    executable: Executable,
    inputs: readonly DeviceBuffer[],
    at?: Extents,
  ): Promise<{ readonly outputs: DeviceBuffer[]; readonly times: readonly StepTime[] }> {
    return this.guard(() => own(executable).profile(inputs, at))
  }

  /** Milliseconds that kernels of this device took so far. */
  get kernelTimes(): Readonly<KernelTimes> {
    return this.device.kernels.times
  }

  /** Registers, spills, shared memory and occupancy of an executable's kernels. */
  resources(executable: Executable): KernelResources[] {
    return this.guard(() => own(executable).resources())
  }

  /** Milliseconds on the device's clock that work started by `body` takes. */
  timed(body: () => void): number {
    const { context } = this.device
    return this.guard(() => {
      const [from, to] = [context.createEvent(), context.createEvent()]
      context.record(from)
      body()
      context.record(to)
      context.waitFor(to)
      const ms = context.elapsed(from, to)
      context.destroyEvent(from)
      context.destroyEvent(to)
      return ms
    })
  }

  memory(): MemoryUse {
    return this.device.memoryUse()
  }

  dispose(): void {
    this.guard(() => this.device.dispose())
  }
}

function own(executable: Executable): CudaExecutable {
  if (!(executable instanceof CudaExecutable)) throw new InternalError('an executable of another backend')
  return executable
}
