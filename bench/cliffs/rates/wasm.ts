/** Bandwidth and arithmetic from WebAssembly, on as many threads as are measured: each runs the same loop over its part of a working set. */
import { Worker } from 'node:worker_threads'
import type { Bandwidth } from '../rates.ts'
import { type LoopName, loops, moduleOf, turnOperations } from './assemble.ts'

type Loop = (to: number, from: number, other: number, bytes: number, repeats: number) => void

/** Cells of the block that threads share: the job, who is done, the loop, bytes and repeats. */
const cell = { job: 0, done: 1, loop: 2, bytes: 3, repeats: 4, parts: 5 } as const
const controlBytes = 64
const pageBytes = 65536
/** The largest working set. A thread has its share of it, in one to three parts. */
const mostBytes = 256 << 20

/** What other threads run; `part` places a thread in memory. */
const workerSource = `
const { workerData } = require('node:worker_threads')
const { memory, modules, part, room } = workerData
const cells = new Int32Array(memory.buffer, 0, ${controlBytes / 4})
const functions = modules.map((m) => new WebAssembly.Instance(m, { m: { m: memory } }).exports.f)
const base = ${pageBytes} + part * room
let seen = 0
for (;;) {
  Atomics.wait(cells, ${cell.job}, seen)
  seen = Atomics.load(cells, ${cell.job})
  const step = Math.floor(room / cells[${cell.parts}] / 128) * 128
  functions[cells[${cell.loop}]](base, base + step % room, base + 2 * step % room, cells[${cell.bytes}], cells[${cell.repeats}])
  Atomics.add(cells, ${cell.done}, 1)
}`

export interface WasmPeaks {
  readonly bandwidth: readonly Bandwidth[]
  readonly flops: number
  readonly divide: number
}

/** Measures for some seconds by a clock in seconds. */
export async function wasmPeaks(threads: number, now: () => number): Promise<WasmPeaks> {
  const room = Math.ceil((1.02 * mostBytes) / threads / pageBytes) * pageBytes
  const pages = 1 + (threads * room) / pageBytes
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  const cells = new Int32Array(memory.buffer, 0, controlBytes / 4)
  const names = (Object.keys(loops) as LoopName[]).filter((name) => WebAssembly.validate(moduleOf(name, pages)))
  const modules = names.map((name) => new WebAssembly.Module(moduleOf(name, pages)))
  const functions = modules.map((m) => new WebAssembly.Instance(m, { m: { m: memory } }).exports.f as Loop)
  const workers = Array.from(
    { length: threads - 1 },
    (_, i) => new Worker(workerSource, { eval: true, workerData: { memory, modules, part: i + 1, room } }),
  )
  // Pages that were never written are all one page.
  new Uint8Array(memory.buffer, pageBytes).fill(1)
  /** Seconds of `repeats` turns on all threads at once. */
  const run = (name: LoopName, bytes: number, repeats: number, parts = 1): number => {
    const step = Math.floor(room / parts / 128) * 128
    const index = names.indexOf(name)
    cells[cell.loop] = index
    cells[cell.bytes] = bytes
    cells[cell.repeats] = repeats
    cells[cell.parts] = parts
    Atomics.store(cells, cell.done, 0)
    const start = now()
    Atomics.add(cells, cell.job, 1)
    Atomics.notify(cells, cell.job)
    functions[index]?.(pageBytes, pageBytes + (step % room), pageBytes + ((2 * step) % room), bytes, repeats)
    while (Atomics.load(cells, cell.done) < threads - 1) {
      // The other threads end at about the same time.
    }
    return now() - start
  }
  // The largest rate of several turns of some milliseconds.
  const best = (name: LoopName, bytes: number, amount: number, parts = 1): number => {
    let repeats = 1
    while (run(name, bytes, repeats, parts) < 0.004 && repeats < 1 << 24) repeats *= 2
    const times = Array.from({ length: 7 }, () => run(name, bytes, repeats, parts))
    return (amount * repeats * threads) / Math.min(...times)
  }
  // Every thread has begun when it has done a job.
  for (const name of names) for (let i = 0; i < 3; i++) run(name, 4096, 1000)
  const bandwidth: Bandwidth[] = []
  for (let bytes = 16 << 10; bytes <= mostBytes; bytes *= 4) {
    const part = (parts: number): number => Math.max(128, Math.floor(bytes / threads / parts / 128) * 128)
    const rate = (name: LoopName, parts: number): number => best(name, part(parts), parts * part(parts), parts)
    bandwidth.push({
      bytes,
      read: rate('read', 1),
      mixed: rate('mixed', 3),
      copy: rate('copy', 2),
      write: rate('write', 1),
    })
  }
  const operations = (name: 'fma' | 'apart' | 'divide'): number =>
    names.includes(name) ? best(name, 128, turnOperations[name]) : 0
  const result = { bandwidth, flops: Math.max(operations('fma'), operations('apart')), divide: operations('divide') }
  await Promise.all(workers.map((w) => w.terminate()))
  return result
}
