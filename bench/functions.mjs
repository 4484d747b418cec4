/**
 * What functions take, by dtype, and what elements take on their way between JavaScript and tensors: `node functions.mjs [--build A,B] [--dtypes f32,f64,f16,bf16]
 * [--rounds 9]`. Nanoseconds an element, the least of some rounds in which builds take turns; one thread of WebAssembly. A row has a column a build and dtype.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    build: { type: 'string', default: '' },
    dtypes: { type: 'string', default: 'f32,f64' },
    rounds: { type: 'string', default: '9' },
  },
})
const builds = []
for (const name of options.build.split(',')) {
  const s = await import(new URL('index.js', buildAt(name || undefined)).href)
  s.setDevice('wasm', { threads: 1 })
  builds.push(s)
}
const dtypes = options.dtypes.split(',')
const n = 400_000
const numbers = Array.from({ length: n }, (_, i) => (((i * 37) % 101) / 101) * 0.9 + 0.05)

const unary = ['exp', 'expm1', 'log', 'log1p', 'sin', 'tan', 'atan', 'asin', 'sinh', 'cosh', 'tanh', 'asinh', 'atanh']
const composed = ['sigmoid', 'silu', 'gelu', 'softplus', 'exp2', 'erf', 'erfc', 'erfinv', 'cbrt', 'lgamma', 'digamma']

/** Calls by name: each prepares for a build and a dtype, and gives what is timed. */
const calls = {
  ...Object.fromEntries([...unary, ...composed].map((name) => [name, (s, x) => jitted(s, s[name], x)])),
  'pow 1.7': (s, x) => jitted(s, (t) => t.pow(1.7), x),
  softmax: (s, x) => jitted(s, (t) => s.softmax(t.reshape([n / 1000, 1000]), -1), x),
  'list to tensor': (s, x) => () => s.tensor(numbers, { shape: [n], dtype: x.dtype }).dispose(),
  'data()': (_, x) => async () => void (await x.data()),
  'tolist()': (_, x) => () => void x.tolist(),
}

function jitted(s, body, x) {
  const f = s.jit((t) => body(t))
  return () => f(x).evaluate().dispose()
}

console.log(
  'ns an element'.padEnd(16),
  dtypes.map((d) => builds.map((_, i) => `${d} ${i}`.padStart(9)).join('')).join(''),
)
for (const [name, prepare] of Object.entries(calls)) {
  const timed = dtypes.flatMap((dtype) =>
    builds.map((s) => ({ least: Number.POSITIVE_INFINITY, run: prepare(s, s.tensor(numbers, { shape: [n], dtype })) })),
  )
  for (let round = 0; round < Number(options.rounds); round++)
    for (const t of timed) {
      const from = performance.now()
      await t.run()
      t.least = Math.min(t.least, performance.now() - from)
    }
  console.log(name.padEnd(16), timed.map((t) => ((t.least * 1e6) / n).toFixed(2).padStart(9)).join(''))
}
