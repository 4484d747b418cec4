/**
 * Models beside ONNX Runtime: `node beside.mjs [--models bert,bert:dynamic] [--files a.onnx,b.onnx] [--build DIR,DIR] [--peers web,node] [--threads 1] [--seconds 8] [--plain]`.
 * Each system (of one API) has a process of its own, which sleeps while it is not its turn: threads that wait for work would take processors from the others. A turn is
 * some calls, from inputs on the host to results on the host; its first is not counted. Of each system: the median and the least milliseconds; of each peer: its median and
 * least over those of the first build, and the largest difference of the results, over the largest number in them. `--plain` hides relaxed SIMD from Sinter, `--processor`
 * counts the process's seconds of the processor instead of the clock's. Names are those of shared/networks.mjs, with a form behind a colon.
 */
import { readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startChild } from './shared/child.mjs'
import { networks } from './shared/networks.mjs'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    models: { type: 'string', default: '' },
    files: { type: 'string', default: '' },
    build: { type: 'string', default: '../dist' },
    peers: { type: 'string', default: 'web' },
    threads: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '8' },
    plain: { type: 'boolean', default: false },
    processor: { type: 'boolean', default: false },
  },
})

const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

/** Milliseconds of the clock, or of processors. */
function now() {
  if (!options.processor) return performance.now()
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e3
}

/** Hides the engine's relaxed SIMD: modules that multiply and add with one rounding are none. */
function hideRelaxed() {
  const { validate } = WebAssembly
  WebAssembly.validate = (m) => Buffer.from(m).indexOf(Buffer.from([0xfd, 0x85, 0x02])) < 0 && validate(m)
}

/** Numbers for the inputs of a model, by their types; extents that it leaves open are 1. */
function feedsOf(Tensor, metadata) {
  const feeds = {}
  for (const { name, type, shape } of metadata) {
    const dims = shape.map((d) => (typeof d === 'number' ? d : 1))
    const n = dims.reduce((a, b) => a * b, 1)
    const values = Array.from({ length: n }, (_, i) => ((i * 7919) % 1009) / 504 - 1)
    const data = {
      float32: () => Float32Array.from(values),
      int64: () => BigInt64Array.from(values, (_, i) => (/mask|in1/.test(name) ? 1n : BigInt(i % 2))),
      int32: () => Int32Array.from(values, (_, i) => i % 2),
    }
    feeds[name] = new Tensor(type, data[type](), dims)
  }
  return feeds
}

/** Largest difference of two results, over the largest finite number in the first. */
function difference(a, b) {
  let [most, scale] = [0, 0]
  for (let i = 0; i < a.length; i++) {
    most = Math.max(most, Math.abs(Number(a[i]) - Number(b[i])))
    scale = Math.max(scale, Math.abs(Number(a[i])))
  }
  return most / scale
}

/** Milliseconds of the least turn. */
const turn = 150

const here = fileURLToPath(import.meta.url)
const threads = Number(options.threads)

/** How sessions are made: of a build of Sinter, and of its peers. */
const openers = {
  async sinter(bytes, build) {
    if (options.plain) hideRelaxed()
    const ort = await import(new URL('ort.js', buildAt(build)).href)
    const providers = { executionProviders: ['wasm'], intraOpNumThreads: threads }
    return { session: await ort.InferenceSession.create(bytes, providers), Tensor: ort.Tensor }
  },
  async web(bytes) {
    const ort = await import('onnxruntime-web')
    ort.env.wasm.numThreads = threads
    const settings = { executionProviders: ['wasm'], graphOptimizationLevel: 'all', logSeverityLevel: 3 }
    return { session: await ort.InferenceSession.create(new Uint8Array(bytes), settings), Tensor: ort.Tensor }
  },
  async node(bytes) {
    const ort = await import('onnxruntime-node')
    const settings = { executionProviders: ['cpu'], intraOpNumThreads: threads, graphOptimizationLevel: 'all' }
    return { session: await ort.InferenceSession.create(bytes, settings), Tensor: ort.Tensor }
  },
}

/** One system's process: opens a model, then takes a turn for each message. */
async function serve() {
  let opened
  process.on('message', async ({ system, build, model }) => {
    if (model !== undefined) {
      const bytes = model.endsWith('.onnx') ? readFileSync(model) : networks[model.split(':')[0]](model.split(':')[1])
      const { session, Tensor } = await openers[system](bytes, build)
      opened = { session, feeds: feedsOf(Tensor, session.inputMetadata) }
      process.send(Object.values(await session.run(opened.feeds)).map((t) => t.data))
      return
    }
    const times = []
    const until = performance.now() + turn
    while (times.length < 3 || performance.now() < until) {
      const from = now()
      await opened.session.run(opened.feeds)
      times.push(now() - from)
    }
    process.send(times.slice(1))
  })
}

/** A system in a process of its own; `ask` throws what the process wrote where it ended instead. */
function started(system, build) {
  const env = { ...process.env, SINTER_BESIDE: system }
  const { ask, stop } = startChild(here, { args: process.argv.slice(2), env, serialization: 'advanced' })
  const answered = async (message) => {
    const answer = await ask({ system, build, ...message })
    if (answer.error !== undefined) throw new Error(answer.error)
    return answer
  }
  return { ask: answered, stop, times: [] }
}

async function measure(model) {
  const systems = [
    ...options.build.split(',').map((build) => started('sinter', build)),
    ...list(options.peers).map((peer) => started(peer)),
  ]
  try {
    const results = []
    for (const s of systems) results.push(await s.ask({ model }))
    for (const s of systems) await s.ask({})
    const until = performance.now() + 1e3 * Number(options.seconds)
    for (let round = 0; round < 3 || performance.now() < until; round++)
      for (const s of systems) s.times.push(...(await s.ask({})))
    const [first] = systems
    const cells = systems.map(({ times }, i) => {
      const both = `${median(times).toFixed(2).padStart(9)} ${Math.min(...times)
        .toFixed(2)
        .padStart(9)}`
      if (i === 0) return both
      const over = (f) => (f(times) / f(first.times)).toFixed(2).padStart(6)
      const far = Math.max(...results[0].map((r, j) => difference(results[i][j], r)))
      return `${both} ${over(median)} ${over((t) => Math.min(...t))}  ${far.toExponential(1)}`
    })
    return cells.join(' |')
  } finally {
    for (const s of systems) s.stop()
  }
}

const list = (s) => s.split(',').filter((x) => x !== '')

if (process.env.SINTER_BESIDE !== undefined) await serve()
else
  for (const model of [...list(options.models), ...list(options.files)]) {
    const shown = model.endsWith('.onnx') ? basename(dirname(model)) : model
    const line = await measure(model).catch((error) => ` ${error.message}`)
    console.log(`${shown.padEnd(22)}${line}`)
  }
