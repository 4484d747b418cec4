/**
 * What a step of control flow costs: `node loops.mjs [--elements N] [--steps N] [--runs N] [--build DIR]`. h = (h * w + x) * 0.99 as a
 * loop of the program, a loop whose number of steps is an input, a scan that keeps every step, a jitted step called from
 * JavaScript, plain JavaScript, and written out; then a recurrent network and its gradient. One thread; prints the best processor time a step.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    elements: { type: 'string', default: '64' },
    steps: { type: 'string', default: '10000' },
    runs: { type: 'string', default: '15' },
    build: { type: 'string' },
  },
})
const [n, steps, runs] = [options.elements, options.steps, options.runs].map(Number)
const s = await import(new URL('index.js', buildAt(options.build)).href)
s.setDevice('wasm', { threads: 1 })

/** Microseconds of processor time. */
function cpu(f) {
  const from = process.cpuUsage()
  f()
  const { user, system } = process.cpuUsage(from)
  return user + system
}
function best(f, count) {
  for (let i = 0; i < 3; i++) f()
  let least = Infinity
  for (let i = 0; i < runs; i++) least = Math.min(least, cpu(f))
  return `${(least / count).toFixed(3)} us a step`
}
const free = (...tensors) => {
  for (const t of tensors) t.dispose()
}

const x = s.tensor(Float32Array.from({ length: n }, (_, i) => i / n))
const w = s.full([n], 0.5)
const body = (h) => h.mul(w).add(x).mul(0.99)
const loop = s.jit((h) => s.foriLoop(0, steps, (_, c) => body(c), h))
const bounded = s.jit((h, k) => s.foriLoop(0, k, (_, c) => body(c), h))
const kept = s.jit((h) => s.scan((c) => [body(c), c], h, null, { length: steps }))
const one = s.jit(body)
const k = s.tensor(steps, { dtype: 'i32' })
console.log(`${n} elements, ${steps} steps`)
console.log(`foriLoop            ${best(() => free(loop(x)), steps)}`)
console.log(`foriLoop, tensor    ${best(() => free(bounded(x, k)), steps)}`)
console.log(`scan, steps kept    ${best(() => free(...kept(x)), steps)}`)
const called = () => {
  let h = one(x)
  for (let i = 1; i < steps; i++) {
    const next = one(h)
    h.dispose()
    h = next
  }
  h.dispose()
}
console.log(`jit, called         ${best(called, steps)}`)
const [h, a, b] = [new Float32Array(n), x.dataSync(), w.dataSync()]
const plain = () => {
  h.set(a)
  for (let i = 0; i < steps; i++) for (let j = 0; j < n; j++) h[j] = Math.fround(Math.fround(h[j] * b[j]) + a[j]) * 0.99
}
console.log(`plain JavaScript    ${best(plain, steps)}`)
const few = 300
const written = s.jit((t) => {
  let c = t
  for (let i = 0; i < few; i++) c = body(c)
  return c
})
console.log(`first call, ${few} steps written out ${(cpu(() => free(written(x))) / 1000).toFixed(0)} ms`)
console.log(`written out         ${best(() => free(written(x)), few)}`)
const longer = s.jit((t) => s.foriLoop(0, steps + 1, (_, c) => body(c), t))
console.log(`compiling the loop  ${(cpu(() => longer.compile(x)) / 1000).toFixed(1)} ms`)

// A recurrent network: 100 steps, 64 units, batch 16, 8 inputs.
const [T, B, H] = [100, 16, 64]
const random = (shape, seed) => s.random.normal(s.random.key(seed), shape).mul(0.1)
const p = { w: random([H, H], 1), u: random([8, H], 2), b: s.zeros([H]) }
const xs = random([T, B, 8], 3)
const cell = (q, c, y) => s.tanh(s.matmul(c, q.w).add(s.matmul(y, q.u)).add(q.b))
const scanned = (q, ys) => {
  const [last] = s.scan((c, y) => [cell(q, c, y), null], s.zeros([B, H]), ys)
  return last.square().mean()
}
const unrolled = (q, ys) => {
  let c = s.zeros([B, H])
  for (let i = 0; i < T; i++) c = cell(q, c, ys.slice(i))
  return c.square().mean()
}
for (const [name, f] of [
  ['scan', scanned],
  ['written out', unrolled],
]) {
  const forward = s.jit(f)
  const gradient = s.jit((q, ys) => s.grad(f)(q, ys))
  const first = [() => free(forward(p, xs)), () => free(...Object.values(gradient(p, xs)))]
  const ms = first.map((g) => `first call ${(cpu(g) / 1000).toFixed(0)} ms, then ${best(g, T)}`)
  console.log(`network, ${name}: value ${ms[0]}; gradient ${ms[1]}`)
}
