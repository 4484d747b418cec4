/**
 * Many compilations at once: the calling thread and worker threads take jobs off one counter. The caller blocks meanwhile, so
 * results come back through a port that is read without a turn of the event loop.
 */
import { availableParallelism } from 'node:os'
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { CompileOutcome } from './driver.ts'

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
const mostThreads = 15
/** Without any result for so long, what is missing is compiled here. */
const patienceMs = 60_000

/** Cells of the shared counter: the next job, and jobs that are done. */
const [next, done] = [0, 1]

const workerSource = (code: string): string => `
const { workerData } = require('node:worker_threads')
const { setup, jobs, options, cells, port } = workerData
const counter = new Int32Array(cells)
${code}
for (let i; (i = Atomics.add(counter, ${next}, 1)) < jobs.length; ) {
  let outcome
  try {
    outcome = compile(jobs[i].source, jobs[i].name, options)
  } catch (e) {
    outcome = { image: undefined, log: String(e) }
  }
  port.postMessage({ i, outcome })
  Atomics.add(counter, ${done}, 1)
  Atomics.notify(counter, ${done})
}
`

/** The outcome of each job. */
export function compileOnThreads(
  jobs: readonly Compilation[],
  options: readonly string[],
  threads: Threads,
): CompileOutcome[] {
  const count = Math.min(jobs.length - 1, availableParallelism() - 1, mostThreads)
  if (count < 1) return jobs.map(threads.here)
  const cells = new SharedArrayBuffer(8)
  const counter = new Int32Array(cells)
  const found = new Map<number, CompileOutcome>()
  const ports = Array.from({ length: count }, () => {
    const { port1, port2 } = new MessageChannel()
    const worker = new Worker(workerSource(threads.code), {
      eval: true,
      name: 'sinter-compile',
      workerData: { setup: threads.setup, jobs, options, cells, port: port2 },
      transferList: [port2],
    })
    // A thread that does not start takes no job.
    worker.on('error', () => {})
    worker.unref()
    return port1
  })
  const collect = (): void => {
    for (const port of ports)
      for (let m = receiveMessageOnPort(port); m !== undefined; m = receiveMessageOnPort(port)) {
        const { i, outcome } = m.message as { readonly i: number; readonly outcome: CompileOutcome }
        found.set(i, outcome)
      }
  }
  try {
    for (let i = Atomics.add(counter, next, 1); i < jobs.length; i = Atomics.add(counter, next, 1)) {
      const job = jobs[i]
      if (job !== undefined) found.set(i, threads.here(job))
      Atomics.add(counter, done, 1)
    }
    for (;;) {
      const finished = Atomics.load(counter, done)
      collect()
      if (finished >= jobs.length || Atomics.wait(counter, done, finished, patienceMs) === 'timed-out') break
    }
    collect()
  } finally {
    for (const port of ports) port.close()
  }
  return jobs.map((job, i) => found.get(i) ?? threads.here(job))
}
