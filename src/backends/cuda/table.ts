/** Tables of pointers: addresses of a kernel's parameters in device memory. */
import type { CudaDevice } from './device.ts'
import type { PointerTable } from './section.ts'

export class DeviceTable implements PointerTable {
  /** Where the table stands. */
  readonly address: number
  private readonly values: BigUint64Array
  private readonly device: CudaDevice
  private stale = true

  constructor(device: CudaDevice, address: number, length: number) {
    this.device = device
    this.address = address
    this.values = new BigUint64Array(length)
  }

  set(i: number, value: number): void {
    const next = BigInt(value)
    if (this.values[i] === next) return
    this.values[i] = next
    this.stale = true
  }

  /** The copy runs on the stream, after the launches that still read the old addresses. */
  refresh(): void {
    if (!this.stale) return
    this.device.copyIn(this.address, this.values)
    this.stale = false
  }
}
