/**
 * Bools between kernels as bits and as bytes: `node bits.mjs [--threads N] [--runs N] [--build DIR]`. Operations of 16M
 * elements run one by one, in two programs that differ in the format of their bools alone, in turns; prints the best and
 * the median time of each step.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    threads: { type: 'string', default: '1' },
    runs: { type: 'string', default: '15' },
    build: { type: 'string' },
  },
})
const at = (path) => new URL(path, buildAt(options.build)).href
const compose = await import(at('compose/index.js'))
const { param, withContext } = await import(at('graph/build.js'))
const { compileGraph } = await import(at('compile/index.js'))
const { wasmTarget } = await import(at('target/wasm.js'))
const { createWasmBackend } = await import(at('backends/wasm/backend.js'))

const n = 2 ** 24
const graph = withContext(() => {
  const params = [0, 1].map((i) => param(i, [n], 'f32'))
  const [x, y] = params
  const less = compose.compare('lt', x, y)
  const positive = compose.compare('gt', x, 0)
  const either = compose.binary('xor', less, positive)
  return { params, outputs: [compose.where(either, x, y), compose.sum(compose.where(less, x, 0))], effects: [] }
})

const backend = createWasmBackend({ threads: Number(options.threads) })
const inputs = [1, 2].map((seed) => {
  const data = Float32Array.from({ length: n }, (_, i) => (Math.imul(i + seed, 2654435761) >> 8) / 2 ** 23)
  const b = backend.alloc(data.byteLength)
  backend.write(b, data)
  return b
})
const ways = [true, false].map((packBools) => {
  const { program } = compileGraph(graph, { mode: 'fast', fuse: false, target: { ...wasmTarget, packBools } })
  return {
    name: packBools ? 'bits' : 'bytes',
    program,
    executable: backend.prepare(program),
    times: program.steps.map(() => []),
  }
})
for (let run = 0; run < 3 + Number(options.runs); run++)
  for (const w of run % 2 === 0 ? ways : [...ways].reverse()) {
    const { outputs, times } = await backend.profile(w.executable, inputs)
    for (const b of outputs) backend.free(b)
    if (run >= 3) for (const { step, ms } of times) w.times[step].push(ms)
  }
for (const w of ways)
  w.program.steps.forEach((s, i) => {
    const sorted = w.times[i].sort((a, b) => a - b)
    const bytes = s.buffers.reduce((t, b) => t + w.program.buffers[b].bytes, 0)
    const median = sorted[sorted.length >> 1]
    console.log(
      `${w.name.padEnd(5)} ${s.kernel.name.padEnd(22)} ${(bytes / 1e6).toFixed(1).padStart(6)} MB  best ${sorted[0].toFixed(2)} ms, median ${median.toFixed(2)} ms, ${(bytes / sorted[0] / 1e6).toFixed(1)} GB/s`,
    )
  })
backend.dispose()
