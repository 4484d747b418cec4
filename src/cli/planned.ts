/** What `explain` plans for: the GPU of this machine where it opens, what is usual for its kind elsewhere. */

import { createCudaBackend } from '../backends/cuda/backend.ts'
import type { KernelResources } from '../backends/cuda/compile.ts'
import { createWebgpuBackend } from '../backends/webgpu/backend.ts'
import { webgpuCapabilities } from '../backends/webgpu/unsupported.ts'
import { checkCapabilities } from '../compile/capability.ts'
import type { Compiled } from '../compile/index.ts'
import { compileFor } from '../compile/prepare.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { Graph } from '../graph/node.ts'
import { cudaTarget } from '../target/cuda.ts'
import type { Machine, SimtTarget } from '../target/machine.ts'
import { wasmTarget } from '../target/wasm.ts'
import { webgpuTarget } from '../target/webgpu.ts'
import type { Console } from './console.ts'
import { cudaMissing, type DeviceName } from './devices.ts'
import { compile, type PrepareOptions } from './session.ts'

/** The GPU that a plan is for. */
export interface PlannedFor {
  /** Its name; absent where no GPU opened and the plan is for what is usual. */
  readonly gpu?: string
  /** What of it the plan goes by. */
  readonly limits: Readonly<Record<string, number | boolean>>
  /** Both as text. */
  readonly text: string
  /** Why no GPU opened, what is missing for it, and what to do about it. */
  readonly missing?: string
  readonly help?: string
}

export interface Planned {
  readonly compiled: Compiled
  /** What it is compiled for. */
  readonly machine: Machine
  /** What kernels take of the GPU: CUDA, where it opens. */
  readonly resources?: readonly KernelResources[]
  /** Absent for devices that are no GPUs. */
  readonly plannedFor?: PlannedFor
}

/** Compiles a graph to be explained. Throws E_UNSUPPORTED for what the device cannot run, E_DEVICE for the reference device and for a number no GPU has. */
export async function planFor(
  device: DeviceName,
  graph: Graph,
  settings: PrepareOptions,
  index: number | undefined,
): Promise<Planned> {
  switch (device) {
    case 'wasm':
      return { compiled: compile(graph, settings), machine: wasmTarget }
    case 'reference':
      throw new UserError('E_DEVICE', `the device ${device} compiles nothing, so there is nothing to explain`, {
        help: 'explain for --device wasm, webgpu or cuda',
      })
    case 'webgpu': {
      checkCapabilities(graph, device, webgpuCapabilities)
      const { machine, ...adapter } = await adapterMachine()
      const { maxBuffers: storageBuffers, alignment, mostBytes } = machine
      const { maxThreads: threads, maxSharedBytes: sharedBytes } = machine.simt
      // Without an adapter nothing is known of the bytes it binds.
      const bytes = adapter.gpu === undefined ? {} : { valueBytes: mostBytes.value, arenaBytes: mostBytes.arena }
      const limits = { storageBuffers, alignment, threads, sharedBytes, ...bytes }
      const most = adapter.gpu === undefined ? '' : `; ${mostBytes.value} B a value`
      const text = `${adapter.gpu ?? "WebGPU's default limits"}: ${storageBuffers} buffers a kernel, aligned to ${alignment} B; ${threads} threads a workgroup, which share ${sharedBytes} B${most}`
      return { compiled: compile(graph, settings, machine), machine, plannedFor: { ...adapter, limits, text } }
    }
    case 'cuda':
      return planForCuda(graph, settings, index)
  }
}

type AdapterMachine = Pick<PlannedFor, 'gpu' | 'missing' | 'help'> & { readonly machine: SimtTarget }

/** This machine's adapter as planning sees it; WebGPU's default limits without one. */
async function adapterMachine(): Promise<AdapterMachine> {
  try {
    const backend = await createWebgpuBackend()
    const { adapter: gpu, machine } = backend
    backend.dispose()
    return { gpu, machine }
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    const { summary, help } = error
    return { machine: webgpuTarget(), missing: summary, ...(help === undefined ? {} : { help }) }
  }
}

/** Plans for CUDA go by the device's capability and by whether products may be library calls. */
const cudaLimits = (gpu: string, capability: number, library: boolean): Pick<PlannedFor, 'limits' | 'text'> => ({
  limits: { capability, library },
  text: `${gpu}: compute capability ${(capability / 10).toFixed(1)}, ${library ? 'products by cuBLASLt where they are faster' : 'no cuBLASLt'}`,
})

function planForCuda(graph: Graph, settings: PrepareOptions, index: number | undefined): Planned {
  const lacking = cudaMissing()
  if (lacking !== undefined) {
    const { detail, help } = lacking
    const missing = `registers, spills and occupancy are missing: ${detail}`
    return {
      compiled: compile(graph, settings, cudaTarget),
      machine: cudaTarget,
      plannedFor: {
        ...cudaLimits('the default CUDA target', 90, false),
        missing,
        ...(help === undefined ? {} : { help }),
      },
    }
  }
  const backend = createCudaBackend(index === undefined ? {} : { index })
  try {
    const { hasLibrary, machine, properties } = backend
    const { compiled, executable } = compileFor(backend, machine, (t) => compile(graph, settings, t))
    const resources = backend.resources(executable)
    executable.dispose()
    return {
      compiled,
      machine,
      resources,
      plannedFor: { gpu: properties.name, ...cudaLimits(properties.name, properties.capability, hasLibrary) },
    }
  } finally {
    backend.dispose()
  }
}

/** Says what a plan is for, and what is missing here. */
export function printPlannedFor({ text, missing, help }: PlannedFor, console: Pick<Console, 'line'>): void {
  console.line()
  console.line(`planned for ${text}`)
  if (missing !== undefined) console.line(`  ${missing}`)
  if (help !== undefined) console.line(`  ${help}`)
}
