/** Kernels on their way onto a device: asked for one by one, compiled beside each other, handed over as they come. */
import { commonCode, type KernelSource, type SourceCandidate } from '../../codegen/simt/kernel.ts'
import type { CompileOutcome, CompilePool, CudaCompiler, Finished } from './driver.ts'

/** The code that a source is compiled as. */
export interface Code {
  readonly source: KernelSource
  readonly text: string
  readonly entry: string
}

/** A kernel loaded on a device. */
export interface LoadedKernel {
  readonly fn: number
  /** What it is kept under. */
  readonly code: string
  readonly source: KernelSource
  /** Emitted again because it spilled: the form that its schedule has now, and the bytes a thread kept in memory before. */
  readonly replanned?: SourceCandidate['form'] & { readonly spilled: number }
}

/** Milliseconds that kernels took so far: emitted, waited for while they were compiled, loaded. */
export interface KernelTimes {
  emit: number
  compile: number
  load: number
}

/** Where kernels are that are loaded or on disk. */
export interface KernelStore {
  /** The kernel of a code that is there. */
  find(code: Code): LoadedKernel | undefined
  /** The kernel of a code that was compiled. */
  take(code: Code, outcome: CompileOutcome): LoadedKernel
  timed<T>(what: keyof KernelTimes, body: () => T): T
}

/** Who is handed a kernel. */
interface Asked {
  readonly source: KernelSource
  readonly take: (kernel: LoadedKernel) => void
}

/** A code that is compiled for all who ask for it. */
interface Pending {
  readonly code: Code
  readonly asked: Asked[]
}

/** Compilations one after another, where a compiler has no threads. */
export class PoolOfNone implements CompilePool {
  private readonly compiler: CudaCompiler
  private readonly options: readonly string[]
  private readonly jobs: { readonly source: string; readonly name: string }[] = []
  private done = 0

  constructor(compiler: CudaCompiler, options: readonly string[]) {
    this.compiler = compiler
    this.options = options
  }

  begin(job: { readonly source: string; readonly name: string }): number {
    return this.jobs.push(job) - 1
  }

  next(mayWait: boolean): Finished | undefined {
    const job = mayWait ? this.jobs[this.done] : undefined
    if (job === undefined) return undefined
    return { i: this.done++, outcome: this.compiler.compile(job.source, job.name, this.options) }
  }

  end(): void {}
}

export class Loading {
  private readonly cache: KernelStore
  private readonly open: () => CompilePool
  private pool: CompilePool | undefined
  /** By number, and by text. */
  private readonly begun: Pending[] = []
  private readonly pending = new Map<string, Pending>()

  constructor(cache: KernelStore, open: () => CompilePool) {
    this.cache = cache
    this.open = open
  }

  /** Asks for the kernel of a source, which `take` is handed: at once where there is one, else by `next` or `end`. */
  ask(source: KernelSource, take: (kernel: LoadedKernel) => void, isUrgent = false): void {
    const code = { ...commonCode(source), source }
    const asked = { source, take }
    const same = this.pending.get(code.text)
    if (same !== undefined) {
      same.asked.push(asked)
      return
    }
    const have = this.cache.find(code)
    if (have !== undefined) {
      take(have)
      return
    }
    this.pool ??= this.open()
    const made = { code, asked: [asked] }
    this.pending.set(code.text, made)
    this.begun[this.pool.begin({ source: code.text, name: `${code.entry}.cu` }, isUrgent)] = made
  }

  /** Hands over what is compiled by now. */
  next(): void {
    while (this.handOver(false));
  }

  /** Hands over all that was asked for, and what is asked for on the way. */
  end(): void {
    try {
      while (this.handOver(true));
    } finally {
      this.drop()
    }
  }

  /** Gives up what was asked for. */
  drop(): void {
    this.pool?.end()
    this.pool = undefined
  }

  private handOver(mayWait: boolean): boolean {
    const { cache, pool } = this
    if (pool === undefined || this.pending.size === 0) return false
    const finished = cache.timed('compile', () => pool.next(mayWait))
    const made = finished === undefined ? undefined : this.begun[finished.i]
    if (finished === undefined || made === undefined) return false
    this.pending.delete(made.code.text)
    const kernel = cache.take(made.code, finished.outcome)
    for (const { source, take } of made.asked) take({ ...kernel, source })
    return true
  }
}
