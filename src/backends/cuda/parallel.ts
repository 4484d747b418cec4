/**
 * Many compilations at once, asked for one by one: worker threads compile while the caller writes the next source, looks at what has come back, and asks
 * for more. The caller blocks when it waits, so jobs and outcomes go through ports that are read without a turn of the event loop.
 */
import { availableParallelism } from 'node:os'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { CompileOutcome, CompilePool, Finished } from './driver.ts'

export interface Compilation {
  readonly source: string
  readonly name: string
}

export interface Threads {
  /** CommonJS that defines `compile(source, name, options)` from `setup` and `require`. */
  readonly code: string
  readonly setup: unknown
  /** The same on the calling thread. */
  readonly here: (job: Compilation) => CompileOutcome
}

/** A thread starts in the time of a fraction of a compilation. */
const mostThreads = 16
/** Without any outcome for so long, what is missing is compiled here. */
const patienceMs = 60_000

/** The first cell counts what threads told; behind it each thread has one that counts what it was sent. */
const told = 0

const workerSource = (code: string): string => `
const { receiveMessageOnPort, workerData } = require('node:worker_threads')
const { setup, options, cells, number, port } = workerData
const counter = new Int32Array(cells)
${code}
const tell = (message) => {
  port.postMessage(message)
  Atomics.add(counter, ${told}, 1)
  Atomics.notify(counter, ${told})
}
tell({ ready: true })
for (let isOpen = true; isOpen; ) {
  const sent = Atomics.load(counter, number)
  const received = receiveMessageOnPort(port)
  if (received === undefined) {
    Atomics.wait(counter, number, sent)
    continue
  }
  const { job } = received.message
  isOpen = job !== undefined
  if (!isOpen) break
  let outcome
  try {
    outcome = compile(job.source, job.name, options)
  } catch (e) {
    outcome = { image: undefined, log: String(e) }
  }
  tell({ i: job.i, outcome })
}
port.close()
`

interface Job extends Compilation {
  readonly i: number
  readonly isUrgent: boolean
}

interface Thread {
  readonly number: number
  readonly port: MessagePort
  /** A thread that did not start is given no job. */
  isReady: boolean
  job: Job | undefined
}

type Message = { readonly ready: true } | Finished

/** Of jobs that wait, those that others waited for, then the longest: what is left for the end is short. */
const isBefore = (a: Job, b: Job): boolean =>
  a.isUrgent === b.isUrgent ? a.source.length > b.source.length : a.isUrgent

class ThreadPool implements CompilePool {
  private readonly options: readonly string[]
  private readonly code: Threads
  private readonly most: number
  private readonly cells: SharedArrayBuffer
  private readonly counter: Int32Array
  private readonly threads: Thread[] = []
  /** Jobs by number that no outcome is known of, and those of them that nobody has begun with. */
  private readonly open = new Map<number, Job>()
  private readonly waiting = new Set<Job>()
  private readonly found: Finished[] = []
  private asked = 0

  constructor(options: readonly string[], code: Threads) {
    this.options = options
    this.code = code
    this.most = Math.min(availableParallelism(), mostThreads)
    this.cells = new SharedArrayBuffer(4 * (this.most + 1))
    this.counter = new Int32Array(this.cells)
  }

  begin({ source, name }: Compilation, isUrgent = false): number {
    const job = { i: this.asked++, source, name, isUrgent }
    this.open.set(job.i, job)
    this.waiting.add(job)
    // One alone is compiled here.
    if (this.most > 1 && this.open.size > 1 && this.threads.length < Math.min(this.most, this.open.size)) this.start()
    this.collect()
    return job.i
  }

  next(mayWait: boolean): Finished | undefined {
    for (;;) {
      const seen = Atomics.load(this.counter, told)
      this.collect()
      const have = this.found.shift()
      if (have !== undefined || !mayWait || this.open.size === 0) return have
      if (!this.threads.some((t) => t.isReady)) {
        // Until threads are there, short ones.
        const job = this.taken((a, b) => isBefore(b, a))
        if (job !== undefined) return this.compiledHere(job)
      }
      if (Atomics.wait(this.counter, told, seen, patienceMs) !== 'timed-out') continue
      this.collect()
      const [late] = this.open.values()
      if (this.found.length === 0 && late !== undefined) return this.compiledHere(late)
    }
  }

  end(): void {
    for (const t of this.threads) {
      this.send(t, {})
      t.port.unref()
    }
    this.threads.length = 0
  }

  private compiledHere(job: Job): Finished {
    this.waiting.delete(job)
    const outcome = this.code.here(job)
    this.open.delete(job.i)
    return { i: job.i, outcome }
  }

  private start(): void {
    const { code, setup } = this.code
    const { port1, port2 } = new MessageChannel()
    const number = this.threads.length + 1
    const worker = new Worker(workerSource(code), {
      eval: true,
      name: 'sinter-compile',
      workerData: { setup, options: this.options, cells: this.cells, number, port: port2 },
      transferList: [port2],
    })
    worker.on('error', () => {})
    worker.unref()
    this.threads.push({ number, port: port1, isReady: false, job: undefined })
  }

  /** Takes what threads told, and gives those that are free the next job. */
  private collect(): void {
    for (const t of this.threads) {
      for (let m = receiveMessageOnPort(t.port); m !== undefined; m = receiveMessageOnPort(t.port)) {
        const message = m.message as Message
        if ('ready' in message) t.isReady = true
        else {
          t.job = undefined
          if (this.open.delete(message.i)) this.found.push(message)
        }
      }
      if (!t.isReady || t.job !== undefined) continue
      t.job = this.taken(isBefore)
      if (t.job !== undefined) this.send(t, { job: t.job })
    }
  }

  /** The first of the jobs that wait, in an order; nobody else takes it. */
  private taken(isFirst: (a: Job, b: Job) => boolean): Job | undefined {
    let first: Job | undefined
    for (const job of this.waiting) if (first === undefined || isFirst(job, first)) first = job
    if (first !== undefined) this.waiting.delete(first)
    return first
  }

  private send({ number, port }: Thread, message: { readonly job?: Job }): void {
    port.postMessage(message)
    Atomics.add(this.counter, number, 1)
    Atomics.notify(this.counter, number)
  }
}

/** Compilations with the same options, on threads. */
export const poolOfThreads = (options: readonly string[], threads: Threads): CompilePool =>
  new ThreadPool(options, threads)
