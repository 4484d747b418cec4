/**
 * What this machine can do from WebAssembly: copy bandwidth and multiply-add rate, by three loops assembled here. With two
 * threads each loop runs on two, over halves of the memory. Runs as a process of its own: prints one JSON line.
 */
import { setFlagsFromString } from 'node:v8'
import { isMainThread, Worker, workerData } from 'node:worker_threads'

setFlagsFromString('--experimental-wasm-relaxed-simd')

const ACCUMULATORS = 12
const leb = (n) => {
  const out = []
  let v = n
  do {
    out.push((v & 127) | (v > 127 ? 128 : 0))
    v >>>= 7
  } while (v > 0)
  return out
}
const section = (id, body) => [id, ...leb(body.length), ...body]
const vector = (items) => [...leb(items.length), ...items.flat()]
const simd = (op) => [0xfd, ...leb(op)]
const I32 = 0x7f
const V128 = 0x7b
const get = (i) => [0x20, i]
const set = (i) => [0x21, i]
/** i32.const of a small positive number: its LEB is signed, so one more byte where bit 6 is set. */
const constant = (n) => [0x41, ...(n < 64 ? [n] : [n | 0x80, 0])]
const ADD = 0x6a

/** A loop that ends when local `counter`, lowered by `step` each time, is 0. */
const loop = (body, counter, step) => [
  0x03,
  0x40,
  ...body,
  ...get(counter),
  ...constant(step),
  0x6b,
  0x22,
  counter,
  0x0d,
  0,
  0x0b,
]

/** copy(to, from, bytes): 64 bytes a turn by v128 loads and stores. */
const copyLoop = () => {
  const move = (offset) => [...get(0), ...get(1), ...simd(0), 4, offset, ...simd(11), 4, offset]
  const next = (i) => [...get(i), ...constant(64), ADD, ...set(i)]
  return [0, ...loop([0, 16, 32, 48].flatMap(move).concat(next(0), next(1)), 2, 64), 0x0b]
}
/** fill(to, from, bytes): memory.copy. */
const bulkCopy = () => [0, ...get(0), ...get(1), ...get(2), 0xfc, 10, 0, 0, 0x0b]
/** rate(out, _, turns): each turn is a multiply and an add (or one fused) on each accumulator; stores them at `out`. */
const rate = (fused) => {
  const first = 3
  const half = [0, 0, 0, 0x3f]
  const literal = [...simd(12), ...half, ...half, ...half, ...half]
  const [x, y] = [first + ACCUMULATORS, first + ACCUMULATORS + 1]
  const accumulators = Array.from({ length: ACCUMULATORS }, (_, i) => first + i)
  const step = (a) => [
    ...get(a),
    ...get(x),
    ...(fused ? [...get(y), ...simd(0x105)] : [...simd(0xe6), ...get(y), ...simd(0xe4)]),
    ...set(a),
  ]
  return [
    1,
    ...leb(ACCUMULATORS + 2),
    V128,
    ...literal,
    ...set(x),
    ...literal,
    ...set(y),
    ...loop(accumulators.flatMap(step), 2, 1),
    ...accumulators.flatMap((a, i) => [...get(0), ...get(a), ...simd(11), 4, ...leb(16 * i)]),
    0x0b,
  ]
}

function moduleOf(bodies, pages) {
  const names = bodies.map((_, i) => `f${i}`)
  const name = (s) => [...leb(s.length), ...Buffer.from(s)]
  return new WebAssembly.Module(
    Uint8Array.from([
      0,
      0x61,
      0x73,
      0x6d,
      1,
      0,
      0,
      0,
      ...section(1, vector([[0x60, 3, I32, I32, I32, 0]])),
      ...section(2, vector([[...name('m'), ...name('m'), 2, 3, ...leb(pages), ...leb(pages)]])),
      ...section(3, vector(names.map(() => [0]))),
      ...section(7, vector(names.map((n, i) => [...name(n), 0, ...leb(i)]))),
      ...section(10, vector(bodies.map((b) => [...leb(b.length), ...b]))),
    ]),
  )
}

const BYTES = 64 << 20
const PAGES = 2 * (BYTES >> 16) + 1
const TURNS = 2_000_000
const base = 65536
const tasks = [
  { name: 'copy', body: copyLoop() },
  { name: 'memoryCopy', body: bulkCopy() },
  { name: 'mulAdd', body: rate(false), flops: TURNS * ACCUMULATORS * 8 },
  { name: 'fma', body: rate(true), flops: TURNS * ACCUMULATORS * 8 },
]

/** Runs part `part` of `parts` of a task. */
function runPart(exports, task, part, parts) {
  const f = exports[`f${task}`]
  const bytes = BYTES / parts
  if (tasks[task].flops === undefined) f(base + BYTES + part * bytes, base + part * bytes, bytes)
  else f(part * 4096, 0, TURNS)
}

const instantiate = (memory) => {
  const exports = {}
  tasks.forEach(({ body }, i) => {
    // Each its own module: an engine without relaxed SIMD still has the others.
    try {
      exports[`f${i}`] = new WebAssembly.Instance(moduleOf([body], PAGES), { m: { m: memory } }).exports.f0
    } catch {
      exports[`f${i}`] = undefined
    }
  })
  return exports
}

function main() {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true })
  new Float32Array(memory.buffer).fill(1)
  const exports = instantiate(memory)
  const control = new Int32Array(new SharedArrayBuffer(12))
  new Worker(new URL(import.meta.url), { workerData: { memory, control } }).unref()
  /** Best of several runs, in seconds. */
  const time = (task, parts) => {
    let best = Number.POSITIVE_INFINITY
    for (let i = 0; i < 15; i++) {
      const start = performance.now()
      if (parts === 2) {
        control[1] = task
        Atomics.store(control, 2, 0)
        Atomics.add(control, 0, 1)
        Atomics.notify(control, 0)
      }
      runPart(exports, task, 0, parts)
      if (parts === 2) Atomics.wait(control, 2, 0)
      best = Math.min(best, (performance.now() - start) / 1000)
    }
    return best
  }
  const result = {}
  for (const parts of [1, 2]) {
    const out = {}
    tasks.forEach((t, i) => {
      if (exports[`f${i}`] === undefined) return
      const seconds = time(i, parts)
      out[t.name] = t.flops === undefined ? (2 * BYTES) / seconds : (t.flops * parts) / seconds
    })
    result[parts] = out
  }
  console.log(JSON.stringify(result))
  process.exit(0)
}

function serve({ memory, control }) {
  const exports = instantiate(memory)
  let seen = 0
  for (;;) {
    Atomics.wait(control, 0, seen)
    seen = Atomics.load(control, 0)
    runPart(exports, control[1], 1, 2)
    Atomics.store(control, 2, 1)
    Atomics.notify(control, 2)
  }
}

if (isMainThread) main()
else serve(workerData)
