/** The devices of this build: how each is opened, and why the others are missing. */
import { availableParallelism } from 'node:os'
import { createCudaBackend, theCompiler, theDriver, theProducts } from '../backends/cuda/backend.ts'
import { createWasmBackend } from '../backends/wasm/backend.ts'
import { hasSimd, type MultiplyAdd, relaxedMultiplyAdd, sharesMemory } from '../backends/wasm/engine.ts'
import { createWebgpuBackend, webgpuCapabilities } from '../backends/webgpu/backend.ts'
import type { Capabilities } from '../compile/capability.ts'
import { InternalError, UserError } from '../diagnostics/errors.ts'
import type { Backend } from '../runtime/backend.ts'
import type { Machine } from '../target/machine.ts'
import { type Console, printData } from './console.ts'
import { bold, green, yellow } from './style.ts'

export const deviceNames = ['wasm', 'reference', 'cuda', 'webgpu'] as const

export type DeviceName = (typeof deviceNames)[number]

/** A backend with what compiling for it goes by. */
export interface OpenDevice {
  readonly backend: Backend
  readonly target: Machine
  readonly capabilities: Capabilities | undefined
}

export interface OpenOptions {
  readonly threads?: number
  /** Which of several GPUs (CUDA), counted from 0. */
  readonly index?: number
}

/**
 * Opens a device; undefined for the reference device, which evaluates graphs without a backend. Throws E_DEVICE naming what is
 * missing.
 */
export async function openDevice(device: DeviceName, options: OpenOptions): Promise<OpenDevice | undefined> {
  switch (device) {
    case 'wasm': {
      const backend = createWasmBackend(options)
      return { backend, target: backend.machine, capabilities: undefined }
    }
    case 'reference':
      return undefined
    case 'cuda': {
      const backend = createCudaBackend(options)
      return { backend, target: backend.machine, capabilities: undefined }
    }
    case 'webgpu': {
      const backend = await createWebgpuBackend()
      return { backend, target: backend.machine, capabilities: webgpuCapabilities }
    }
  }
}

/** What the engine offers kernels. */
export function wasmFeatures(): { simd: boolean; multiplyAdd: MultiplyAdd; threads: boolean } {
  const simd = hasSimd()
  return { simd, multiplyAdd: simd ? relaxedMultiplyAdd() : 'none', threads: sharesMemory() }
}

const relaxed = {
  fused: { detail: 'relaxed SIMD (multiply-add fuses)' },
  apart: { detail: 'relaxed SIMD unused (its multiply-add does not fuse)' },
  none: { detail: 'no relaxed SIMD', help: 'a newer Node has relaxed SIMD: matrix products run faster' },
} as const satisfies Readonly<Record<MultiplyAdd, Pick<DeviceStatus, 'detail' | 'help'>>>

export interface DeviceStatus {
  readonly name: string
  readonly works: boolean
  /** What it offers, or why it does not work. */
  readonly detail: string
  /** What to do about it. */
  readonly help?: string
}

/** Every device: what it offers, or what is missing here. */
export async function deviceStatus(): Promise<DeviceStatus[]> {
  const { simd, multiplyAdd, threads } = wasmFeatures()
  const { detail: relaxedDetail, ...relaxedHelp }: Pick<DeviceStatus, 'detail' | 'help'> = relaxed[multiplyAdd]
  const cores = availableParallelism()
  return [
    simd
      ? {
          name: 'wasm',
          works: true,
          detail: [
            'SIMD',
            relaxedDetail,
            threads ? `threads over ${cores} ${cores === 1 ? 'core' : 'cores'}` : 'no threads',
          ].join(', '),
          ...relaxedHelp,
        }
      : {
          name: 'wasm',
          works: false,
          detail: 'this engine has no WebAssembly SIMD',
          help: 'run on Node 20 or later, without --no-experimental-wasm-simd',
        },
    {
      name: 'reference',
      works: true,
      detail: 'evaluates graphs node by node in float64: slow, the oracle of the others',
    },
    await webgpuStatus(),
    ...cudaStatus(),
  ]
}

/** A device that throws when it is opened. */
function missing(name: string, error: unknown): DeviceStatus {
  if (!(error instanceof UserError)) throw new InternalError(`opening ${name} failed`, error)
  return { name, works: false, detail: error.summary, ...(error.help === undefined ? {} : { help: error.help }) }
}

/** Every GPU the driver sees, or what is missing. */
function cudaStatus(): DeviceStatus[] {
  // Each is asked by itself: what is missing is told at once, not one after another.
  const lacking: DeviceStatus[] = []
  for (const open of [theDriver, theCompiler])
    try {
      open()
    } catch (error) {
      const status = missing('cuda', error)
      if (!lacking.some((s) => s.detail === status.detail)) lacking.push(status)
    }
  if (lacking.length > 0) {
    const help = lacking.map((s) => s.help ?? '').join('; ')
    return [{ name: 'cuda', works: false, detail: lacking.map((s) => s.detail).join('; '), help }]
  }
  try {
    const driver = theDriver()
    const compiler = theCompiler()
    const products = theProducts()
    const help =
      'missing' in products ? `large matrix products run faster with cuBLASLt: ${products.missing}` : undefined
    const devices = driver.devices()
    if (devices.length === 0)
      return [{ name: 'cuda', works: false, detail: 'the NVIDIA driver sees no GPU', help: 'nvidia-smi says more' }]
    const with_ = `driver for CUDA ${(driver.version / 1000).toFixed(0)}.${(driver.version % 1000) / 10}, NVRTC ${compiler.version}, ${'missing' in products ? 'no cuBLASLt' : `cuBLASLt ${products.version}`}`
    return devices.map((d) => ({
      name: devices.length === 1 ? 'cuda' : `cuda:${d.index}`,
      works: true,
      detail: `${d.name}, compute capability ${(d.capability / 10).toFixed(1)}, ${(d.memory / 2 ** 30).toFixed(0)} GiB, ${with_}`,
      ...(help === undefined ? {} : { help }),
    }))
  } catch (error) {
    return [missing('cuda', error)]
  }
}

/** What is missing for CUDA here, if anything. */
export const cudaMissing = (): DeviceStatus | undefined => cudaStatus().find((s) => !s.works)

async function webgpuStatus(): Promise<DeviceStatus> {
  try {
    const backend = await createWebgpuBackend()
    const detail = backend.description
    backend.dispose()
    return { name: 'webgpu', works: true, detail }
  } catch (error) {
    return missing('webgpu', error)
  }
}

/** `sinter devices`. */
export async function devicesCommand(options: { readonly json: boolean }, console: Console): Promise<number> {
  const list = await deviceStatus()
  if (options.json) {
    printData({ devices: list }, console)
    return 0
  }
  for (const d of list) {
    console.line(`${d.works ? green('works  ') : yellow('missing')}  ${bold(d.name.padEnd(9))}  ${d.detail}`)
    if (d.help !== undefined) console.line(`                    ${d.help}`)
  }
  return 0
}
