/** The CUDA driver API through the FFI library, behind the interface of `driver.ts`. */
import { UserError } from '../../diagnostics/errors.ts'
import { type CallName, Calls } from './calls.ts'
import {
  type Arguments,
  type CudaContext,
  type CudaDriver,
  type DeviceProperties,
  DriverError,
  type FunctionAttributes,
  type GraphRun,
  isOutOfMemory,
  type Launch,
  type Pinned,
  type StreamWork,
} from './driver.ts'
import { loadDriverLibrary, loadFfi, type NativeArgument } from './library.ts'

const attribute = { multiprocessors: 16, l2Bytes: 38, major: 75, minor: 76, sharedOptin: 97 } as const
const functionAttribute = { maxThreads: 0, shared: 1, local: 3, registers: 4, maxDynamicShared: 8 } as const

const notReady = 600
/** CU_STREAM_CAPTURE_MODE_RELAXED: what a library asks of the driver meanwhile is not held against it. */
const relaxed = 2

/** Opens the driver. Throws E_DEVICE where there is none. */
export function openDriver(): CudaDriver {
  const ffi = loadFfi()
  const calls = new Calls(ffi, loadDriverLibrary(ffi))
  try {
    calls.call('cuInit', 0)
    const version = calls.integer('cuDriverGetVersion')
    const count = calls.integer('cuDeviceGetCount')
    const devices = (): DeviceProperties[] => Array.from({ length: count }, (_, i) => propertiesOf(calls, i))
    return { version, devices, open: (index) => new Context(calls, propertiesOf(calls, index)) }
  } catch (e) {
    if (!(e instanceof DriverError)) throw e
    throw new UserError('E_DEVICE', `the NVIDIA driver does not start: ${e.message}`, {
      help: 'nvidia-smi shows whether the driver sees a GPU',
      cause: e,
    })
  }
}

function propertiesOf(calls: Calls, index: number): DeviceProperties {
  const device = calls.integer('cuDeviceGet', index)
  const name = new Uint8Array(256)
  calls.call('cuDeviceGetName', name, 256, device)
  const get = (a: number): number => calls.integer('cuDeviceGetAttribute', a, device)
  return {
    index,
    name: new TextDecoder().decode(name.slice(0, name.indexOf(0))),
    capability: 10 * get(attribute.major) + get(attribute.minor),
    multiprocessors: get(attribute.multiprocessors),
    memory: calls.handle('cuDeviceTotalMem_v2', device),
    sharedBytes: get(attribute.sharedOptin),
    l2Bytes: get(attribute.l2Bytes),
  }
}

/** Values, and behind them the addresses of the values, as the driver wants arguments. */
class NativeArguments implements Arguments {
  readonly length: number
  /** Address of the table of addresses. */
  readonly table: number
  private readonly words: Uint32Array

  constructor(calls: Calls, length: number) {
    this.length = length
    const memory = new ArrayBuffer(Math.max(16 * length, 128))
    this.words = new Uint32Array(memory)
    const start = calls.address(this.words)
    this.table = start + 8 * length
    for (let i = 0; i < length; i++) this.set(length + i, start + 8 * i)
  }

  set(i: number, value: number): void {
    this.words[2 * i] = value >>> 0
    this.words[2 * i + 1] = Math.floor(value / 2 ** 32)
  }
}

const tableOf = (args: Arguments): number => {
  if (args instanceof NativeArguments) return args.table
  throw new TypeError('arguments of another driver')
}

interface BuiltGraph {
  readonly graph: number
  readonly nodes: readonly number[]
  readonly exec: number
}

let current: Context | undefined

class Context implements CudaContext {
  readonly properties: DeviceProperties
  private readonly calls: Calls
  private readonly context: number
  private readonly stream: number
  /** The driver has edges of graphs along which a kernel starts before the other has ended. */
  private startsEarly: boolean

  constructor(calls: Calls, properties: DeviceProperties) {
    this.calls = calls
    this.properties = properties
    this.context = calls.handle('cuDevicePrimaryCtxRetain', calls.integer('cuDeviceGet', properties.index))
    this.activate()
    this.stream = calls.handle('cuStreamCreate', 1)
    this.startsEarly = calls.has('cuGraphAddDependencies_v2')
  }

  activate(): void {
    if (current === this) return
    this.calls.call('cuCtxSetCurrent', this.context)
    current = this
  }

  private call(name: CallName, ...args: readonly NativeArgument[]): void {
    this.activate()
    this.calls.call(name, ...args)
  }

  private handle(name: CallName, ...args: readonly NativeArgument[]): number {
    this.activate()
    return this.calls.handle(name, ...args)
  }

  memAlloc(bytes: number): number {
    return this.handle('cuMemAlloc_v2', bytes)
  }

  memFree(address: number): void {
    this.call('cuMemFree_v2', address)
  }

  memInfo(): { free: number; total: number } {
    const out = new BigUint64Array(2)
    this.call('cuMemGetInfo_v2', out.subarray(0, 1), out.subarray(1, 2))
    return { free: Number(out[0]), total: Number(out[1]) }
  }

  hostAlloc(bytes: number): Pinned {
    const address = this.handle('cuMemHostAlloc', bytes, 0)
    return { address, bytes: new Uint8Array(this.calls.ffi.view(BigInt(address), bytes)) }
  }

  hostFree(p: Pinned): void {
    this.call('cuMemFreeHost', p.address)
  }

  toDevice(to: number, from: number, bytes: number): void {
    this.call('cuMemcpyHtoDAsync_v2', to, from, bytes, this.stream)
  }

  toHost(to: number, from: number, bytes: number): void {
    this.call('cuMemcpyDtoHAsync_v2', to, from, bytes, this.stream)
  }

  copy(to: number, from: number, bytes: number): void {
    this.call('cuMemcpyDtoDAsync_v2', to, from, bytes, this.stream)
  }

  synchronize(): void {
    this.call('cuStreamSynchronize', this.stream)
  }

  createEvent(): number {
    return this.handle('cuEventCreate', 0)
  }

  record(event: number): void {
    this.call('cuEventRecord', event, this.stream)
  }

  waitFor(event: number): void {
    this.call('cuEventSynchronize', event)
  }

  isDone(event: number): boolean {
    this.activate()
    const code = this.calls.fn('cuEventQuery')(event)
    if (code !== 0 && code !== notReady) this.calls.fail('cuEventQuery', code)
    return code === 0
  }

  elapsed(from: number, to: number): number {
    const out = new Float32Array(1)
    this.call('cuEventElapsedTime', out, from, to)
    return out[0] ?? 0
  }

  destroyEvent(event: number): void {
    this.call('cuEventDestroy_v2', event)
  }

  loadModule(image: Uint8Array): number {
    return this.handle('cuModuleLoadData', image)
  }

  unloadModule(module: number): void {
    this.call('cuModuleUnload', module)
  }

  getFunction(module: number, name: string): number {
    return this.handle('cuModuleGetFunction', module, name)
  }

  attributes(fn: number): FunctionAttributes {
    this.activate()
    const get = (a: number): number => this.calls.integer('cuFuncGetAttribute', a, fn)
    return {
      registers: get(functionAttribute.registers),
      localBytes: get(functionAttribute.local),
      sharedBytes: get(functionAttribute.shared),
      maxThreads: get(functionAttribute.maxThreads),
    }
  }

  allowSharedBytes(fn: number, bytes: number): void {
    this.call('cuFuncSetAttribute', fn, functionAttribute.maxDynamicShared, bytes)
  }

  occupancy(fn: number, threads: number, sharedBytes: number): number {
    this.activate()
    return this.calls.integer('cuOccupancyMaxActiveBlocksPerMultiprocessor', fn, threads, sharedBytes)
  }

  makeArguments(length: number): Arguments {
    return new NativeArguments(this.calls, length)
  }

  launch(l: StreamWork): void {
    if ('enqueue' in l) {
      this.activate()
      l.enqueue(this.stream)
      return
    }
    this.call(
      'cuLaunchKernel',
      l.fn,
      l.grid,
      l.rows ?? 1,
      1,
      l.threads,
      1,
      1,
      l.sharedBytes,
      this.stream,
      tableOf(l.args),
      0,
    )
  }

  makeGraph(launches: readonly StreamWork[], after: readonly (readonly number[])[]): GraphRun {
    this.activate()
    const kernels = launches.flatMap((l) => ('enqueue' in l ? [] : [l]))
    return kernels.length < launches.length ? this.capturedGraph(launches) : this.kernelGraph(kernels, after)
  }

  /** The graph of what launches put on the stream, none of which runs. */
  private capture(launches: readonly StreamWork[]): number {
    const graph = new BigUint64Array(1)
    this.call('cuStreamBeginCapture_v2', this.stream, relaxed)
    let failed: { readonly error: unknown } | undefined
    try {
      for (const l of launches) this.launch(l)
    } catch (error) {
      failed = { error }
    }
    // The stream must leave the capture, whatever happened.
    const code = this.calls.fn('cuStreamEndCapture')(this.stream, graph)
    const made = Number(graph[0])
    if (failed !== undefined) {
      if (code === 0 && made !== 0) this.call('cuGraphDestroy', made)
      throw failed.error
    }
    if (code !== 0) this.calls.fail('cuStreamEndCapture', code)
    return made
  }

  private instantiate(graph: number): number {
    try {
      return this.handle('cuGraphInstantiateWithFlags', graph, 0)
    } catch (e) {
      this.call('cuGraphDestroy', graph)
      throw e
    }
  }

  /** A graph with library calls, whose nodes only the library knows: other arguments are captured again. */
  private capturedGraph(launches: readonly StreamWork[]): GraphRun {
    const { calls, stream } = this
    let graph = this.capture(launches)
    let exec = this.instantiate(graph)
    return {
      launch: () => this.call('cuGraphLaunch', exec, stream),
      update: () => {
        const next = this.capture(launches)
        this.call('cuGraphDestroy', graph)
        graph = next
        if (calls.fn('cuGraphExecUpdate_v2')(exec, graph, new Uint8Array(new ArrayBuffer(72))) === 0) return
        // The library took other kernels.
        this.call('cuGraphExecDestroy', exec)
        exec = 0
        exec = this.instantiate(graph)
      },
      dispose: () => {
        // Where it could not be made again, the graph went with it.
        if (exec === 0) return
        this.call('cuGraphExecDestroy', exec)
        this.call('cuGraphDestroy', graph)
      },
    }
  }

  /**
   * A graph of kernels ready to run. All edges into a kernel that waits by itself are programmatic where `early` says so: such a
   * kernel may start before those it follows have ended.
   */
  private builtGraph(launches: readonly Launch[], after: readonly (readonly number[])[], early: boolean): BuiltGraph {
    const { calls } = this
    const graph = calls.handle('cuGraphCreate', 0)
    const nodes: number[] = []
    try {
      launches.forEach((l, i) => {
        const before = BigUint64Array.from(after[i] ?? [], (j) => BigInt(nodes[j] ?? 0))
        const programmatic = early && l.waits && before.length > 0
        const node = calls.handle(
          'cuGraphAddKernelNode',
          graph,
          before,
          programmatic ? 0 : before.length,
          nodeParameters(l),
        )
        nodes.push(node)
        if (!programmatic) return
        const to = new BigUint64Array(before.length).fill(BigInt(node))
        calls.call('cuGraphAddDependencies_v2', graph, before, to, programmaticEdges(before.length), before.length)
      })
    } catch (e) {
      calls.call('cuGraphDestroy', graph)
      throw e
    }
    return { graph, nodes, exec: this.instantiate(graph) }
  }

  private build(launches: readonly Launch[], after: readonly (readonly number[])[]): BuiltGraph {
    if (!this.startsEarly || !launches.some((l) => l.waits)) return this.builtGraph(launches, after, false)
    try {
      return this.builtGraph(launches, after, true)
    } catch (e) {
      if (!(e instanceof DriverError) || isOutOfMemory(e)) throw e
      const built = this.builtGraph(launches, after, false)
      // The driver takes the graph without such edges: no more of them.
      this.startsEarly = false
      return built
    }
  }

  private kernelGraph(launches: readonly Launch[], after: readonly (readonly number[])[]): GraphRun {
    const { graph, nodes, exec } = this.build(launches, after)
    return {
      launch: () => this.call('cuGraphLaunch', exec, this.stream),
      update: (changed) => {
        for (const i of changed) {
          const [node, l] = [nodes[i], launches[i]]
          if (node !== undefined && l !== undefined)
            this.call('cuGraphExecKernelNodeSetParams', exec, node, nodeParameters(l))
        }
      },
      dispose: () => {
        this.call('cuGraphExecDestroy', exec)
        this.call('cuGraphDestroy', graph)
      },
    }
  }

  dispose(): void {
    this.synchronize()
    this.call('cuStreamDestroy_v2', this.stream)
    this.calls.call('cuDevicePrimaryCtxRelease_v2', this.calls.integer('cuDeviceGet', this.properties.index))
    if (current === this) current = undefined
  }
}

/** CUDA_KERNEL_NODE_PARAMS (version 1): function, grid, block, shared bytes, table of arguments. */
function nodeParameters(l: Launch): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(72))
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(l.fn), true)
  const dims = [l.grid, l.rows ?? 1, 1, l.threads, 1, 1, l.sharedBytes]
  for (const [i, d] of dims.entries()) view.setUint32(8 + 4 * i, d, true)
  view.setBigUint64(40, BigInt(tableOf(l.args)), true)
  return bytes
}

/** CUgraphEdgeData of edges of the programmatic type: from_port, to_port, type, reserved[5]. */
function programmaticEdges(count: number): Uint8Array {
  const [port, type] = [1, 1]
  const bytes = new Uint8Array(8 * count)
  for (let i = 0; i < count; i++) bytes.set([port, 0, type], 8 * i)
  return bytes
}
