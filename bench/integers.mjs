/**
 * Products and convolutions of bytes beside those of f32, on WebAssembly: `node integers.mjs [--build DIR,DIR] [--threads 1] [--rounds 25]`.
 * Builds and rows in turn; the least and the median of the rounds in milliseconds, and operations a second of the least.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    build: { type: 'string', default: '../dist' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '25' },
  },
})

/** Rows, depth and columns; columns of the second operand stand side by side, or its depth. */
const products = [
  [512, 512, 512],
  [128, 768, 3072],
  [128, 3072, 768],
  [16, 768, 768],
  [200, 64, 200],
]
/** Shapes of image and weights, and options. */
const convolutions = [
  ['3 x 3, 64 to 64, 56 x 56', [1, 64, 56, 56], [64, 64, 3, 3], { padding: 1 }],
  ['1 x 1, 64 to 128, 56 x 56', [1, 64, 56, 56], [128, 64, 1, 1], {}],
  ['3 x 3, 3 to 32, 224 x 224 by 2', [1, 3, 224, 224], [32, 3, 3, 3], { padding: 1, stride: 2 }],
  ['3 x 3, 96 apart, 56 x 56', [1, 96, 56, 56], [96, 1, 3, 3], { padding: 1, groups: 96 }],
]

const cases = []
for (const build of options.build.split(',')) {
  const s = await import(new URL('index.js', buildAt(build)).href)
  s.setDevice('wasm', { threads: Number(options.threads) })
  const key = s.random.key(1)
  const draw = (shape, dtype) =>
    dtype === 'f32'
      ? s.random.normal(key, shape).evaluate()
      : s.random
          .integers(key, shape, dtype === 'u8' ? 0 : -127, dtype === 'u8' ? 256 : 128)
          .astype(dtype)
          .evaluate()
  const add = (name, f, args, flops) => {
    const g = s.jit(f)
    g(...args).dispose()
    cases.push({ name: `${build}  ${name}`, run: () => g(...args), flops, times: [] })
  }
  const wide = (x) => x.astype('i32')
  for (const [m, k, n] of products) {
    const name = `${m} x ${k} x ${n}`
    const flops = 2 * m * k * n
    const [u, v, w] = [draw([m, k], 'u8'), draw([k, n], 'i8'), draw([n, k], 'i8')]
    add(`f32 ${name}`, (a, b) => a.matmul(b), [draw([m, k], 'f32'), draw([k, n], 'f32')], flops)
    add(`u8 x i8 ${name}`, (a, b) => wide(a).matmul(wide(b)), [u, v], flops)
    add(`u8 x i8 ${name}, depth innermost`, (a, b) => wide(a).matmul(wide(b).transpose()), [u, w], flops)
  }
  for (const [name, x, w, how] of convolutions) {
    const stride = how.stride ?? 1
    const flops = (2 * w.reduce((a, b) => a * b, 1) * x[2] * x[3]) / stride ** 2
    add(`f32 ${name}`, (a, b) => s.conv2d(a, b, how), [draw(x, 'f32'), draw(w, 'f32')], flops)
    add(`u8 x i8 ${name}`, (a, b) => s.conv2d(wide(a), wide(b), how), [draw(x, 'u8'), draw(w, 'i8')], flops)
  }
}

for (let r = 0; r < Number(options.rounds); r++)
  for (const c of cases) {
    const start = performance.now()
    const y = c.run()
    await y.data()
    c.times.push(performance.now() - start)
    y.dispose()
  }
for (const { name, times, flops } of cases) {
  times.sort((a, b) => a - b)
  const [least, median] = [times[0], times[times.length >> 1]]
  console.log(
    `${name}: least ${least.toFixed(3)} ms, median ${median.toFixed(3)}, ${(flops / least / 1e6).toFixed(1)} G/s`,
  )
}
process.exit(0)
