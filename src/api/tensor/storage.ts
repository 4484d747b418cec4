/** Storage: the value of a concrete tensor, on the host or on a device, shared by the tensors that hold it. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { CannotWait, type DeviceBuffer } from '../../runtime/backend.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import { type Shape, sameShape, showShape, sizeOf } from '../../types/shape.ts'
import { located } from '../calls/place.ts'
import type { Device } from '../device/device.ts'
import { giveWeight, reclaim, takeWeight } from '../device/reclaim.ts'

/** Device memory with one owner; freeing twice is harmless. */
interface Allocation {
  readonly device: Device
  buffer: DeviceBuffer | undefined
}

function freeAllocation(a: Allocation): void {
  if (a.buffer !== undefined) a.device.free(a.buffer)
  a.buffer = undefined
}

/** Device memory of storages that nothing refers to any more goes back when they are collected. */
const collected = new FinalizationRegistry<Allocation>(freeAllocation)

/** One value, counted by the tensors that hold it. */
export class Storage {
  readonly shape: Shape
  readonly dtype: DType
  /** Tensors that hold it. */
  refs = 1
  /** The jitted call that used it last, by number: a call that meets its own number was given the value twice. */
  usedBy = 0
  #host: HostArray | undefined
  #allocation: Allocation | undefined
  #weight: ArrayBuffer | undefined

  private constructor(shape: Shape, dtype: DType) {
    this.shape = shape
    this.dtype = dtype
  }

  /** A host value, which must not change; it moves to a device when it is first used there. */
  static ofHost(data: HostArray, shape: Shape, dtype: DType): Storage {
    const s = new Storage(shape, dtype)
    s.#host = data
    return s
  }

  /** Takes ownership of a device buffer. */
  static ofBuffer(device: Device, buffer: DeviceBuffer, shape: Shape, dtype: DType): Storage {
    const s = new Storage(shape, dtype)
    s.#own(device, buffer)
    return s
  }

  #own(device: Device, buffer: DeviceBuffer): void {
    this.#allocation = { device, buffer }
    collected.register(this, this.#allocation)
    this.#weight = takeWeight(buffer.bytes)
  }

  get size(): number {
    return sizeOf(this.shape)
  }

  /** Bytes on a device. */
  get bytes(): number {
    return this.#allocation?.buffer?.bytes ?? 0
  }

  /** Its buffer on a device, moved there if it is elsewhere. */
  on(device: Device): DeviceBuffer {
    const have = this.#allocation
    if (have?.buffer !== undefined && have.device === device) return have.buffer
    const buffer = device.upload(this.#host ?? this.#valueFor(device))
    if (have !== undefined) freeAllocation(have)
    this.#host = undefined
    this.#own(device, buffer)
    return buffer
  }

  /** A copy of its elements. Throws E_DEVICE where the device cannot be waited for. */
  readSync(): HostArray {
    if (this.#host !== undefined) return this.#host.slice()
    const a = this.#allocation
    invariant(a?.buffer !== undefined, 'a storage without value is read')
    try {
      return a.device.readSync(a.buffer, this.dtype, this.size)
    } catch (error) {
      throw located(error)
    }
  }

  /** A copy of its elements for a device that is not its own. */
  #valueFor(device: Device): HostArray {
    try {
      return this.readSync()
    } catch (error) {
      const from = this.#allocation?.device
      if (!(error instanceof UserError) || error.code !== 'E_DEVICE' || from === undefined) throw error
      const to = from.name === device.name ? `another ${device.name} device` : `the device ${device.name}`
      const what = `a tensor ${this.dtype}${showShape(this.shape)} of the device ${from.name} is used on ${to}`
      const later = [error, error.cause].some((e) => e instanceof CannotWait)
      const help = later
        ? 'copy it there first: tensor(await x.data(), { shape: x.shape, dtype: x.dtype })'
        : error.help
      throw new UserError(error.code, `${what}: ${error.summary}`, {
        ...(help === undefined ? {} : { help }),
        ...(error.where === undefined ? {} : { where: error.where }),
        cause: error,
      })
    }
  }

  /** A copy of its elements; when memory is crowded, collected tensors are freed meanwhile. */
  async read(): Promise<HostArray> {
    const a = this.#allocation
    if (a?.buffer === undefined) return this.readSync()
    const data = await a.device.read(a.buffer, this.dtype, this.size)
    await reclaim(a.device)
    return data
  }

  /** Gives the memory back. */
  free(): void {
    this.#host = undefined
    if (this.#allocation !== undefined) freeAllocation(this.#allocation)
    this.#dropWeight()
  }

  /** A result of a type came back in the buffer that was donated: whether this can be its storage, for one tensor. */
  takeBack(shape: Shape, dtype: DType): boolean {
    if (this.refs !== 0 || this.dtype !== dtype || !sameShape(this.shape, shape)) return false
    this.refs = 1
    return true
  }

  /** The device buffer now belongs to someone else (a program it was donated to). */
  surrender(): void {
    this.#host = undefined
    if (this.#allocation !== undefined) this.#allocation.buffer = undefined
    this.#dropWeight()
  }

  #dropWeight(): void {
    giveWeight(this.#weight)
    this.#weight = undefined
  }
}

/** One more tensor holds it. */
export function retain(s: Storage): Storage {
  s.refs++
  return s
}
