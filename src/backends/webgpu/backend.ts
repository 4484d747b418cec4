/** The WebGPU backend: kernels in WGSL, in browsers and in Node through Dawn. */
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import { type Backend, CannotWait, type DeviceBuffer, type Executable, type StepTime } from '../../runtime/backend.ts'
import type { Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import type { MemoryUse } from '../../runtime/resources.ts'
import type { SimtTarget } from '../../target/machine.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { type HostArray, hostView } from '../../types/host.ts'
import { WebgpuDevice } from './device.ts'
import { copyBuffer, WebgpuExecutable } from './executable.ts'
import { convertsHalves } from './halves.ts'
import { type DeviceLimits, limitNames, mapRead, openAdapter, openGpu, usage } from './host.ts'

export { webgpuCapabilities } from './unsupported.ts'

export interface WebgpuOptions {
  /** Which adapter, where there are several. */
  readonly powerPreference?: 'low-power' | 'high-performance'
  /** Most bytes of memory. */
  readonly memoryLimit?: number
  /** The specification's default limits, or limits tighter than the adapter's; all the adapter offers unless given. */
  readonly limits?: 'default' | Partial<DeviceLimits>
  /** Options of Dawn (Node), for instance `enable-dawn-features=allow_unsafe_apis`; those of the first device hold. */
  readonly dawn?: readonly string[]
}

/** Opens a device with all its adapter offers. Throws E_DEVICE naming what is missing. */
export async function createWebgpuBackend(options: WebgpuOptions = {}): Promise<WebgpuBackend> {
  const adapter = await openAdapter(await openGpu(options.dawn), options.powerPreference)
  const { subgroupMinSize: least = 0, subgroupMaxSize: most = 0 } = adapter.info
  const hasSubgroupMatrices = multipliesHalves(adapter)
  const wanted = ['subgroups', 'timestamp-query', ...(hasSubgroupMatrices ? matrixFeatures : [])]
  const features = wanted.filter((f) => adapter.features.has(f)) as GPUFeatureName[]
  const device = await adapter.requestDevice({
    requiredFeatures: features,
    requiredLimits:
      options.limits === 'default' ? {} : Object.fromEntries(limitNames.map((l) => [l, adapter.limits[l]])),
  })
  const laneBits = features.includes('subgroups') && least > 0 && least === most ? Math.log2(least) : 0
  const { vendor, architecture, description } = adapter.info
  const name = description !== '' ? description : [vendor, architecture].filter((x) => x !== '').join(' ')
  const tighter = typeof options.limits === 'object' ? options.limits : {}
  const limits = { ...limitsOf(device), ...tighter }
  const hasHalfConversions = await convertsHalves(device).catch((cause: unknown) => {
    throw new UserError('E_DEVICE', 'the WebGPU device runs no kernels', { cause })
  })
  const found = { laneBits, hasHalfConversions, hasSubgroupMatrices }
  return new WebgpuBackend(new WebgpuDevice(device, limits, found, options.memoryLimit), name)
}

/** Features by which subgroups multiply matrices: browsers and Dawn offer the second behind a flag. */
const matrixFeatures: readonly string[] = ['shader-f16', 'chromium-experimental-subgroup-matrix']

/** A matrix product of subgroups, as adapters tell it. */
interface MatrixConfiguration {
  readonly componentType: string
  readonly resultComponentType: string
  readonly M: number
  readonly N: number
  readonly K: number
}

/** Whether subgroups of 32 multiply 16 x 16 x 16 halves with sums in f32. */
function multipliesHalves({ features, info }: GPUAdapter): boolean {
  const known = info as GPUAdapterInfo & { readonly subgroupMatrixConfigs?: Iterable<MatrixConfiguration> }
  if (!matrixFeatures.every((f) => features.has(f))) return false
  if (info.subgroupMinSize !== 32 || info.subgroupMaxSize !== 32 || !features.has('subgroups')) return false
  return [...(known.subgroupMatrixConfigs ?? [])].some(
    (c) => c.componentType === 'f16' && c.resultComponentType === 'f32' && [c.M, c.N, c.K].every((size) => size === 16),
  )
}

function limitsOf({ limits }: GPUDevice): DeviceLimits {
  const get = (name: keyof DeviceLimits): [keyof DeviceLimits, number] => [name, limits[name]]
  return Object.fromEntries(limitNames.map(get)) as DeviceLimits
}

export class WebgpuBackend implements Backend {
  readonly name = 'webgpu'
  readonly runsOpen = true
  /** The adapter's name. */
  readonly adapter: string
  /** The adapter, and what it offers. */
  readonly description: string
  private readonly device: WebgpuDevice

  constructor(device: WebgpuDevice, adapter: string) {
    this.device = device
    this.adapter = adapter
    const { maxStorageBuffersPerShaderStage, maxStorageBufferBindingSize } = device.limits
    this.description = [
      adapter,
      `${maxStorageBuffersPerShaderStage} buffers a kernel`,
      `${(maxStorageBufferBindingSize / 2 ** 20).toFixed(0)} MiB a buffer`,
      device.machine.simt.laneBits > 0
        ? `subgroups of ${2 ** device.machine.simt.laneBits}`
        : 'no subgroups of fixed size',
      ...(device.machine.simt.hasSubgroupMatrices ? ['matrix products of f16, 16 x 16 x 16'] : []),
    ].join(', ')
  }

  /** The device as planning and code generation see it. */
  get machine(): SimtTarget {
    return this.device.machine
  }

  alloc(bytes: number): DeviceBuffer {
    return this.device.buffers.adopt(this.device.take(bytes), bytes)
  }

  free(buffer: DeviceBuffer): void {
    this.device.buffers.end(this.device.buffers.own(buffer))
  }

  write(buffer: DeviceBuffer, data: HostArray): void {
    const b = this.device.buffers.own(buffer)
    if (data.byteLength > b.bytes) throw new InternalError(`${data.byteLength} bytes into a buffer of ${b.bytes}`)
    this.device.check()
    this.device.write(b.memory, data)
  }

  copy(buffer: DeviceBuffer): DeviceBuffer {
    const from = this.device.buffers.own(buffer)
    const to = this.device.buffers.adopt(this.device.take(from.bytes), from.bytes)
    copyBuffer(this.device, from.memory, 0, to.memory, from.bytes)
    return to
  }

  readSync(): HostArray {
    this.device.checkPresent()
    throw new CannotWait('values on a WebGPU device cannot be read synchronously', 'await tensor.data() reads them')
  }

  async read(buffer: DeviceBuffer, dtype: DType, n: number): Promise<HostArray> {
    const { gpu } = this.device
    const b = this.device.buffers.own(buffer)
    this.device.check()
    const bytes = n * dtypeBytes(dtype)
    const size = Math.max(4, Math.ceil(bytes / 4) * 4)
    const to = gpu.createBuffer({ size, usage: usage.mapRead | usage.copyTarget })
    copyBuffer(this.device, b.memory, 0, to, bytes)
    this.device.recorder.flush()
    try {
      await to.mapAsync(mapRead)
    } catch (cause) {
      await this.device.checked()
      throw new UserError('E_DEVICE', 'the WebGPU device gave no values back', { cause })
    }
    const data = to.getMappedRange().slice(0, bytes)
    to.destroy()
    await this.device.checked()
    return hostView(dtype, data, 0, n)
  }

  async settled(): Promise<void> {
    this.device.recorder.flush()
    await this.device.gpu.queue.onSubmittedWorkDone()
    await this.device.checked()
  }

  prepare(program: Program): Executable {
    this.device.check()
    return new WebgpuExecutable(this.device, program)
  }

  async profile(
    executable: Executable,
    inputs: readonly DeviceBuffer[],
    at?: Extents,
  ): Promise<{ readonly outputs: DeviceBuffer[]; readonly times: readonly StepTime[] }> {
    if (!(executable instanceof WebgpuExecutable)) throw new InternalError('an executable of another backend')
    return executable.profile(inputs, at)
  }

  memory(): MemoryUse {
    return this.device.memoryUse()
  }

  dispose(): void {
    this.device.dispose()
  }
}
