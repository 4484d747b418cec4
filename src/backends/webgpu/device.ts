/** An open WebGPU device: its limits, pool of buffers, pipelines, commands on their way, and what went wrong with it. */
import { commonCode, type KernelSource } from '../../codegen/simt/kernel.ts'
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import { TensorBuffers } from '../../runtime/buffers.ts'
import { type MemoryUse, Residents, type Resources } from '../../runtime/resources.ts'
import type { SimtTarget } from '../../target/machine.ts'
import { type WebgpuLimits, webgpuDefaults, webgpuTarget } from '../../target/webgpu.ts'
import { type DeviceLimits, usage } from './host.ts'
import { BufferPool } from './memory.ts'
import { Recorder } from './recorder.ts'

/** What a device was found to have and to do. */
export type DeviceFeatures = Pick<WebgpuLimits, 'laneBits' | 'hasHalfConversions' | 'hasSubgroupMatrices'>

/** What plans and kernels respect of a device's limits. */
const planningLimits = (limits: DeviceLimits, found: DeviceFeatures): WebgpuLimits => ({
  storageBuffers: limits.maxStorageBuffersPerShaderStage,
  alignment: Math.max(64, limits.minStorageBufferOffsetAlignment),
  threads: floorPowerOfTwo(
    Math.min(webgpuDefaults.threads, limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
  ),
  sharedBytes: limits.maxComputeWorkgroupStorageSize,
  valueBytes: Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize),
  arenaBytes: limits.maxBufferSize,
  ...found,
})

export class WebgpuDevice {
  /** Memory of tensors. */
  readonly buffers = new TensorBuffers<GPUBuffer>((b) => {
    this.release(b)
  })
  readonly gpu: GPUDevice
  readonly limits: DeviceLimits
  /** The device as planning and code generation see it. */
  readonly machine: SimtTarget
  readonly pool: BufferPool<GPUBuffer>
  readonly recorder: Recorder
  /** Programs that live. */
  readonly residents = new Residents()
  /** By code, with the number of programs that hold it. */
  private readonly pipelines = new Map<string, { readonly pipeline: GPUComputePipeline; holders: number }>()
  private lostBecause: string | undefined
  private failure: Error | undefined
  /** Checks under way: errors arrive later than the calls that cause them. */
  private readonly checks = new Set<Promise<void>>()

  /** `limits` are those of the device, or tighter ones. */
  constructor(gpu: GPUDevice, limits: DeviceLimits, features: DeviceFeatures, memoryLimit: number | undefined) {
    this.gpu = gpu
    this.limits = limits
    this.machine = webgpuTarget(planningLimits(limits, features))
    this.recorder = new Recorder(gpu, (cause) => {
      this.failure ??= new InternalError(`WebGPU takes no commands: ${String(cause)}`)
    })
    this.pool = new BufferPool<GPUBuffer>(
      {
        create: (size) =>
          this.scoped(
            `a buffer of ${(size / 2 ** 20).toFixed(1)} MiB`,
            () =>
              gpu.createBuffer({ size, usage: usage.storage | usage.uniform | usage.copySource | usage.copyTarget }),
            (made) => made,
          ),
        destroy: (b) => this.recorder.destroy(b),
        maxBufferBytes: Math.floor(limits.maxBufferSize / 16) * 16,
      },
      memoryLimit,
    )
    void gpu.lost.then((info) => {
      this.pool.drop()
      this.pipelines.clear()
      this.lostBecause = info.message === '' ? info.reason : `${info.reason}: ${info.message}`
    })
    gpu.onuncapturederror = (event) => this.fail('a command', event.error)
  }

  private fail(what: string, error: GPUError, made?: GPUBuffer): void {
    if (isOutOfMemory(error)) this.pool.exhausted(made)
    this.failure ??= isOutOfMemory(error)
      ? new UserError('E_OUT_OF_MEMORY', `the WebGPU device has no memory left for ${what}`, {
          help: 'free tensors you no longer need, or set a memoryBudget on jit',
        })
      : new InternalError(`WebGPU refuses ${what}: ${error.message}`)
  }

  /** Throws E_DEVICE when the device is lost. */
  checkPresent(): void {
    if (this.lostBecause !== undefined)
      throw new UserError('E_DEVICE', `the WebGPU device is lost (${this.lostBecause}); its tensors are gone`, {
        help: 'open it again, setDevice(await webgpu()), and make the tensors again',
      })
  }

  /** Throws E_DEVICE when the device is lost, and the error of an earlier call that came out since. */
  check(): void {
    this.checkPresent()
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

  /** Runs calls whose errors are reported under a name; `buffer` tells of a result the buffer that may be without memory. */
  scoped<T>(what: string, body: () => T, buffer?: (made: T) => GPUBuffer): T {
    const { gpu } = this
    gpu.pushErrorScope('out-of-memory')
    gpu.pushErrorScope('validation')
    let made: GPUBuffer | undefined
    try {
      const result = body()
      made = buffer?.(result)
      return result
    } finally {
      for (let scope = 0; scope < 2; scope++) {
        const check = gpu
          .popErrorScope()
          .then((e) => {
            if (e !== null) this.fail(what, e, made)
          })
          .catch(() => {})
        this.checks.add(check)
        void check.then(() => this.checks.delete(check))
      }
    }
  }

  /** A buffer of at least a size, rather one of `known`. Throws E_OUT_OF_MEMORY beyond the limits of the device. */
  take(bytes: number, known?: readonly GPUBuffer[]): GPUBuffer {
    this.check()
    return this.pool.take(bytes, known)
  }

  /** Gives a buffer back; work that was recorded still sees it. */
  readonly release = (buffer: GPUBuffer): void => {
    this.pool.release(buffer)
  }

  memoryUse(): MemoryUse {
    const { pool, residents, pipelines } = this
    const { used, limit, spareBytes: pooledBytes } = pool
    return {
      used,
      limit,
      programs: residents.programs,
      modules: pipelines.size,
      arenaBytes: residents.bytes,
      pooledBytes,
    }
  }

  /**
   * The pipeline of a source, which `resources` hold from now on; what is wrong with it is reported under the kernel's name. Kernels of
   * one code share one.
   */
  pipeline(source: Pick<KernelSource, 'source' | 'entry'>, resources: Resources): GPUComputePipeline {
    const { text: code, entry } = commonCode(source)
    const have = this.pipelines.get(code) ?? { pipeline: this.makePipeline(code, entry, source.entry), holders: 0 }
    this.pipelines.set(code, have)
    have.holders++
    resources.hold(this.letGo, code)
    return have.pipeline
  }

  private readonly letGo = (code: string): void => {
    const have = this.pipelines.get(code)
    if (have !== undefined && --have.holders === 0) this.pipelines.delete(code)
  }

  private makePipeline(code: string, entry: string, name: string): GPUComputePipeline {
    return this.scoped(`the kernel ${name}`, () => {
      const module = this.gpu.createShaderModule({ code, label: entry })
      return this.gpu.createComputePipeline({ label: entry, layout: 'auto', compute: { module, entryPoint: entry } })
    })
  }

  write(buffer: GPUBuffer, data: ArrayBufferView): void {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    const whole = bytes.length & ~3
    const { queue } = this.gpu
    // The queue writes at once: after what is recorded.
    this.recorder.flush()
    if (whole > 0) queue.writeBuffer(buffer, 0, bytes as Uint8Array<ArrayBuffer>, 0, whole)
    if (whole === bytes.length) return
    const tail = new Uint8Array(4)
    tail.set(bytes.subarray(whole))
    queue.writeBuffer(buffer, whole, tail)
  }

  dispose(): void {
    this.recorder.flush()
    this.pool.trim()
    this.gpu.destroy()
  }
}

/** The class of the error has a global in browsers only. */
const isOutOfMemory = (e: GPUError): boolean => e.constructor.name === 'GPUOutOfMemoryError'

const floorPowerOfTwo = (n: number): number => 2 ** Math.floor(Math.log2(n))
