/** Runs kernels compiled to WGSL through Dawn on a software Vulkan driver (SwiftShader), without a backend. */

import { programsOf } from '../../../src/codegen/simt/ir/launchGrid.ts'
import { dispatchSize, emitKernel, type KernelSource } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { launchValues } from '../../../src/kernel/launch.ts'
import { type SimtMachine, webgpuSimt } from '../../../src/target/simt.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { absent, chooseDriver, dawnOptions } from '../../support/softwareDriver.ts'

export type Buffers = Record<string, HostArray>

export interface Adapter {
  readonly device: GPUDevice
  readonly limits: SimtMachine
  readonly subgroupBits: number
}

let gpu: GPU | undefined
let opened: Promise<Adapter | string> | undefined

/** The software device, or why there is none. */
export function openDevice(): Promise<Adapter | string> {
  opened ??= open()
  return opened
}

async function open(): Promise<Adapter | string> {
  const missing = chooseDriver()
  if (missing !== undefined) return missing
  const { create, globals } = await import('webgpu')
  Object.assign(globalThis, globals)
  // Dawn's objects end with the GPU object: it is kept.
  gpu = create([...dawnOptions])
  const adapter = await gpu.requestAdapter()
  if (adapter === null) return absent('no WebGPU adapter (is libvulkan1 installed?)')
  const subgroups = adapter.features.has('subgroups')
  const device = await adapter.requestDevice({
    requiredFeatures: subgroups ? ['subgroups'] : [],
    requiredLimits: {
      maxStorageBuffersPerShaderStage: adapter.limits.maxStorageBuffersPerShaderStage,
      maxComputeWorkgroupStorageSize: adapter.limits.maxComputeWorkgroupStorageSize,
    },
  })
  const { subgroupMinSize: least = 0, subgroupMaxSize: most = 0 } = adapter.info
  return {
    device,
    limits: { ...webgpuSimt, maxSharedBytes: adapter.limits.maxComputeWorkgroupStorageSize },
    subgroupBits: subgroups && least > 0 && least === most ? Math.log2(least) : 0,
  }
}

export interface RunOptions {
  readonly subgroups?: boolean
  /** Most workgroups along a dispatch dimension. */
  readonly perDimension?: number
}

const valueIn =
  (kernel: Kernel, buffers: Buffers) =>
  (scalar: string): number =>
    launchValues(kernel, buffers).get(scalar) ?? 0

const padded = (bytes: number): number => Math.max(16, Math.ceil(bytes / 16) * 16)

async function pipelineOf(device: GPUDevice, source: KernelSource): Promise<GPUComputePipeline> {
  device.pushErrorScope('validation')
  const module = device.createShaderModule({ code: source.source })
  const { messages } = await module.getCompilationInfo()
  const errors = messages.filter((m) => m.type === 'error')
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: source.entry } })
  const invalid = await device.popErrorScope()
  if (errors.length > 0 || invalid !== null) {
    const lines = source.source.split('\n')
    const at = errors.map((m) => `${m.lineNum}: ${m.message}\n    ${lines[m.lineNum - 1] ?? ''}`)
    throw new Error(
      `${source.entry} is not valid WGSL:\n${[...at, invalid?.message ?? ''].join('\n')}\n\n${source.source}`,
    )
  }
  return pipeline
}

/** A kernel of independent parts that binds more buffers than a stage may, as a kernel a part. */
function withinBindings(k: Kernel, most: number): Kernel[] {
  if (k.params.length <= most) return [k]
  return k.parts.map((part, i) => {
    const text = JSON.stringify(part.body)
    const params = k.params.filter((p) => text.includes(`"param":"${p.name}"`))
    return { ...k, name: `${k.name}_${i}`, params, parts: [part] }
  })
}

/** Runs kernels in order on buffers by parameter name, in place. */
export async function runWgsl(
  machine: Adapter,
  kernels: readonly Kernel[],
  buffers: Buffers,
  options: RunOptions = {},
): Promise<void> {
  const { device } = machine
  const caps = { ...machine.limits, laneBits: options.subgroups === true ? machine.subgroupBits : 0 }
  const memory = new Map<string, GPUBuffer>()
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST
  for (const [name, data] of Object.entries(buffers)) {
    const size = padded(data.byteLength)
    const buffer = device.createBuffer({ size, usage })
    // Junk behind the data: nothing may rely on it.
    const bytes = new Uint8Array(size).fill(0x7f)
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    device.queue.writeBuffer(buffer, 0, bytes)
    memory.set(name, buffer)
  }
  for (const k of kernels.flatMap((x) => withinBindings(x, device.limits.maxStorageBuffersPerShaderStage))) {
    const source = emitKernel(k, caps)
    if (source.programs === 0) continue
    const pipeline = await pipelineOf(device, source)
    device.pushErrorScope('validation')
    const layout = pipeline.getBindGroupLayout(0)
    const group = device.createBindGroup({
      layout,
      entries: source.bindings.map((b) => {
        const buffer = memory.get(b.name)
        if (buffer === undefined) throw new Error(`no buffer ${b.name}`)
        return { binding: b.binding, resource: { buffer } }
      }),
    })
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, group)
    const programs = source.grid === undefined ? source.programs : programsOf(source.grid, valueIn(k, buffers))
    pass.dispatchWorkgroups(...dispatchSize(programs, options.perDimension ?? 65535))
    pass.end()
    device.queue.submit([encoder.finish()])
    const invalid = await device.popErrorScope()
    if (invalid !== null) throw new Error(`${k.name}: ${invalid.message}\n${source.source}`)
  }
  const written = new Set(kernels.flatMap((k) => k.params.filter((p) => p.access !== 'read').map((p) => p.name)))
  for (const [name, data] of Object.entries(buffers)) {
    const from = memory.get(name)
    if (from === undefined) continue
    if (!written.has(name)) {
      from.destroy()
      continue
    }
    const to = device.createBuffer({ size: from.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(from, 0, to, 0, from.size)
    device.queue.submit([encoder.finish()])
    await to.mapAsync(GPUMapMode.READ)
    const bytes = new Uint8Array(to.getMappedRange()).slice(0, data.byteLength)
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(bytes)
    to.destroy()
    from.destroy()
  }
}
