/**
 * Sorts on WebAssembly beside `Float32Array.prototype.sort`: `node sorting.mjs [--rounds 3] [--build DIR]`. Of each length the least processor time of a call in
 * turns: sort, argsort and the eight greatest here (results stay on the device), and the engine's sort of a copy. Sorted values are compared. One thread.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, build: { type: 'string' } },
})
const s = await import(new URL('index.js', buildAt(options.build)).href)
s.setDevice('wasm', { threads: 1 })

/** What a body makes, and milliseconds of processor time. */
function timed(body) {
  const from = process.cpuUsage()
  const result = body()
  const { user, system } = process.cpuUsage(from)
  return { result, ms: (user + system) / 1e3 }
}

const calls = {
  sort: s.jit((x) => [s.sort(x)]),
  argsort: s.jit((x) => [s.argsort(x)]),
  'topK of 8': s.jit((x) => s.topK(x, 8)),
}
for (const n of [2 ** 16, 2 ** 20, 2 ** 24]) {
  let state = 1
  const data = Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  })
  const x = s.tensor(data, { shape: [n] })
  const least = { engine: Infinity }
  const wanted = data.slice().sort()
  for (let i = 0; i < Number(options.rounds) + 1; i++) {
    const copy = data.slice()
    least.engine = Math.min(least.engine, timed(() => copy.sort()).ms)
    for (const [name, call] of Object.entries(calls)) {
      const { result, ms } = timed(() => call(x))
      if (i === 0 && name === 'sort' && result[0].dataSync().some((v, at) => v !== wanted[at]))
        throw new Error(`${n} numbers are out of order`)
      for (const t of result) t.dispose()
      // The first compiles.
      if (i > 0) least[name] = Math.min(least[name] ?? Infinity, ms)
    }
  }
  x.dispose()
  const { engine, ...own } = least
  console.log(
    `${String(n).padStart(8)}  Float32Array.sort ${engine.toFixed(1)} ms  ${Object.entries(own)
      .map(([name, ms]) => `${name} ${ms.toFixed(1)} ms (${(ms / engine).toFixed(2)})`)
      .join('  ')}`,
  )
}
