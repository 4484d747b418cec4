/** What every backend offers the layers above it: device buffers, prepared programs, runs. */
import { UserError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import type { Extents } from './extents.ts'
import type { Program } from './program.ts'
import type { MemoryUse } from './resources.ts'

/** Memory of one tensor on a device, row-major. Opaque to the layers above. */
export interface DeviceBuffer {
  readonly bytes: number
}

/** What is known of a kernel's code beside it. */
export interface KeptFunction {
  /** Its place among the modules. */
  readonly module: number
  /** Scratch bytes a thread needs to run it. */
  readonly scratch: number
  /** Names it imports. */
  readonly imports: readonly string[]
  /** Programs of its grid, and about how many seconds they take. */
  readonly programs: number
  readonly seconds: number
  /** Programs may write the same element. */
  readonly scatters: boolean
}

/** Functions that an engine compiles together. */
export interface KeptModule {
  readonly bytes: Uint8Array
  /** They run for so long that an engine's optimising compiler pays before their first run. */
  readonly isHot: boolean
}

/** Code of a program, as it can be kept in a file. */
export interface KeptCode {
  /** What of the engine and of the backend's options it was made for. */
  readonly engine: string
  readonly modules: readonly KeptModule[]
  /** One for each kernel, in the order of `kernelsOf`. */
  readonly functions: readonly KeptFunction[]
}

/** A program prepared for a device (compiled kernels, uploaded constants, arena). */
export interface Executable {
  readonly program: Program
  /**
   * Runs the program; `inputs` by input number. Gives fresh buffers for the outputs; a donated input is consumed: its
   * DeviceBuffer is an output, where one stands in it, or dead afterwards. Throws UserError; the device stays usable. `at`: the extents
   * of a program that has open ones.
   */
  run(inputs: readonly DeviceBuffer[], at?: Extents): DeviceBuffer[]
  /** Whether the last run got as far as writing memory: if it threw before, donated inputs hold what they held. */
  readonly hasBegun: boolean
  /** Its code, where the backend can take it again. */
  readonly code?: KeptCode
  /** Bytes held by constants and the arena. */
  readonly residentBytes: number
  dispose(): void
}

/** Time of one step of a profiled run, in milliseconds. */
export interface StepTime {
  readonly step: number
  readonly ms: number
}

/** The library of the device has no algorithm for a product of a program: the plan must do without that call. */
export class ProductRefused extends Error {
  /** The product, as `productKey` names it. */
  readonly key: string

  constructor(key: string, reason: string) {
    super(reason)
    this.name = 'ProductRefused'
    this.key = key
  }
}

/** Values of a device that cannot be waited for were read synchronously: they can be read with `read`. */
export class CannotWait extends UserError {
  constructor(message: string, help: string) {
    super('E_DEVICE', message, { help })
  }
}

export interface Backend {
  readonly name: string
  /** Whether it runs programs with open extents. */
  readonly runsOpen?: boolean
  /** Uninitialised memory. Throws E_OUT_OF_MEMORY naming the remedy. */
  alloc(bytes: number): DeviceBuffer
  free(buffer: DeviceBuffer): void
  write(buffer: DeviceBuffer, data: HostArray): void
  /** A copy of the memory on the device. */
  copy(buffer: DeviceBuffer): DeviceBuffer
  /** A copy of `n` elements. Throws CannotWait on a device that cannot be waited for (WebGPU). */
  readSync(buffer: DeviceBuffer, dtype: DType, n: number): HostArray
  read(buffer: DeviceBuffer, dtype: DType, n: number): Promise<HostArray>
  /** What code that is kept must have been made for; undefined where the backend keeps none. */
  readonly engine?: string
  /** Throws ProductRefused where the device's library cannot make one of the program's products. With `code`, that is taken instead of made. */
  prepare(program: Program, code?: KeptCode): Executable
  /** Resolves when everything started so far is done. */
  settled(): Promise<void>
  /** Runs with a clock around every step (benchmarks). */
  profile(
    executable: Executable,
    inputs: readonly DeviceBuffer[],
    at?: Extents,
  ): Promise<{ readonly outputs: DeviceBuffer[]; readonly times: readonly StepTime[] }>
  /** Bytes in use, the limit, and what programs hold. */
  memory(): MemoryUse
  dispose(): void
}
