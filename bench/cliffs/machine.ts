/** A device to measure on: its backend, what planning goes by, its clock, and its rates. */
import { readFileSync } from 'node:fs'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { createWebgpuBackend, webgpuCapabilities } from '../../src/backends/webgpu/backend.ts'
import type { Capabilities } from '../../src/compile/capability.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { Machine as Target } from '../../src/target/machine.ts'
import { cudaPeaks } from './rates/cuda.ts'
import { programRates } from './rates/programs.ts'
import { wasmPeaks } from './rates/wasm.ts'
import { webgpuPeaks } from './rates/webgpu.ts'
import type { Rates } from './rates.ts'

export type MachineName = 'wasm' | 'cuda' | 'webgpu'

/** Rates found by code written by hand for the device. */
export type Peaks = Pick<Rates, 'bandwidth' | 'flops' | 'divide'>

export interface Machine {
  readonly name: MachineName
  readonly backend: Backend
  readonly target: Target
  readonly capabilities: Capabilities | undefined
  /** Milliseconds of work that one timing takes at least. */
  readonly batchMs: number
  /** Seconds that reading the clock of profiles adds to each step. */
  readonly readingSeconds: number
  /** Seconds on the device's clock that what `body` starts takes. */
  time(body: () => void): Promise<number>
  rates(): Promise<Rates>
}

/** Bytes of the largest cache of one core, from Linux; 2 MiB where it does not say. */
function coreCache(): number {
  try {
    const text = readFileSync('/sys/devices/system/cpu/cpu0/cache/index2/size', 'utf8').trim()
    return Number.parseInt(text, 10) * (text.endsWith('M') ? 1 << 20 : 1 << 10)
  } catch {
    return 2 << 20
  }
}

/** Seconds of a clock: of the wall, or of this process's work, which tells more on a machine that others use. */
export type Clock = 'wall' | 'cpu'
const clocks: Readonly<Record<Clock, () => number>> = {
  wall: () => performance.now() / 1e3,
  cpu: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  },
}

/** Seconds from one reading of a clock to the next. */
function readingOf(now: () => number): number {
  const [times, from] = [1000, now()]
  for (let i = 1; i < times; i++) now()
  return (now() - from) / times
}

function wasm(threads: number, clock: Clock): Machine {
  const now = clocks[clock]
  const backend = createWasmBackend({ threads }, undefined, () => now() * 1e3)
  const machine: Machine = {
    name: 'wasm',
    backend,
    target: backend.machine,
    capabilities: undefined,
    batchMs: 2,
    readingSeconds: readingOf(now),
    time: async (body) => {
      const start = now()
      body()
      return now() - start
    },
    rates: async () => {
      const peaks = await wasmPeaks(threads, now)
      const found = await programRates(machine, { side: 0 })
      // Matrix products are multiply-adds here.
      const product = { product: peaks.flops, productHalf: peaks.flops }
      // Measured in the nearest cache, where a program stays on one thread.
      const special = { special: threads * found.special, specialHalf: threads * found.specialHalf }
      return {
        device: 'wasm',
        threads,
        ...peaks,
        ...found,
        ...product,
        ...special,
        fastBytes: coreCache(),
        sharesUnits: true,
      }
    },
  }
  return machine
}

/** Rates of programs, with products at no less than multiply-adds alone. */
const aboveFlops = <T extends Pick<Rates, 'product' | 'productHalf'>>(found: T, flops: number): T => ({
  ...found,
  product: Math.max(found.product, flops),
  productHalf: Math.max(found.productHalf, flops),
})

/** What 16 multiprocessors of an H200 that form a cluster hold in shared memory and registers. */
const clusterBytes = 16 * ((227 << 10) + (256 << 10))

function cuda(index: number): Machine {
  const backend: CudaBackend = createCudaBackend({ index })
  const time = async (body: () => void): Promise<number> => backend.timed(body) / 1e3
  const machine: Machine = {
    name: 'cuda',
    backend,
    target: backend.machine,
    capabilities: undefined,
    batchMs: 5,
    readingSeconds: 0,
    time,
    rates: async () => {
      const peaks = await cudaPeaks(backend, time)
      const found = aboveFlops(await programRates(machine, { side: 8192 }), peaks.flops)
      return { device: 'cuda', ...peaks, ...found, fastBytes: clusterBytes, sharesUnits: false }
    },
  }
  return machine
}

async function webgpu(): Promise<Machine> {
  const backend = await createWebgpuBackend({
    powerPreference: 'high-performance',
    dawn: ['disable-dawn-features=timestamp_quantization', 'enable-dawn-features=allow_unsafe_apis'],
  })
  const time = async (body: () => void): Promise<number> => {
    await backend.settled()
    const start = performance.now()
    body()
    await backend.settled()
    return (performance.now() - start) / 1e3
  }
  const machine: Machine = {
    name: 'webgpu',
    backend,
    target: backend.machine,
    capabilities: webgpuCapabilities,
    batchMs: 40,
    readingSeconds: 0,
    time,
    rates: async () => {
      const peaks = await webgpuPeaks(backend, time)
      const found = aboveFlops(await programRates(machine, { side: 2048 }), peaks.flops)
      // A workgroup holds its registers and its shared memory.
      const fastBytes = (256 << 10) + backend.machine.simt.maxSharedBytes
      return { device: 'webgpu', ...peaks, ...found, fastBytes, sharesUnits: false }
    },
  }
  return machine
}

/** Opens a device. Throws E_DEVICE where it is missing. */
export async function openMachine(
  name: MachineName,
  options: { threads: number; index: number; clock: Clock },
): Promise<Machine> {
  if (name === 'wasm') return wasm(options.threads, options.clock)
  return name === 'cuda' ? cuda(options.index) : webgpu()
}
