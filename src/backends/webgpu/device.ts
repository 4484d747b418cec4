/** An open WebGPU device: its limits, pool of buffers, pipelines, and what went wrong with it. */
import { type SimtCaps, webgpuCaps } from '../../codegen/simt/capability.ts'
import type { KernelSource } from '../../codegen/simt/kernel.ts'
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import { usage } from './host.ts'

/** Memory of a tensor. */
export class WebgpuBuffer implements DeviceBuffer {
  readonly device: WebgpuDevice
  readonly buffer: GPUBuffer
  readonly bytes: number
  alive = true

  constructor(device: WebgpuDevice, buffer: GPUBuffer, bytes: number) {
    this.device = device
    this.buffer = buffer
    this.bytes = bytes
  }
}

/** Sizes are rounded to four steps an octave, so that buffers find another use. */
function roomFor(bytes: number): number {
  const least = Math.max(256, bytes)
  const step = 2 ** Math.max(8, Math.floor(Math.log2(least)) - 2)
  return Math.ceil(least / step) * step
}

const mib = (n: number): string => `${(n / 2 ** 20).toFixed(1)} MiB`

export class WebgpuDevice {
  readonly gpu: GPUDevice
  readonly caps: SimtCaps
  readonly limit: number
  used = 0
  private readonly ids = new WeakMap<GPUBuffer, number>()
  private nextId = 1
  private readonly spare = new Map<number, GPUBuffer[]>()
  private spareBytes = 0
  private readonly pipelines = new Map<string, GPUComputePipeline>()
  private lostBecause: string | undefined
  private failure: Error | undefined
  /** Checks under way: errors arrive later than the calls that cause them. */
  private readonly checks = new Set<Promise<void>>()

  constructor(gpu: GPUDevice, laneBits: number, memoryLimit: number | undefined) {
    this.gpu = gpu
    this.limit = memoryLimit ?? Number.POSITIVE_INFINITY
    this.caps = {
      maxThreads: Math.min(
        webgpuCaps.maxThreads,
        gpu.limits.maxComputeInvocationsPerWorkgroup,
        gpu.limits.maxComputeWorkgroupSizeX,
      ),
      maxSharedBytes: gpu.limits.maxComputeWorkgroupStorageSize,
      laneBits,
    }
    void gpu.lost.then((info) => {
      this.lostBecause = info.message === '' ? info.reason : `${info.reason}: ${info.message}`
    })
    gpu.onuncapturederror = (event) => this.fail('a command', event.error)
  }

  private fail(what: string, error: GPUError): void {
    this.failure ??= isOutOfMemory(error)
      ? new UserError('E_OUT_OF_MEMORY', `the WebGPU device has no memory left for ${what}`, {
          help: 'free tensors you no longer need, or set a memoryBudget on jit',
        })
      : new InternalError(`WebGPU refuses ${what}: ${error.message}`)
  }

  /** Throws E_DEVICE when the device is lost, and the error of an earlier call that came out since. */
  check(): void {
    if (this.lostBecause !== undefined)
      throw new UserError('E_DEVICE', `the WebGPU device is lost (${this.lostBecause}); its tensors are gone`, {
        help: 'open it again: setDevice(await webgpu())',
      })
    const { failure } = this
    if (failure === undefined) return
    this.failure = undefined
    throw failure
  }

  /** Waits for the errors of earlier calls and throws the first. */
  async checked(): Promise<void> {
    while (this.checks.size > 0) await Promise.all(this.checks)
    this.check()
  }

  /** Runs calls whose errors are reported under a name. */
  scoped<T>(what: string, body: () => T): T {
    const { gpu } = this
    gpu.pushErrorScope('out-of-memory')
    gpu.pushErrorScope('validation')
    try {
      return body()
    } finally {
      for (let scope = 0; scope < 2; scope++) {
        const check = gpu
          .popErrorScope()
          .then((e) => {
            if (e !== null) this.fail(what, e)
          })
          .catch(() => {})
        this.checks.add(check)
        void check.then(() => this.checks.delete(check))
      }
    }
  }

  /** Distinguishes buffers. */
  id(buffer: GPUBuffer): number {
    const have = this.ids.get(buffer)
    if (have !== undefined) return have
    this.ids.set(buffer, this.nextId)
    return this.nextId++
  }

  /** A buffer of at least a size. Throws E_OUT_OF_MEMORY beyond the limits of the device. */
  take(bytes: number): GPUBuffer {
    this.check()
    const size = roomFor(bytes)
    const { maxBufferSize, maxStorageBufferBindingSize } = this.gpu.limits
    const most = Math.min(maxBufferSize, maxStorageBufferBindingSize)
    if (bytes > most || this.used + size > this.limit)
      throw new UserError(
        'E_OUT_OF_MEMORY',
        bytes > most
          ? `${mib(bytes)} in one buffer: this WebGPU device binds at most ${mib(most)}`
          : `no room for ${mib(bytes)}: ${mib(this.used)} of ${mib(this.limit)} are in use`,
        { help: 'work on smaller pieces, free tensors you no longer need, or donate inputs to jit' },
      )
    this.used += size
    const spare = this.spare.get(size)?.pop()
    if (spare !== undefined) {
      this.spareBytes -= size
      return spare
    }
    return this.scoped(`a buffer of ${mib(bytes)}`, () =>
      this.gpu.createBuffer({
        size: Math.min(size, Math.floor(maxBufferSize / 16) * 16),
        usage: usage.storage | usage.copySource | usage.copyTarget,
      }),
    )
  }

  /** Gives a buffer back; work that was submitted still sees it. */
  release(buffer: GPUBuffer): void {
    const { size } = buffer
    this.used -= size
    // No more lies unused than is in use, beyond what is small.
    if (this.spareBytes + size > Math.max(this.used, 64 << 20)) {
      buffer.destroy()
      return
    }
    const list = this.spare.get(size) ?? []
    this.spare.set(size, list)
    list.push(buffer)
    this.spareBytes += size
  }

  own(b: DeviceBuffer): WebgpuBuffer {
    if (!(b instanceof WebgpuBuffer) || b.device !== this) throw new InternalError('a buffer of another device')
    if (!b.alive) throw new UserError('E_DISPOSED', 'the memory of this tensor has been freed')
    return b
  }

  adopt(buffer: GPUBuffer, bytes: number): WebgpuBuffer {
    return new WebgpuBuffer(this, buffer, bytes)
  }

  /** The pipeline of a source; what is wrong with it is reported under the kernel's name. */
  pipeline(source: Pick<KernelSource, 'source' | 'entry'>): GPUComputePipeline {
    const have = this.pipelines.get(source.source)
    if (have !== undefined) return have
    const made = this.scoped(`the kernel ${source.entry}`, () => {
      const module = this.gpu.createShaderModule({ code: source.source, label: source.entry })
      return this.gpu.createComputePipeline({
        label: source.entry,
        layout: 'auto',
        compute: { module, entryPoint: source.entry },
      })
    })
    this.pipelines.set(source.source, made)
    return made
  }

  write(buffer: GPUBuffer, data: ArrayBufferView): void {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    const whole = bytes.length & ~3
    const { queue } = this.gpu
    if (whole > 0) queue.writeBuffer(buffer, 0, bytes as Uint8Array<ArrayBuffer>, 0, whole)
    if (whole === bytes.length) return
    const tail = new Uint8Array(4)
    tail.set(bytes.subarray(whole))
    queue.writeBuffer(buffer, whole, tail)
  }

  dispose(): void {
    for (const b of [...this.spare.values()].flat()) b.destroy()
    this.spare.clear()
    this.gpu.destroy()
  }
}

/** The class of the error has a global in browsers only. */
const isOutOfMemory = (e: GPUError): boolean => e.constructor.name === 'GPUOutOfMemoryError'
