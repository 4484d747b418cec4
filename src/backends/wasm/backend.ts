/** The WebAssembly backend: kernels as WebAssembly SIMD functions over one memory, split over threads where it pays. */
import { InternalError } from '../../diagnostics/errors.ts'
import type { Backend, DeviceBuffer, Executable, KeptCode, StepTime } from '../../runtime/backend.ts'
import type { Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import type { MemoryUse } from '../../runtime/resources.ts'
import type { Machine } from '../../target/machine.ts'
import type { DType } from '../../types/dtype.ts'
import { type HostArray, hostView } from '../../types/host.ts'
import { thisMachine } from './calibration.ts'
import { Device } from './device.ts'
import { engineOf, WasmExecutable } from './executable.ts'
import type { WasmOptions } from './options.ts'

/**
 * A backend with a memory of its own. In a browser, or with `threads: 1`, it runs on the calling thread alone. `now` is the clock that profiles go by, in
 * milliseconds.
 */
export function createWasmBackend(
  options: WasmOptions = {},
  machine: Machine = thisMachine(),
  now: () => number = () => performance.now(),
): WasmBackend {
  return new WasmBackend(new Device(options, machine), now)
}

export class WasmBackend implements Backend {
  readonly name = 'wasm'
  readonly runsOpen = true
  /** What programs for it are planned by. */
  readonly machine: Machine
  private readonly device: Device
  private readonly now: () => number

  constructor(device: Device, now: () => number) {
    this.device = device
    this.now = now
    this.machine = device.machine
  }

  alloc(bytes: number): DeviceBuffer {
    return this.device.buffers.adopt(this.device.heap.alloc(bytes), bytes)
  }

  free(buffer: DeviceBuffer): void {
    this.device.buffers.end(this.device.buffers.own(buffer))
  }

  write(buffer: DeviceBuffer, data: HostArray): void {
    const b = this.device.buffers.own(buffer)
    if (data.byteLength > b.bytes) throw new InternalError(`${data.byteLength} bytes into a buffer of ${b.bytes}`)
    this.device.copyIn(b.memory, data)
  }

  readSync(buffer: DeviceBuffer, dtype: DType, n: number): HostArray {
    const b = this.device.buffers.own(buffer)
    return unshared(hostView(dtype, this.device.memory.buffer, b.memory, n))
  }

  async read(buffer: DeviceBuffer, dtype: DType, n: number): Promise<HostArray> {
    return this.readSync(buffer, dtype, n)
  }

  copy(buffer: DeviceBuffer): DeviceBuffer {
    const from = this.device.buffers.own(buffer)
    const to = this.device.buffers.adopt(this.device.heap.alloc(from.bytes), from.bytes)
    this.device.copy(from.memory, to.memory, from.bytes)
    return to
  }

  async settled(): Promise<void> {}

  get engine(): string {
    return engineOf(this.device)
  }

  prepare(program: Program, code?: KeptCode): Executable {
    return new WasmExecutable(this.device, program, code)
  }

  async profile(
    executable: Executable,
    inputs: readonly DeviceBuffer[],
    at?: Extents,
  ): Promise<{ readonly outputs: DeviceBuffer[]; readonly times: readonly StepTime[] }> {
    if (!(executable instanceof WasmExecutable)) throw new InternalError('an executable of another backend')
    return executable.profile(inputs, this.now, at)
  }

  memory(): MemoryUse {
    return this.device.memoryUse()
  }

  dispose(): void {
    this.device.dispose()
  }
}

/** A copy in memory of its own (`slice` of a typed array never shares). */
const unshared = (view: HostArray): HostArray => view.slice()
