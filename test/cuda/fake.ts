/** A CUDA driver that records calls and runs nothing: what is tested of the backend without a GPU. */
import {
  type Arguments,
  type CudaCompiler,
  type CudaContext,
  type CudaDriver,
  type DeviceProperties,
  DriverError,
  type Launch,
  type ProductAlignment,
  type ProductLibrary,
  type StreamWork,
} from '../../src/backends/cuda/driver.ts'
import { ProductRefused } from '../../src/runtime/backend.ts'
import { describeProduct, type ProductOffsets, productKey, type StridedProduct } from '../../src/types/product.ts'

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

/** What is put on the stream: done at once, or held while a graph is captured. */
export class Stream {
  private held: (() => void)[] | undefined

  put(work: () => void): void {
    if (this.held === undefined) work()
    else this.held.push(work)
  }

  capture(body: () => void): readonly (() => void)[] {
    this.held = []
    try {
      body()
      return this.held
    } finally {
      this.held = undefined
    }
  }
}

/** A library whose products are done by `multiply`; those that `refuses` gives a reason for are refused. */
export function productLibrary(
  stream: Stream,
  multiply: (product: StridedProduct, at: ProductOffsets) => void,
  refuses: (product: StridedProduct, alignment: ProductAlignment) => string | undefined = () => undefined,
): ProductLibrary {
  return {
    version: '13.0.0',
    open: () => ({
      find: (product, alignment) => {
        const why = refuses(product, alignment)
        if (why !== undefined) throw new ProductRefused(productKey(product), why)
        return {
          workspaceBytes: 1024,
          enqueue: (at, workspace, on) => {
            if (workspace === 0 || on !== 0x77) throw new Error(`workspace ${workspace}, stream ${on}`)
            stream.put(() => multiply(product, at))
          },
        }
      },
      dispose: () => {},
    }),
  }
}

export interface FakeDevice {
  readonly driver: CudaDriver
  readonly compiler: CudaCompiler
  readonly stream: Stream
  readonly products: ProductLibrary
  /** Calls in order, with what matters of them. */
  readonly calls: string[]
  /** Sources compiled, by entry point. */
  readonly sources: { readonly name: string; readonly source: string; readonly options: readonly string[] }[]
  /** Arguments of every kernel launched or updated in a graph. */
  readonly launched: { readonly fn: number; readonly args: readonly number[] }[]
  /** Bytes the driver gave out. */
  allocated(): number
}

/** `localBytes` says what a thread of a compiled source keeps in local memory. */
export function fakeDevice(
  memory = 1 << 30,
  capability = 90,
  localBytes: (source: string) => number = () => 0,
): FakeDevice {
  const modules = new Map<number, string>()
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
  const stream = new Stream()
  const launch = (l: StreamWork): void => {
    if ('enqueue' in l) l.enqueue(0x77)
    else {
      const args = valuesOf(l)
      stream.put(() => launched.push({ fn: l.fn, args }))
    }
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
      modules.set(handles, new TextDecoder().decode(image))
      return handles++
    },
    unloadModule: () => {},
    getFunction: (module, name) => {
      calls.push(`function ${name}`)
      modules.set(handles, modules.get(module) ?? '')
      return handles++
    },
    attributes: (fn) => ({
      registers: 40,
      localBytes: localBytes(modules.get(fn) ?? ''),
      sharedBytes: 1024,
      maxThreads: 1024,
    }),
    allowSharedBytes: (_fn, bytes) => calls.push(`allow ${bytes}`),
    occupancy: () => 6,
    makeArguments: (length) => new FakeArguments(length),
    launch: (l) => {
      calls.push('launch')
      launch(l)
    },
    makeGraph: (launches) => {
      calls.push(`graph of ${launches.length}`)
      const held = launches.map((l) => stream.capture(() => launch(l)))
      return {
        launch: () => {
          calls.push('launch graph')
          for (const works of held) for (const work of works) work()
        },
        update: (changed) => {
          calls.push(`update ${changed.join()}`)
          for (const i of changed) {
            const l = launches[i]
            if (l !== undefined) held[i] = stream.capture(() => launch(l))
          }
        },
        dispose: () => calls.push('dispose graph'),
      }
    },
    activate: () => {},
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
    stream,
    products: productLibrary(stream, (product, { a, b, out, addend }) => {
      calls.push(`product ${describeProduct(product)}`)
      launched.push({ fn: 0, args: addend === undefined ? [a, b, out] : [a, b, out, addend] })
    }),
    calls,
    sources,
    launched,
    allocated,
  }
}
