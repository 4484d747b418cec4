/**
 * Worker threads on the backend's memory. Workers wait on a cell of shared memory; a job is a kernel's grid, of which the
 * calling thread and the workers take chunks by an atomic counter.
 */
import { UserError } from '../../diagnostics/errors.ts'
import { type NodeWorker, type WorkerThreads, workerThreads } from './host.ts'

export type KernelFunction = (params: number, start: number, end: number, scratch: number) => void

/** Cells (i32) of the control block. */
const cell = { module: 0, step: 1, params: 2, total: 3, chunk: 4, next: 5 } as const
/** Modules that a worker may have let go of, and its engine kept, before the engine is made to collect. */
const mostDropped = 64
/** Each worker has cells of its own from here on: the job it shall do, the last it did, its scratch, whether it is up. */
const workerCells = 16
const cellsPerWorker = 16
const own = { job: 0, done: 1, scratch: 2, ready: 3 } as const
export const maxWorkers = 63
export const controlBytes = 4 * (workerCells + cellsPerWorker * maxWorkers)

/** What runs in a worker: plain JavaScript, so that it needs no file of its own. */
const workerSource = `
const { workerData, parentPort, receiveMessageOnPort } = require('node:worker_threads')
const { memory, control, index, port } = workerData
const cells = new Int32Array(memory.buffer, control, ${controlBytes / 4})
const base = ${workerCells} + ${cellsPerWorker} * index
const instances = new Map()
let dropped = 0
// Little is allocated here, so that the engine would not collect for hours: it does for buffers of this size, of which nothing is touched.
const collect = () => {
  dropped = 0
  try {
    for (let i = 0; i < 4; i++) new ArrayBuffer(1 << 26)
  } catch {
    // Where so much may not even be reserved, the engine has collected before it refused.
  }
}
const stepsOf = (id) => {
  for (let m = receiveMessageOnPort(port); m !== undefined; m = receiveMessageOnPort(port)) {
    const { id, module, drop } = m.message
    if (!drop) instances.set(id, module)
    else if (instances.delete(id) && ++dropped === ${mostDropped}) collect()
  }
  let found = instances.get(id)
  if (found instanceof WebAssembly.Module) {
    const imports = { env: { memory } }
    for (const i of WebAssembly.Module.imports(found))
      if (i.kind === 'function') (imports[i.module] ??= {})[i.name] = Math[i.name] ?? (() => { throw new Error(i.name + ' runs on the main thread') })
    found = new WebAssembly.Instance(found, imports).exports
    instances.set(id, found)
  }
  return found
}
let seen = 0
Atomics.store(cells, base + ${own.ready}, 1)
Atomics.notify(cells, base + ${own.ready})
for (;;) {
  Atomics.wait(cells, base + ${own.job}, seen)
  const job = Atomics.load(cells, base + ${own.job})
  if (job === seen) continue
  seen = job
  if (job < 0) break
  const run = stepsOf(cells[${cell.module}])['k' + cells[${cell.step}]]
  const params = cells[${cell.params}], total = cells[${cell.total}], chunk = cells[${cell.chunk}]
  const scratch = cells[base + ${own.scratch}]
  for (;;) {
    const at = Atomics.add(cells, ${cell.next}, chunk)
    if (at >= total) break
    run(params >>> 0, at, Math.min(at + chunk, total), scratch >>> 0)
  }
  Atomics.store(cells, base + ${own.done}, job)
  Atomics.notify(cells, base + ${own.done})
}
`

interface PortPair {
  readonly port1: MessagePortLike
  readonly port2: unknown
}

interface MessagePortLike {
  postMessage(message: unknown): void
  unref(): void
  close(): void
}

interface Member {
  readonly worker: NodeWorker
  readonly port: MessagePortLike
  readonly base: number
  /** Modules it was sent. */
  readonly sent: Set<number>
  alive: boolean
}

export interface PoolOptions {
  readonly memory: WebAssembly.Memory
  /** Address of the control block. */
  readonly control: number
  readonly workers: number
  /** Milliseconds to wait for a worker that should have finished. */
  readonly patience: number
}

export class Pool {
  private readonly options: PoolOptions
  private readonly threads: WorkerThreads & { readonly MessageChannel: new () => PortPair }
  private members: Member[] = []
  private job = 0
  private cells: Int32Array
  private readonly modules = new Map<number, WebAssembly.Module>()

  constructor(options: PoolOptions, threads: WorkerThreads) {
    this.options = options
    this.threads = threads as WorkerThreads & { readonly MessageChannel: new () => PortPair }
    this.cells = new Int32Array(options.memory.buffer, options.control, controlBytes / 4)
  }

  /** A pool, where the host has threads and shared memory. */
  static create(options: PoolOptions): Pool | undefined {
    const threads = workerThreads()
    if (threads === undefined || !(options.memory.buffer instanceof SharedArrayBuffer)) return undefined
    return new Pool(options, threads)
  }

  /** Modules go to the workers when a kernel of theirs is shared for the first time. */
  addModule(id: number, module: WebAssembly.Module): void {
    this.modules.set(id, module)
  }

  /** A worker lets a module go when it reads what it was sent, before its next job. */
  removeModule(id: number): void {
    this.modules.delete(id)
    for (const m of this.members) if (m.sent.delete(id)) m.port.postMessage({ id, drop: true })
  }

  private start(): void {
    this.members = Array.from({ length: this.options.workers }, (_, index) => {
      const base = workerCells + cellsPerWorker * index
      for (let i = 0; i < cellsPerWorker; i++) Atomics.store(this.cells, base + i, 0)
      const { port1, port2 } = new this.threads.MessageChannel()
      const worker = new this.threads.Worker(workerSource, {
        eval: true,
        name: `sinter-${index}`,
        workerData: { memory: this.options.memory, control: this.options.control, index, port: port2 },
        transferList: [port2],
      } as ConstructorParameters<WorkerThreads['Worker']>[1])
      const member: Member = { worker, port: port1, base, sent: new Set(), alive: true }
      worker.on('exit', () => {
        member.alive = false
      })
      worker.on('error', () => {
        member.alive = false
      })
      worker.unref()
      port1.unref()
      return member
    })
    this.job = 0
  }

  /** Workers that are up; started if there are none, replaced if one has died. */
  private ready(): Member[] {
    if (this.members.some((m) => !m.alive)) this.stop()
    if (this.members.length === 0) this.start()
    return this.members.filter((m) => Atomics.load(this.cells, m.base + own.ready) === 1)
  }

  /** Starts the workers before they are needed. */
  warm(): void {
    this.ready()
  }

  /**
   * Runs programs [0, total) of a step's kernel on this thread and all workers that are up. `scratchOf(i)` is the scratch
   * of worker i. Throws E_WORKER_LOST when a worker does not finish; the pool is rebuilt by the next call.
   */
  run(
    kernel: KernelFunction,
    moduleId: number,
    step: number,
    params: number,
    total: number,
    scratch: number,
    scratchOf: (worker: number) => number,
  ): void {
    const members = this.ready()
    const { cells } = this
    const chunk = Math.max(1, Math.floor(total / ((members.length + 1) * 8)))
    if (members.length === 0) {
      for (let at = 0; at < total; at += chunk) kernel(params, at, Math.min(at + chunk, total), scratch)
      return
    }
    cells[cell.module] = moduleId
    cells[cell.step] = step
    cells[cell.params] = params
    cells[cell.total] = total
    cells[cell.chunk] = chunk
    Atomics.store(cells, cell.next, 0)
    const module = this.modules.get(moduleId)
    for (const m of members) {
      cells[m.base + own.scratch] = scratchOf((m.base - workerCells) / cellsPerWorker)
      if (m.sent.has(moduleId)) continue
      m.sent.add(moduleId)
      m.port.postMessage({ id: moduleId, module })
    }
    this.begin(members)
    let longest = 0
    for (;;) {
      const at = Atomics.add(cells, cell.next, chunk)
      if (at >= total) break
      const from = performance.now()
      kernel(params, at, Math.min(at + chunk, total), scratch)
      longest = Math.max(longest, performance.now() - from)
    }
    const patience = this.options.patience + 50 * longest
    for (const m of members) this.await(m, patience)
  }

  /** Starts the job that the cells tell. */
  private begin(members: readonly Member[]): void {
    this.job = (this.job + 1) & 0x3fffffff
    for (const m of members) {
      Atomics.store(this.cells, m.base + own.job, this.job)
      Atomics.notify(this.cells, m.base + own.job)
    }
  }

  private await(m: Member, patience: number): void {
    const at = m.base + own.done
    const from = performance.now()
    for (let spins = 0; ; spins++) {
      const done = Atomics.load(this.cells, at)
      if (done === this.job) return
      if (spins < 2000) continue
      const left = patience - (performance.now() - from)
      if (left <= 0) this.lost(patience)
      Atomics.wait(this.cells, at, done, Math.min(left, 1000))
    }
  }

  private lost(patience: number): never {
    this.stop()
    throw new UserError('E_WORKER_LOST', `a worker thread did not finish within ${Math.round(patience)} ms`, {
      help: 'run the program again: the threads are started anew (outputs of the failed run are lost)',
    })
  }

  /** Ends the workers. */
  stop(): void {
    for (const m of this.members) {
      m.alive = false
      Atomics.store(this.cells, m.base + own.job, -1)
      Atomics.notify(this.cells, m.base + own.job)
      m.port.close()
      void m.worker.terminate()
    }
    this.members = []
    // A worker that is still busy keeps the old control block's counters: it must find no work left.
    Atomics.store(this.cells, cell.next, 0x7fffff00)
  }

  /** Whether all workers are up. */
  get isUp(): boolean {
    return this.members.length > 0 && this.members.every((m) => Atomics.load(this.cells, m.base + own.ready) === 1)
  }

  /** The worker threads themselves (tests make one die). */
  get workers(): readonly NodeWorker[] {
    return this.members.map((m) => m.worker)
  }
}
