/** Tables in device memory: addresses of a kernel's parameters, and numbers. */
import type { CudaDevice } from './device.ts'
import type { PointerTable } from './section.ts'

export class DeviceTable implements PointerTable {
  /** Where the table stands. */
  readonly address: number
  /** Low and high half of each word. */
  private readonly words: Uint32Array
  private readonly device: CudaDevice
  private stale = true

  constructor(device: CudaDevice, address: number, length: number) {
    this.device = device
    this.address = address
    this.words = new Uint32Array(2 * length)
  }

  set(i: number, value: number): void {
    const [low, high] = [value >>> 0, Math.floor(value / 2 ** 32)]
    if (this.words[2 * i] === low && this.words[2 * i + 1] === high) return
    this.words[2 * i] = low
    this.words[2 * i + 1] = high
    this.stale = true
  }

  /** The copy runs on the stream, after the launches that still read the old addresses. */
  refresh(): void {
    if (!this.stale) return
    this.device.copyIn(this.address, this.words)
    this.stale = false
  }
}
