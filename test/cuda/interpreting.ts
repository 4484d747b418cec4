/** A CUDA driver that runs kernels with the interpreter on memory of the host: the whole backend but the device's own code. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import type {
  CudaCompiler,
  CudaContext,
  CudaDriver,
  Pinned,
  ProductLibrary,
  StreamWork,
} from '../../src/backends/cuda/driver.ts'
import { commonCode, emitKernel, type KernelSource } from '../../src/codegen/simt/kernel.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel, KernelParam } from '../../src/kernel/ir.ts'
import { closeKernel, launchValues } from '../../src/kernel/launch.ts'
import type { Program } from '../../src/runtime/program.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTargetOf } from '../../src/target/cuda.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { type HostArray, hostView } from '../../src/types/host.ts'
import { describeProduct, type StridedMatrix } from '../../src/types/product.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { fakeDevice, productLibrary, valuesOf } from './fake.ts'
import { multiply } from './multiply.ts'

/** The code without what depends on sharing of memory. */
const plain = (source: string): string => source.replaceAll('__restrict__ ', '')

/** Elements of a parameter that there are: a buffer of varying size has those of the launch alone. */
const elementsAt = (p: KernelParam, bytes: number): number =>
  Math.min(sizeOf(p.shape), Math.floor(bytes / dtypeBytes(p.dtype)))

export interface InterpretingDevice {
  readonly driver: CudaDriver
  readonly compiler: CudaCompiler
  readonly products: ProductLibrary
  readonly calls: string[]
  /** Makes the kernels of a program known. */
  learn(program: Program): void
  /** Kernels known that take a table of pointers. */
  tables(): number
}

/** The CUDA backend on such a device, with a folder for its code, both gone once the tests of a file are over. */
export function interpretingBackend(): {
  readonly device: InterpretingDevice
  readonly backend: CudaBackend
  readonly folder: string
} {
  const folder = mkdtempSync(join(tmpdir(), 'sinter-'))
  const device = interpretingDevice()
  const backend = createCudaBackend({ driver: device.driver, compiler: device.compiler, cacheFolder: folder })
  afterAll(() => {
    backend.dispose()
    rmSync(folder, { recursive: true })
  })
  return { device, backend, folder }
}

/** `refuses` gives the reasons for which its library has no algorithm. */
export function interpretingDevice(refuses?: Parameters<typeof productLibrary>[2]): InterpretingDevice {
  const fake = fakeDevice()
  const recorded = fake.driver.open(0)
  const known = new Map<string, { readonly kernel: Kernel; readonly source: KernelSource }>()
  const memory = new Map<number, Uint8Array>()
  const host = new Map<number, Uint8Array>()
  const modules = new Map<number, string>()
  const functions = new Map<number, { readonly name: string; readonly source: string }>()
  let nextHost = 4096

  const at = (address: number): { readonly block: Uint8Array; readonly offset: number } => {
    for (const [start, block] of memory)
      if (address >= start && address < start + block.length) return { block, offset: address - start }
    throw new Error(`no memory at ${address}`)
  }
  const bytesAt = (address: number, bytes: number): Uint8Array => {
    const { block, offset } = at(address)
    return block.subarray(offset, offset + bytes)
  }
  const pinned = (address: number, bytes: number): Uint8Array => {
    const found = host.get(address)
    if (found === undefined) throw new Error(`no host memory at ${address}`)
    return found.subarray(0, bytes)
  }
  const view = (p: KernelParam, address: number): HostArray => {
    const { block, offset } = at(address)
    if (address % 16 !== 0) throw new Error(`${p.name} stands at ${address}, which is not aligned`)
    return p.format === 'plain'
      ? hostView(p.dtype, block.buffer, block.byteOffset + offset, elementsAt(p, block.length - offset))
      : block.subarray(offset)
  }
  const runLaunch = (fn: number, args: readonly number[]): void => {
    const f = functions.get(fn)
    if (f === undefined) throw new Error(`no function ${fn}`)
    if (f.name === 'copy_bytes') {
      const [to = 0, from = 0, bytes = 0] = args
      bytesAt(to, bytes).set(bytesAt(from, bytes).slice())
      return
    }
    const found = known.get(plain(f.source))
    if (found === undefined) throw new Error(`kernel ${f.name} is not known`)
    const { kernel, source } = found
    const addresses = new Map(source.bindings.map((b, i) => [b.name, args[i] ?? 0]))
    ;(source.table ?? []).forEach((entry, i) => {
      const bytes = bytesAt((args[source.bindings.length] ?? 0) + 8 * i, 8).slice()
      const word = Number(new BigUint64Array(bytes.buffer)[0])
      if (typeof entry === 'string') addresses.set(entry, word)
      else if (word !== entry) throw new Error(`word ${i} of a table is ${word}, not ${entry}`)
    })
    const passed = new Map<string, Int32Array>()
    const pointers = source.bindings.length + (source.table === undefined ? 0 : 1)
    ;(source.scalars ?? []).forEach(({ param, at }, i) => {
      const values = passed.get(param) ?? new Int32Array(256)
      passed.set(param, values)
      values[at] = args[pointers + i] ?? 0
    })
    const buffers = Object.fromEntries(
      kernel.params.map((p) => [p.name, passed.get(p.name) ?? view(p, addresses.get(p.name) ?? 0)]),
    )
    // What masks an index by a launch scalar is shown of the closed kernel.
    interpretKernel(closeKernel(kernel, launchValues(kernel, buffers)), buffers, { rounding: 'dtype' })
  }
  const run = (l: StreamWork): void => {
    if ('enqueue' in l) {
      l.enqueue(0x77)
      return
    }
    const args = valuesOf(l)
    fake.stream.put(() => runLaunch(l.fn, args))
  }
  const matrix = (x: StridedMatrix, address: number): HostArray => {
    const { block, offset } = at(address)
    const elements = Math.floor((block.length - offset) / dtypeBytes(x.dtype))
    return hostView(x.dtype, block.buffer, block.byteOffset + offset, elements)
  }
  const products = productLibrary(
    fake.stream,
    (p, { a, b, out, addend }) => {
      fake.calls.push(`product ${describeProduct(p)}`)
      const added = p.addend === undefined || addend === undefined ? undefined : matrix(p.addend, addend)
      multiply(p, matrix(p.a, a), matrix(p.b, b), matrix(p.out, out), added)
    },
    refuses,
  )
  const context: CudaContext = {
    ...recorded,
    memAlloc: (bytes) => {
      const address = recorded.memAlloc(bytes)
      // Junk: nothing may rely on what fresh memory holds.
      memory.set(address, new Uint8Array(bytes).fill(0x7f))
      return address
    },
    memFree: (address) => {
      memory.delete(address)
      recorded.memFree(address)
    },
    hostAlloc: (bytes): Pinned => {
      const p = { address: nextHost, bytes: new Uint8Array(bytes) }
      nextHost += bytes + 4096
      host.set(p.address, p.bytes)
      return p
    },
    toDevice: (to, from, bytes) => bytesAt(to, bytes).set(pinned(from, bytes)),
    toHost: (to, from, bytes) => pinned(to, bytes).set(bytesAt(from, bytes)),
    copy: (to, from, bytes) => bytesAt(to, bytes).set(bytesAt(from, bytes).slice()),
    loadModule: (image) => {
      const module = recorded.loadModule(image)
      modules.set(module, new TextDecoder().decode(image))
      return module
    },
    getFunction: (module, name) => {
      const fn = recorded.getFunction(module, name)
      functions.set(fn, { name, source: modules.get(module) ?? '' })
      return fn
    },
    launch: (l) => {
      if (!('enqueue' in l)) recorded.launch(l)
      run(l)
    },
    makeGraph: (launches, after) => {
      const graph = recorded.makeGraph(
        launches.filter((l) => !('enqueue' in l)),
        [],
      )
      // Library calls are captured, one after another; kernels run in the order furthest from the list's that the edges allow.
      const order = launches.some((l) => 'enqueue' in l) ? [...launches.keys()] : lastFirst(after)
      const held = launches.map((l) => fake.stream.capture(() => run(l)))
      return {
        launch: () => {
          graph.launch()
          for (const i of order) for (const work of held[i] ?? []) work()
        },
        update: (changed) => {
          fake.calls.push(`update ${changed.join()}`)
          for (const i of changed) {
            const l = launches[i]
            if (l !== undefined) held[i] = fake.stream.capture(() => run(l))
          }
        },
        dispose: () => graph.dispose(),
      }
    },
  }
  return {
    driver: { ...fake.driver, open: () => context },
    compiler: fake.compiler,
    products,
    calls: fake.calls,
    tables: () => [...known.values()].filter((k) => (k.source.table ?? []).length > 0).length,
    learn: (program) => {
      for (const { step } of kernelsOf(program)) {
        const source = emitKernel(step.kernel, cudaTargetOf({ ...recorded.properties, hasLibrary: false }).simt)
        known.set(plain(commonCode(source).text), { kernel: step.kernel, source })
      }
    },
  }
}

/** Launches in an order that their edges allow: of those that may run, always the last one. */
function lastFirst(after: readonly (readonly number[])[]): number[] {
  const left = [...after.keys()]
  const order: number[] = []
  while (left.length > 0) {
    const at = left.findLastIndex((i) => (after[i] ?? []).every((j) => order.includes(j)))
    order.push(...left.splice(Math.max(0, at), 1))
  }
  return order
}
