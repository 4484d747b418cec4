/** A CUDA driver that records calls and runs nothing: what is tested of the backend without a GPU. */
import {
  type Arguments,
  type CudaCompiler,
  type CudaContext,
  type CudaDriver,
  type DeviceProperties,
  DriverError,
  type Launch,
} from '../../src/backends/cuda/driver.ts'

class FakeArguments implements Arguments {
  readonly values: number[]
  readonly length: number
  constructor(length: number) {
    this.length = length
    this.values = new Array<number>(length).fill(0)
  }
  set(i: number, value: number): void {
    this.values[i] = value
  }
}

export const valuesOf = (l: Launch): number[] => (l.args instanceof FakeArguments ? [...l.args.values] : [])

export interface FakeDevice {
  readonly driver: CudaDriver
  readonly compiler: CudaCompiler
  /** Calls in order, with what matters of them. */
  readonly calls: string[]
  /** Sources compiled, by entry point. */
  readonly sources: { readonly name: string; readonly source: string; readonly options: readonly string[] }[]
  /** Arguments of every kernel launched or updated in a graph. */
  readonly launched: { readonly fn: number; readonly args: readonly number[] }[]
  /** Bytes the driver gave out. */
  allocated(): number
}

export function fakeDevice(memory = 1 << 30, capability = 90): FakeDevice {
  const calls: string[] = []
  const sources: FakeDevice['sources'] = []
  const launched: FakeDevice['launched'] = []
  const blocks = new Map<number, number>()
  let next = 0x7f00_0000_0000
  let handles = 1
  const allocated = (): number => [...blocks.values()].reduce((a, b) => a + b, 0)
  const properties: DeviceProperties = {
    index: 0,
    name: 'Recorder 1',
    capability,
    multiprocessors: 132,
    memory,
    sharedBytes: 227 * 1024,
    l2Bytes: 50 << 20,
  }
  const known = (address: number, call: string): void => {
    for (const [start, bytes] of blocks) if (address >= start && address < start + bytes) return
    throw new DriverError(call, 'CUDA_ERROR_INVALID_VALUE', `no memory at ${address}`)
  }
  const launch = (l: Launch): void => {
    launched.push({ fn: l.fn, args: valuesOf(l) })
  }
  const context: CudaContext = {
    properties,
    memAlloc: (bytes) => {
      if (allocated() + bytes > memory) throw new DriverError('cuMemAlloc_v2', 'CUDA_ERROR_OUT_OF_MEMORY', 'full')
      const address = next
      next += Math.ceil(bytes / 4096) * 4096 + 4096
      blocks.set(address, bytes)
      calls.push(`alloc ${bytes}`)
      return address
    },
    memFree: (address) => {
      blocks.delete(address)
      calls.push('free')
    },
    memInfo: () => ({ free: memory - allocated(), total: memory }),
    hostAlloc: (bytes) => ({ address: 4096, bytes: new Uint8Array(bytes) }),
    hostFree: () => {},
    toDevice: (to, _from, bytes) => {
      known(to, 'toDevice')
      calls.push(`toDevice ${bytes}`)
    },
    toHost: (_to, from, bytes) => {
      known(from, 'toHost')
      calls.push(`toHost ${bytes}`)
    },
    copy: (to, from, bytes) => {
      known(to, 'copy')
      known(from, 'copy')
      calls.push(`copy ${bytes}`)
    },
    synchronize: () => calls.push('synchronize'),
    createEvent: () => handles++,
    record: () => {},
    waitFor: () => {},
    isDone: () => true,
    elapsed: () => 1,
    destroyEvent: () => {},
    loadModule: (image) => {
      if (image.length === 0) throw new DriverError('cuModuleLoadData', 'CUDA_ERROR_INVALID_IMAGE', 'damaged')
      return handles++
    },
    unloadModule: () => {},
    getFunction: (_module, name) => {
      calls.push(`function ${name}`)
      return handles++
    },
    attributes: () => ({ registers: 40, localBytes: 0, sharedBytes: 1024, maxThreads: 1024 }),
    allowSharedBytes: (_fn, bytes) => calls.push(`allow ${bytes}`),
    occupancy: () => 6,
    makeArguments: (length) => new FakeArguments(length),
    launch: (l) => {
      calls.push('launch')
      launch(l)
    },
    makeGraph: (launches) => {
      calls.push(`graph of ${launches.length}`)
      const held = launches.map((l) => ({ fn: l.fn, args: valuesOf(l) }))
      return {
        launch: () => {
          calls.push('launch graph')
          launched.push(...held)
        },
        update: (i) => {
          calls.push(`update ${i}`)
          const l = launches[i]
          if (l !== undefined) held[i] = { fn: l.fn, args: valuesOf(l) }
        },
        dispose: () => calls.push('dispose graph'),
      }
    },
    dispose: () => calls.push('close'),
  }
  return {
    driver: { version: 13000, devices: () => [properties], open: () => context },
    compiler: {
      version: '13.0',
      architectures: [75, 80, 86, 89, 90, 100],
      compile: (source, name, options) => {
        sources.push({ name, source, options })
        return source.includes('broken')
          ? { image: undefined, log: 'error: broken' }
          : { image: new TextEncoder().encode(source), log: '' }
      },
    },
    calls,
    sources,
    launched,
    allocated,
  }
}
