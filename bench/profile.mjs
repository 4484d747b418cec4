/**
 * Where Sinter's time goes in a row: `node profile.mjs ROW [--threads N] [--build DIR] [--kernels]`. Runs the steps of the
 * compiled program under the backend's clock and prints the best time of each; for `compile100` the phases of compiling.
 */
import { parseArgs } from 'node:util'
import { inputsOf, rows } from './rows.mjs'
import { buildAt, compiledOf, functionsOf } from './systems/sinter.mjs'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '1' },
    build: { type: 'string' },
    kernels: { type: 'boolean', default: false },
    runs: { type: 'string', default: '15' },
  },
})
const at = (path) => new URL(path, buildAt(options.build)).href
const lib = await import(at('index.js'))
const { compileGraph } = await import(at('compile/index.js'))
const { rewriteGraph } = await import(at('rewrite/index.js'))
const { planFusion } = await import(at('plan/fuse/planFusion.js'))
const { wasmTarget } = await import(at('target/wasm.js'))
const { createWasmBackend } = await import(at('backends/wasm/backend.js'))
const { printKernel } = await import(at('kernel/print.js'))

const backend = createWasmBackend({ threads: Number(options.threads) })
const settings = { mode: 'fast', target: wasmTarget, name: 'row' }

function traced(row, f) {
  const specs = Object.fromEntries(row.inputs.map((p, i) => [`in${i}`, { shape: p.shape }]))
  return () => lib.program((args) => f(...row.inputs.map((_, i) => args[`in${i}`])), specs).trace().graph
}

const upload = (data) => {
  const b = backend.alloc(data.byteLength)
  backend.write(b, data)
  return b
}

async function profileRow(row) {
  const compiled = compileGraph(traced(row, functionsOf(lib)[row.name])(), settings)
  const executable = backend.prepare(compiled.program)
  const inputs = inputsOf(row).map(upload)
  const best = compiled.program.steps.map(() => Number.POSITIVE_INFINITY)
  let whole = Number.POSITIVE_INFINITY
  for (let run = 0; run < Number(options.runs); run++) {
    const start = performance.now()
    for (const b of executable.run(inputs)) backend.free(b)
    whole = Math.min(whole, performance.now() - start)
    const { outputs, times } = await backend.profile(executable, inputs)
    for (const { step, ms } of times) best[step] = Math.min(best[step], ms)
    for (const b of outputs) backend.free(b)
  }
  console.log(`${row.title}: ${whole.toFixed(2)} ms a run, ${compiled.program.steps.length} steps`)
  compiled.program.steps.forEach((s, i) => {
    const what = s.kind === 'kernel' ? `${s.stage} ${s.kernel.name ?? ''}` : s.kind
    const bytes = s.kind === 'kernel' ? s.buffers.reduce((n, b) => n + compiled.program.buffers[b].bytes, 0) : 0
    console.log(
      `  step ${i} ${what}: ${best[i].toFixed(2)} ms, buffers ${(bytes / 1e6).toFixed(1)} MB, ${(bytes / best[i] / 1e6).toFixed(1)} GB/s` +
        (row.flops > 0 ? `, ${(row.flops / best[i] / 1e6).toFixed(1)} GFLOP/s if all is here` : ''),
    )
    if (options.kernels && s.kind === 'kernel') console.log(printKernel(s.kernel))
  })
  for (const k of compiled.report.kernels)
    console.log(`  modelled ${k.name} (${k.kind}): ${k.modelledMs.toFixed(2)} ms, ${k.programs} programs`)
  for (const r of compiled.report.refused) console.log(`  refused ${r.from} -> ${r.to}: ${r.code} ${r.detail}`)
}

function profileCompile(row) {
  const [input] = inputsOf(row).map(upload)
  const totals = {}
  const clock = (name, f) => {
    const start = performance.now()
    const value = f()
    totals[name] ??= []
    totals[name].push(performance.now() - start)
    return value
  }
  let kernels = 0
  for (let seed = 0; seed < 20; seed++) {
    const graph = clock('trace', traced(row, compiledOf(seed)))
    const rewritten = clock('rewrite (run again inside compileGraph)', () =>
      rewriteGraph(graph, {
        mode: 'fast',
        fold: () => {
          throw new Error('nothing to fold')
        },
      }),
    )
    clock('plan (run again inside compileGraph)', () => planFusion(rewritten.graph, wasmTarget, 'fast', true))
    const compiled = clock('compileGraph', () => compileGraph(graph, settings))
    const executable = clock('prepare', () => backend.prepare(compiled.program))
    for (const b of clock('first run', () => executable.run([input]))) backend.free(b)
    executable.dispose()
    kernels = compiled.report.totals.kernels
  }
  console.log(`${row.title}: ${kernels} kernels; median of programs 5 to 20`)
  for (const [name, times] of Object.entries(totals)) {
    const warm = times.slice(5).sort((a, b) => a - b)
    console.log(`  ${name}: ${warm[warm.length >> 1].toFixed(2)} ms`)
  }
}

for (const name of positionals) {
  const row = rows.find((r) => r.name === name)
  if (row === undefined) throw new Error(`unknown row '${name}'`)
  if (row.fresh) profileCompile(row)
  else await profileRow(row)
}
backend.dispose()
