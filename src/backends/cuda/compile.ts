/** Kernels compiled and loaded: modules by source, in the process and on disk. */

import { createHash, randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { KernelSource } from '../../codegen/simt/kernel.ts'
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import { cacheFolderOf } from '../cacheFolder.ts'
import { makeFolder } from '../folders.ts'
import {
  type CompileOutcome,
  type CudaCompiler,
  type CudaContext,
  DriverError,
  type FunctionAttributes,
} from './driver.ts'
import { type Code, type KernelStore, type KernelTimes, type LoadedKernel, Loading, PoolOfNone } from './loading.ts'

/** What a kernel takes of the device. */
export interface KernelResources extends FunctionAttributes {
  readonly name: string
  readonly threads: number
  readonly blocks: number
  /** Blocks that run a program together. */
  readonly cluster: number
  /** Shared memory of a block, dynamic included. */
  readonly blockSharedBytes: number
  /** Threads a multiprocessor holds, of 2048. */
  readonly residentThreads: number
  readonly replanned?: LoadedKernel['replanned']
}

/** The user's cache folder for compiled kernels; undefined where SINTER_CACHE is `off`. */
export const cacheFolder = (): string | undefined =>
  cacheFolderOf({ env: process.env, platform: process.platform, home: homedir, join }, 'cuda')

/** The newest architecture the compiler knows of those whose code runs on a device: the same generation, no newer revision. */
export function architectureFor(capability: number, known: readonly number[]): number {
  if (known.length === 0) return capability
  const fit = known.filter((a) => Math.floor(a / 10) === Math.floor(capability / 10) && a <= capability)
  if (fit.length > 0) return Math.max(...fit)
  throw new UserError(
    'E_DEVICE',
    `this NVRTC makes no code for compute capability ${(capability / 10).toFixed(1)} (it knows ${known.join(', ')})`,
    { help: 'install the CUDA toolkit that came with the driver, or a later one' },
  )
}

export class KernelCache implements KernelStore {
  private readonly context: CudaContext
  private readonly compiler: CudaCompiler
  private readonly folder: string | undefined
  private readonly options: readonly string[]
  /** By code. */
  private readonly loaded = new Map<string, { readonly module: number; readonly fn: number; holders: number }>()
  /** Kernels compiled, and those found on disk. */
  compiled = 0
  found = 0
  readonly times: KernelTimes = { emit: 0, compile: 0, load: 0 }

  constructor(context: CudaContext, compiler: CudaCompiler, folder: string | undefined = cacheFolder()) {
    this.context = context
    this.compiler = compiler
    this.folder = folder
    const architecture = architectureFor(context.properties.capability, compiler.architectures)
    // Instructions of one generation alone (warp groups) are behind their own name.
    const own = architecture === 90 && context.properties.capability === 90 ? 'a' : ''
    this.options = [`--gpu-architecture=sm_${architecture}${own}`, '--std=c++17', '-default-device']
  }

  /** The kernel of a source, compiled if it is new. */
  load(source: KernelSource): LoadedKernel {
    const [made] = this.loadAll([source])
    if (made === undefined) throw new InternalError(`kernel ${source.entry} was not loaded`)
    return made
  }

  /** The kernels of sources in order; those that are new are compiled together. */
  loadAll(sources: readonly KernelSource[]): LoadedKernel[] {
    const made: LoadedKernel[] = []
    const loading = this.loading()
    sources.forEach((source, i) => {
      loading.ask(source, (kernel) => {
        made[i] = kernel
      })
    })
    loading.end()
    return made
  }

  /** Kernels that are asked for one by one. */
  loading(): Loading {
    const { compiler, options } = this
    return new Loading(this, () => compiler.pool?.(options) ?? new PoolOfNone(compiler, options))
  }

  /** The kernel of a code that is loaded or on disk. */
  find(code: Code): LoadedKernel | undefined {
    const { text, source } = code
    if (!this.loaded.has(text)) {
      const module = this.timed('load', () => this.kept(code))
      if (module === undefined) return undefined
      this.add(code, module)
    }
    const have = this.loaded.get(text)
    return have === undefined ? undefined : { fn: have.fn, code: text, source }
  }

  /** The kernel of a code that was compiled: loaded, and on disk from now on. */
  take(code: Code, { image, log }: CompileOutcome): LoadedKernel {
    const { source, text } = code
    if (image === undefined)
      throw new InternalError(`the CUDA code of kernel ${source.entry} does not compile:\n${log}\n\n${text}`)
    this.compiled++
    const file = this.fileOf(text)
    if (file !== undefined && this.folder !== undefined) write(this.folder, file, image)
    const module = this.timed('load', () => this.context.loadModule(image))
    return { fn: this.add(code, module), code: text, source }
  }

  /** One more program holds a kernel; gives what `letGo` is told. */
  hold({ code }: LoadedKernel): string {
    const have = this.loaded.get(code)
    if (have === undefined) throw new InternalError('a kernel that is not loaded is held')
    have.holders++
    return code
  }

  /** One program less holds a kernel; its module goes with the last. */
  readonly letGo = (code: string): void => {
    const have = this.loaded.get(code)
    if (have === undefined || --have.holders > 0) return
    this.unload(code, have.module)
  }

  /** Unloads what was loaded to be tried, and is held by nobody. */
  sweep(): void {
    for (const [code, { module, holders }] of this.loaded) if (holders === 0) this.unload(code, module)
  }

  /** Modules that are loaded. */
  get modules(): number {
    return this.loaded.size
  }

  private unload(code: string, module: number): void {
    this.loaded.delete(code)
    // What was launched may still run.
    this.context.synchronize()
    this.context.unloadModule(module)
  }

  /** Bytes a thread keeps in local memory because registers are too few. */
  spills({ fn, source }: LoadedKernel): number {
    return Math.max(0, this.context.attributes(fn).localBytes - localBytesOf(source.source))
  }

  timed<T>(what: keyof KernelTimes, body: () => T): T {
    const start = performance.now()
    try {
      return body()
    } finally {
      this.times[what] += performance.now() - start
    }
  }

  resources({ fn, source, replanned }: LoadedKernel): KernelResources {
    const a = this.context.attributes(fn)
    const blocks = this.context.occupancy(fn, source.threads, source.dynamicSharedBytes)
    return {
      ...a,
      name: source.entry,
      threads: source.threads,
      blocks: source.programs * source.cluster,
      cluster: source.cluster,
      blockSharedBytes: a.sharedBytes + source.dynamicSharedBytes,
      residentThreads: blocks * source.threads,
      ...(replanned === undefined ? {} : { replanned }),
    }
  }

  private add({ source, text, entry }: Code, module: number): number {
    const fn = this.context.getFunction(module, entry)
    if (source.dynamicSharedBytes > 0) this.context.allowSharedBytes(fn, source.dynamicSharedBytes)
    this.loaded.set(text, { module, fn, holders: 0 })
    return fn
  }

  /** The module of a code that is on disk. */
  private kept({ text }: Code): number | undefined {
    const file = this.fileOf(text)
    const image = file === undefined ? undefined : read(file)
    if (image === undefined) return undefined
    try {
      const module = this.context.loadModule(image)
      this.found++
      return module
    } catch (e) {
      // A damaged file: compile again and replace it.
      if (!(e instanceof DriverError)) throw e
      return undefined
    }
  }

  private fileOf(source: string): string | undefined {
    if (this.folder === undefined) return undefined
    const key = createHash('sha256')
      .update([this.compiler.version, ...this.options, source].join('\n'))
      .digest('hex')
    return join(this.folder, `${key}.cubin`)
  }

  dispose(): void {
    for (const { module } of this.loaded.values()) this.context.unloadModule(module)
    this.loaded.clear()
  }
}

/** Local memory of library functions: arguments of trigonometric functions are reduced in an array; calls have frames. */
const localBytesOf = (source: string): number =>
  (/\b(sin|cos|tan)f?\(/.test(source) ? 48 : 0) + (source.includes('__noinline__') ? 64 : 0)

function read(file: string): Uint8Array | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}

/** Other processes see the whole file or none. A cache that cannot be written is no error. */
function write(folder: string, file: string, image: Uint8Array): void {
  const partial = `${file}.${randomUUID()}`
  try {
    makeFolder(folder)
    writeFileSync(partial, image)
    renameSync(partial, file)
  } catch {
    rmSync(partial, { force: true })
  }
}
