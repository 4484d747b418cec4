/** The device a check runs on: its backend, and the library's device over it, which remembers what it prepared. */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { registerDevice } from '../../src/api/device/session.ts'
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { createWebgpuBackend, webgpuCapabilities } from '../../src/backends/webgpu/backend.ts'

/** Programs prepared, with the inputs of their last run. */
class Recorded {
  constructor(backend) {
    this.backend = backend
    this.last = undefined
    /** Programs with open extents that were prepared. */
    this.opened = 0
    for (const name of [
      'alloc',
      'free',
      'write',
      'read',
      'readSync',
      'copy',
      'settled',
      'profile',
      'memory',
      'dispose',
    ])
      this[name] = (...args) => backend[name](...args)
  }

  get name() {
    return this.backend.name
  }

  get runsOpen() {
    return this.backend.runsOpen
  }

  prepare(program) {
    const executable = this.backend.prepare(program)
    if (program.open !== undefined) this.opened++
    return {
      program,
      residentBytes: executable.residentBytes,
      get hasBegun() {
        return executable.hasBegun
      },
      run: (inputs, at) => {
        this.last = { executable, inputs, at }
        return executable.run(inputs, at)
      },
      dispose: () => executable.dispose(),
    }
  }
}

export async function openDevice(name, index) {
  if (name === 'cuda') {
    const backend = createCudaBackend({ index })
    const recorded = new Recorded(backend)
    const { properties } = backend
    const target = backend.machine
    return {
      name,
      backend,
      recorded,
      target,
      capabilities: undefined,
      description: properties,
      l2Bytes: properties.l2Bytes,
      sharedBytes: properties.sharedBytes,
      device: registerDevice(createCompiledDevice('cuda', recorded, target)),
      /** Milliseconds of what `body` starts. */
      time: async (body) => backend.timed(body),
      /** Kernels prepared from now on may use so much shared memory. */
      shareAtMost: (bytes) => {
        properties.sharedBytes = bytes
      },
      /** Milliseconds of work to measure at once. */
      batchMs: 25,
    }
  }
  const backend = await createWebgpuBackend({
    powerPreference: 'high-performance',
    // Exact times in profiles; nothing else is changed.
    dawn: [
      'disable-dawn-features=timestamp_quantization',
      'enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia',
    ],
  })
  const recorded = new Recorded(backend)
  const target = backend.machine
  return {
    name,
    backend,
    recorded,
    target,
    capabilities: webgpuCapabilities,
    description: backend.description,
    l2Bytes: 60 << 20,
    sharedBytes: backend.machine.simt.maxSharedBytes,
    device: registerDevice(createCompiledDevice('webgpu', recorded, target, webgpuCapabilities)),
    shareAtMost: (bytes) => {
      const { machine } = backend.device
      backend.device.machine = { ...machine, simt: { ...machine.simt, maxSharedBytes: bytes } }
    },
    // The host hears of the end of work a millisecond late.
    batchMs: 150,
    time: async (body) => {
      await backend.settled()
      const start = performance.now()
      body()
      await backend.settled()
      return performance.now() - start
    },
  }
}
