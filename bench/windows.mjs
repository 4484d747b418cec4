/**
 * Convolutions beside what the machine can do, on WebAssembly: `node windows.mjs [--build DIR,DIR] [--rows depthwise,channels,windows] [--threads 1] [--rounds 15]
 * [--worst 20]`. Builds and rows in turn. Of each row: the least milliseconds and the median, operations a second, and its share: the time that the machine would
 * take at best (operations at the rate of a 512^3 product, or bytes at the rate of a pass of relu over as many; measured in the same rounds) over the least.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    build: { type: 'string', default: '../dist' },
    rows: { type: 'string', default: 'depthwise,channels,windows' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '15' },
    match: { type: 'string', default: '' },
    worst: { type: 'string', default: '0' },
  },
})

/** A convolution: channels in and out, side of the image, kernel, and options; `last` where channels stand last in memory, of weights too. */
const depthwise = []
for (const last of [false, true]) {
  for (const kernel of [1, 2, 3, 4, 5, 6, 7]) depthwise.push({ channels: 96, side: 56, kernel, last })
  for (const [channels, side] of [
    [1, 224],
    [3, 224],
    [8, 112],
    [32, 112],
    [144, 56],
    [192, 28],
    [384, 14],
    [512, 14],
    [512, 7],
    [100, 57],
    [30, 13],
  ])
    for (const kernel of [3, 5]) depthwise.push({ channels, side, kernel, last })
  for (const [channels, side] of [
    [96, 112],
    [144, 56],
    [512, 14],
    [33, 57],
  ])
    for (const kernel of [3, 5, 7]) depthwise.push({ channels, side, kernel, last, stride: 2 })
  for (const dilation of [2, 3]) depthwise.push({ channels: 96, side: 56, kernel: 3, last, dilation })
  depthwise.push({ channels: 96, side: 56, kernel: 3, last, padding: 0 })
  depthwise.push({ channels: 96, side: 56, kernel: 3, last, padding: 2 })
  depthwise.push({ channels: 48, side: 56, kernel: 3, last, multiplier: 2 })
}
for (const d of depthwise) {
  d.groups = d.channels
  d.out = d.channels * (d.multiplier ?? 1)
}
const channels = []
for (const last of [false, true])
  for (const [from, to, side, kernel, stride] of [
    [3, 32, 224, 3, 2],
    [3, 64, 224, 7, 2],
    [1, 8, 112, 5, 1],
    [1, 32, 28, 3, 1],
    [4, 4, 112, 3, 1],
    [8, 8, 56, 3, 1],
    [8, 8, 64, 9, 1],
    [16, 16, 56, 3, 1],
    [3, 3, 224, 3, 1],
    [16, 3, 112, 3, 1],
  ])
    channels.push({ channels: from, out: to, side, kernel, stride, groups: 1, last })
const windows = []
for (const last of [false, true])
  for (const [from, to, side, kernel, stride, groups] of [
    [64, 64, 56, 3, 1],
    [128, 128, 28, 3, 1],
    [256, 256, 14, 3, 1],
    [512, 512, 7, 3, 1],
    [64, 128, 56, 3, 2],
    [16, 64, 56, 3, 1],
    [32, 32, 57, 5, 1],
    [64, 64, 56, 1, 1],
    [256, 64, 56, 1, 1],
    [96, 24, 56, 1, 1],
    [128, 256, 28, 1, 2],
    [64, 64, 56, 3, 1, 4],
    [128, 128, 56, 3, 1, 32],
  ])
    windows.push({ channels: from, out: to, side, kernel, stride, groups: groups ?? 1, last })
const rows = { depthwise, channels, windows }

const nameOf = (c) =>
  [
    `${c.kernel} x ${c.kernel}`,
    `${c.channels}${c.out === c.channels ? '' : ` to ${c.out}`}`,
    c.groups === 1 ? '' : c.groups === c.channels ? 'apart' : `in ${c.groups}`,
    `of ${c.side} x ${c.side}`,
    c.stride > 1 ? `by ${c.stride}` : '',
    c.dilation > 1 ? `dilated ${c.dilation}` : '',
    c.padding === undefined ? '' : `padded ${c.padding}`,
    c.last ? 'last' : '',
  ]
    .filter((s) => s !== '')
    .join(' ')

const cases = []
for (const build of options.build.split(',')) {
  const s = await import(new URL('index.js', buildAt(build)).href)
  s.setDevice('wasm', { threads: Number(options.threads) })
  const key = s.random.key(1)
  const draw = (shape) => s.random.normal(key, shape).evaluate()
  const add = (kind, name, f, args, work) => {
    const g = s.jit(f)
    g(...args).dispose()
    const c = { kind, build, name, run: () => g(...args), times: [], ...work }
    cases.push(c)
    return c
  }
  const product = add('rate', 'product', (a, b) => a.matmul(b), [draw([512, 512]), draw([512, 512])], {
    flops: 2 * 512 ** 3,
  })
  const passes = new Map()
  for (const kind of options.rows.split(','))
    for (const c of rows[kind]) {
      const { kernel, stride = 1, dilation = 1, groups, side } = c
      const span = dilation * (kernel - 1) + 1
      const padding = c.padding ?? (kernel % 2 === 1 ? (span - 1) / 2 : kernel >> 1)
      const to = Math.floor((side + 2 * padding - span) / stride) + 1
      const how = { padding, stride, dilation, groups }
      const name = nameOf(c)
      if (!name.includes(options.match)) continue
      const x = draw(c.last ? [1, side, side, c.channels] : [1, c.channels, side, side])
      const w = draw(
        c.last ? [kernel, kernel, c.channels / groups, c.out] : [c.out, c.channels / groups, kernel, kernel],
      )
      const f = c.last
        ? (a, b) => s.conv2d(a.transpose([0, 3, 1, 2]), b.transpose([3, 2, 0, 1]), how).transpose([0, 2, 3, 1])
        : (a, b) => s.conv2d(a, b, how)
      const flops = (2 * c.out * c.channels * (kernel * to) ** 2) / groups
      const bytes = 4 * (c.channels * side ** 2 + c.out * to ** 2 + (c.out * c.channels * kernel ** 2) / groups)
      const size = 2 ** Math.ceil(Math.log2(bytes / 8))
      if (!passes.has(size))
        passes.set(
          size,
          add('rate', `pass ${size}`, (a) => s.maximum(a, 0), [draw([size])], { bytes: 8 * size }),
        )
      add(kind, name, f, [x, w], { flops, bytes, product, pass: passes.get(size) })
    }
}

for (let r = 0; r < Number(options.rounds); r++)
  for (const c of cases) {
    // Short calls are repeated, so that a timing is of half a millisecond.
    const calls = c.calls ?? 1
    const start = performance.now()
    for (let i = 0; i < calls; i++) c.run().dispose()
    const taken = (performance.now() - start) / calls
    if (r > 0) c.times.push(taken)
    if (r < 2) c.calls = Math.min(200, Math.max(1, Math.ceil(0.5 / taken)))
  }
const least = (c) => Math.min(...c.times)
const median = (c) => c.times.sort((a, b) => a - b)[c.times.length >> 1]
const shareOf = (c) =>
  Math.max((c.flops / c.product.flops) * least(c.product), (c.bytes / c.pass.bytes) * least(c.pass)) / least(c)
const line = (c) =>
  `${c.build}  ${c.kind} ${c.name}: least ${least(c).toFixed(4)} ms, median ${median(c).toFixed(4)}` +
  (c.flops === undefined
    ? `, ${(c.bytes / least(c) / 1e6).toFixed(1)} GB/s`
    : `, ${(c.flops / least(c) / 1e6).toFixed(1)} G/s`) +
  (c.product === undefined
    ? ''
    : `, ${(c.flops / c.product.flops) * least(c.product) > (c.bytes / c.pass.bytes) * least(c.pass) ? 'product' : 'memory'} ${(100 * shareOf(c)).toFixed(0)}%`)
const measured = cases.filter((c) => c.product !== undefined)
const worst = Number(options.worst)
if (worst > 0) measured.sort((a, b) => shareOf(a) - shareOf(b)).splice(worst)
for (const c of [...cases.filter((c) => c.product === undefined), ...measured]) console.log(line(c))
process.exit(0)
