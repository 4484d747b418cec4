/**
 * What it takes until a model runs: `node models.mjs [--models mobilenet,resnet,bert] [--runs 7] [--build DIR,DIR] [--threads 1]`. Every
 * number is the least of several fresh processes (builds in turn), in milliseconds. Read to code: of the model's bytes to code that can
 * run, weights apart; then the same once more in the process, whose engine is warm by then; the first run; a steady one. Where the time
 * goes is told by a process of its own under the engine's profiler (`--split`), which takes a tenth to a fifth longer.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { networks } from './shared/networks.mjs'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    models: { type: 'string', default: 'mobilenet,resnet,bert' },
    runs: { type: 'string', default: '7' },
    build: { type: 'string', default: '' },
    threads: { type: 'string', default: '1' },
    split: { type: 'boolean', default: false },
    child: { type: 'string' },
  },
})

/** Phases by the function that is all of each; a sample belongs to the innermost. */
const phases = {
  readFileSync: 'file',
  dispatch: 'profiler',
  readModel: 'read',
  fromBytes: 'weights',
  importModel: 'import',
  rewriteGraph: 'rewrite',
  planGraph: 'plan',
  assemble: 'lower',
  makeReport: 'report',
  scheduleKernel: 'schedule',
  compileModule: 'emit',
  Module: 'instantiate',
  Instance: 'instantiate',
  compileOptimised: 'optimise',
  copyIn: 'weights',
  '(garbage collector)': 'collect',
}

/** Samples of a profile by phase, in milliseconds. */
function byPhase({ nodes, samples, timeDeltas }) {
  const at = new Map(nodes.map((n) => [n.id, n]))
  const parent = new Map(nodes.flatMap((n) => (n.children ?? []).map((c) => [c, n.id])))
  const phaseOf = (id) => {
    for (let x = id; x !== undefined; x = parent.get(x)) {
      const name = at.get(x).callFrame.functionName.replace(/^get |^set /, '')
      if (Object.hasOwn(phases, name)) return phases[name]
    }
    return 'rest'
  }
  const out = Object.fromEntries([...new Set(Object.values(phases)), 'rest'].map((p) => [p, 0]))
  samples.forEach((id, i) => {
    out[phaseOf(id)] += timeDeltas[i] / 1e3
  })
  return out
}

/** Runs `body` under the profiler. */
async function profiled(body) {
  const session = new Session()
  session.connect()
  const post = (method, given) =>
    new Promise((done, fail) => session.post(method, given, (error, result) => (error ? fail(error) : done(result))))
  await post('Profiler.enable')
  await post('Profiler.setSamplingInterval', { interval: 200 })
  await post('Profiler.start')
  body()
  const { profile } = await post('Profiler.stop')
  return byPhase(profile)
}

/** What a body gives, and what it takes: milliseconds of the clock, and of processors. */
function timed(body) {
  const [from, cpu] = [performance.now(), process.cpuUsage()]
  const result = body()
  const { user, system } = process.cpuUsage(cpu)
  return { result, ms: performance.now() - from, processor: (user + system) / 1e3 }
}

/** Measures one model in this process. */
async function measureHere(path) {
  const at = (name) => import(new URL(name, buildAt(options.build || undefined)).href)
  const { importModel, readModel } = await at('onnx/index.js')
  const { compileGraph } = await at('compile/index.js')
  const { compileFor } = await at('compile/prepare.js')
  const { tensorFromProto } = await at('onnx/tensors.js')
  const { evaluateConstant } = await at('reference/evaluate.js')
  const { createWasmBackend } = await at('backends/wasm/backend.js')
  const { hostArray } = await at('types/host.js')
  const backend = createWasmBackend({ threads: Number(options.threads) })
  const target = backend.machine
  const { device } = backend
  const { copyIn } = Object.getPrototypeOf(device)
  const prepare = () => {
    // The import takes them.
    const bytes = readFileSync(path)
    // Weights, which stand in the file's bytes, are copied into the memory of programs: on a clock of their own.
    const weights = { ms: 0, processor: 0 }
    const asWeights = (body) => {
      const { result, ms, processor } = timed(body)
      weights.ms += ms
      weights.processor += processor
      return result
    }
    const times = {}
    let whole = 0
    let processor = 0
    const phase = (name, body) => {
      const before = { ...weights }
      const spent = timed(body)
      times[name] = spent.ms - (weights.ms - before.ms)
      whole += times[name]
      processor += spent.processor - (weights.processor - before.processor)
      return spent.result
    }
    device.copyIn = (...args) => asWeights(() => copyIn.apply(device, args))
    const model = phase('read', () => readModel(bytes, true))
    asWeights(() => {
      for (const t of model.model.graph.initializer) model.tensors.set(t, tensorFromProto(t, undefined, true))
    })
    const { graph } = phase('import', () => importModel(model, { evaluate: evaluateConstant }))
    const { compiled, executable } = phase('compile', () =>
      compileFor(backend, target, (t) => compileGraph(graph, { mode: 'fast', target: t })),
    )
    return { graph, report: compiled.report, executable, times: { ...times, whole, processor, weights: weights.ms } }
  }
  if (options.split) {
    process.stdout.write(JSON.stringify(await profiled(prepare)))
    process.exit(0)
  }
  const first = prepare()
  const inputs = first.graph.params.map((p) => {
    const n = p.shape.reduce((a, b) => a * b, 1)
    const data = hostArray(p.dtype, n)
    for (let i = 0; i < n; i++) data[i] = p.dtype === 'i64' ? BigInt(i % 2) : ((i * 37) % 101) / 50 - 1
    const buffer = backend.alloc(data.byteLength)
    backend.write(buffer, data)
    return buffer
  })
  const run = () => {
    const from = performance.now()
    for (const b of first.executable.run(inputs)) backend.free(b)
    return performance.now() - from
  }
  const firstRun = run()
  const steady = Math.min(...Array.from({ length: 6 }, run))
  const again = prepare().times.whole
  const { kernels } = first.report.totals
  process.stdout.write(JSON.stringify({ ...first.times, again, firstRun, steady, kernels }))
  process.exit(0)
}

/** Measures one model in a fresh process. */
function measure(path, build, more = []) {
  const args = [fileURLToPath(import.meta.url), '--child', path, '--build', build, '--threads', options.threads]
  const child = spawnSync(process.execPath, [...args, ...more], { encoding: 'utf8', maxBuffer: 1 << 26 })
  if (child.status !== 0) throw new Error(child.stderr)
  return JSON.parse(child.stdout)
}

const row = (name, numbers) =>
  console.log(
    `  ${name.padEnd(24)}`,
    Object.entries(numbers)
      .map(([k, v]) => `${k} ${v.toFixed(v < 10 ? 1 : 0)}`)
      .join('  '),
  )

function main() {
  const folder = mkdtempSync(join(tmpdir(), 'models-'))
  try {
    for (const name of options.models.split(',')) {
      const path = join(folder, name)
      writeFileSync(path, networks[name]())
      const builds = options.build.split(',')
      const seen = builds.map(() => [])
      for (let i = 0; i < Number(options.runs); i++)
        for (const [j, b] of builds.entries()) seen[j].push(measure(path, b))
      console.log(name)
      builds.forEach((b, j) => {
        const least = (rows) =>
          Object.fromEntries(Object.keys(rows[0]).map((k) => [k, Math.min(...rows.map((r) => r[k]))]))
        row(b || 'dist', least(seen[j]))
        if (options.split) row(' split', least([0, 1, 2].map(() => measure(path, b, ['--split']))))
      })
      rmSync(path)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (options.child === undefined) main()
else await measureHere(options.child)
