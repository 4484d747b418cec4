/** Where WebGPU comes from: the browser, or the optional package `webgpu` (Dawn) in Node. */
import { UserError } from '../../diagnostics/errors.ts'

/** Bits of buffer usages and map modes: constants of the specification, which Node has no globals for. */
export const usage = {
  mapRead: 1,
  copySource: 4,
  copyTarget: 8,
  uniform: 0x40,
  storage: 0x80,
  queryResolve: 0x200,
} as const
export const mapRead = 1

/** Limits that plans and kernels respect. */
export const limitNames = [
  'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupsPerDimension',
  'maxBufferSize',
  'maxStorageBufferBindingSize',
  'minStorageBufferOffsetAlignment',
] as const

export type DeviceLimits = Readonly<Record<(typeof limitNames)[number], number>>

interface DawnModule {
  create(options: readonly string[]): GPU
}

/** Dawn's objects end with the GPU object: it is kept. */
let dawn: GPU | undefined

/** Throws E_DEVICE naming what is missing. `options` go to Dawn where it is opened by this call. */
export async function openGpu(options: readonly string[] = []): Promise<GPU> {
  const host: { readonly navigator?: { readonly gpu?: GPU } } = globalThis as never
  const own = host.navigator?.gpu
  if (own !== undefined) return own
  if (dawn !== undefined) return dawn
  if (!('process' in globalThis))
    throw new UserError('E_DEVICE', 'this browser has no WebGPU', {
      help: "use a browser with WebGPU (a page served over https or from localhost), or setDevice('wasm')",
    })
  // A name that bundlers do not follow: browsers never come here.
  const name = 'webgpu'
  let module: DawnModule
  try {
    module = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as DawnModule
  } catch (cause) {
    throw new UserError('E_DEVICE', 'the package webgpu (Dawn), which brings WebGPU to Node, is not installed', {
      help: 'npm install webgpu',
      cause,
    })
  }
  dawn = module.create(options)
  return dawn
}

/** The adapter of this machine. Throws E_DEVICE without one. */
export async function openAdapter(gpu: GPU, preference?: GPUPowerPreference): Promise<GPUAdapter> {
  const adapter = await gpu.requestAdapter(preference === undefined ? {} : { powerPreference: preference })
  if (adapter !== null) return adapter
  throw new UserError('E_DEVICE', 'WebGPU finds no adapter', {
    help: 'install a graphics driver and, on Linux, the Vulkan loader (libvulkan1); VK_DRIVER_FILES chooses a driver',
  })
}
