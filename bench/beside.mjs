/**
 * Models beside onnxruntime-web: `node beside.mjs [--models bert,bert:dynamic] [--files a.onnx,b.onnx] [--build DIR,DIR] [--threads 1] [--rounds 15] [--plain]`.
 * Each model in a process of its own, where both sessions (of one API) run in turns, from inputs on the host to results on the host. Of each: the median and the
 * least milliseconds, and the peer's over Sinter's; the largest difference of the results, over the largest number in them. `--plain` hides relaxed SIMD
 * from Sinter, `--processor` counts the process's seconds of the processor instead of the clock's. Names are those of shared/networks.mjs, with a form behind a colon.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { networks } from './shared/networks.mjs'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    models: { type: 'string', default: '' },
    files: { type: 'string', default: '' },
    build: { type: 'string', default: '../dist' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '8' },
    plain: { type: 'boolean', default: false },
    processor: { type: 'boolean', default: false },
    alone: { type: 'boolean', default: false },
    child: { type: 'string' },
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

async function measureHere(name) {
  const bytes = name.endsWith('.onnx') ? readFileSync(name) : networks[name.split(':')[0]](name.split(':')[1])
  if (options.plain) hideRelaxed()
  const threads = Number(options.threads)
  const systems = []
  for (const build of options.build.split(',')) {
    const ort = await import(new URL('ort.js', buildAt(build)).href)
    const session = await ort.InferenceSession.create(bytes, {
      executionProviders: ['wasm'],
      intraOpNumThreads: threads,
    })
    systems.push({ session, Tensor: ort.Tensor })
  }
  if (!options.alone) {
    const ort = await import('onnxruntime-web')
    ort.env.wasm.numThreads = threads
    const session = await ort.InferenceSession.create(new Uint8Array(bytes), {
      executionProviders: ['wasm'],
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
    })
    systems.push({ session, Tensor: ort.Tensor })
  }
  const results = []
  for (const s of systems) {
    s.feeds = feedsOf(s.Tensor, s.session.inputMetadata)
    s.times = []
    results.push(Object.values(await s.session.run(s.feeds)).map((t) => t.data))
    await s.session.run(s.feeds)
  }
  const until = performance.now() + 1e3 * Number(options.seconds)
  for (let round = 0; round < Number(options.rounds) && (round < 3 || performance.now() < until); round++)
    for (const s of systems) {
      const from = now()
      await s.session.run(s.feeds)
      s.times.push(now() - from)
    }
  const differences = results[0].map((r, i) => difference(results.at(-1)[i], r))
  process.stdout.write(JSON.stringify({ times: systems.map((s) => s.times), difference: Math.max(...differences) }))
  process.exit(0)
}

if (options.child !== undefined) await measureHere(options.child)
const list = (s) => s.split(',').filter((x) => x !== '')
for (const name of [...list(options.models), ...list(options.files)]) {
  const args = [fileURLToPath(import.meta.url), ...process.argv.slice(2), '--child', name]
  const child = spawnSync(process.execPath, args, { maxBuffer: 1 << 24, stdio: ['ignore', 'pipe', 'pipe'] })
  const shown = name.endsWith('.onnx') ? basename(dirname(name)) : name
  if (child.status !== 0) {
    console.log(`${shown.padEnd(22)} ${child.stderr.toString().trim().split('\n').slice(-12).join('\n')}`)
    continue
  }
  const { times, difference: d } = JSON.parse(child.stdout.toString())
  const cells = times.map(
    (t) =>
      `${median(t).toFixed(2).padStart(9)} ${Math.min(...t)
        .toFixed(2)
        .padStart(9)}`,
  )
  const over = (f) => (f(times.at(-1)) / f(times[0])).toFixed(2).padStart(6)
  const ratio = options.alone ? '' : `  ${over(median)}  ${over((t) => Math.min(...t))}  ${d.toExponential(1)}`
  console.log(`${shown.padEnd(22)}${cells.join(' |')}${ratio}`)
}
