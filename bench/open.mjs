/**
 * Programs of open extents beside static ones on WebAssembly: `node open.mjs [--layers N] [--width N] [--rounds N] [--build DIR]`. Layers of
 * BERT's shape at listed batches and lengths, and at others; a recogniser of text (strided and depthwise convolutions, gates, attention over
 * columns) at widths of pictures; a step of a decoder whose cache grows. For each the least processor time of a call of the program of a range and
 * of one of its own, in turns, and their quotient. Of the decoder also what the first call at a length costs, which is every call of it: a trace that
 * is found in the template beside a compilation. One thread.
 */
import { parseArgs } from 'node:util'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    layers: { type: 'string', default: '2' },
    width: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '9' },
    build: { type: 'string' },
  },
})
const [layers, width, rounds] = [options.layers, options.width, options.rounds].map(Number)
const s = await import(new URL('index.js', buildAt(options.build)).href)
s.setDevice('wasm', { threads: 1 })
const [words, positions, heads] = [1000, 512, width / 64]

let seed = 1
const uniform = (shape) =>
  s.tensor(
    Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, () => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
      return (seed / 2 ** 32 - 0.5) / 8
    }),
    { shape },
  )
const weights = Array.from({ length: layers }, () => ({
  qkv: uniform([width, 3 * width]),
  out: uniform([width, width]),
  up: uniform([width, 4 * width]),
  down: uniform([4 * width, width]),
}))
const [table, places] = [uniform([words, width]), uniform([positions, width])]

function encoder(ids, seen) {
  const [b, n] = ids.shape
  const mask = seen.astype('f32').sub(1).mul(1e9).reshape([b, 1, 1, n])
  let x = s.layerNorm(s.take(table, ids).add(places.slice([0, n])))
  for (const { qkv, out, up, down } of weights) {
    const all = x.matmul(qkv)
    const [q, k, v] = [0, 1, 2].map((i) =>
      all
        .slice(null, null, [i * width, (i + 1) * width])
        .reshape([b, n, heads, 64])
        .transpose([0, 2, 1, 3]),
    )
    const shares = s.softmax(
      q
        .matmul(k.swapaxes(-1, -2))
        .mul(1 / 8)
        .add(mask),
      -1,
    )
    x = s.layerNorm(x.add(shares.matmul(v).transpose([0, 2, 1, 3]).reshape([b, n, width]).matmul(out)))
    x = s.layerNorm(x.add(s.gelu(x.matmul(up)).matmul(down)))
  }
  return x
}

const kernels = [
  [16, 32, [2, 1]],
  [32, 64, [1, 1]],
  [64, 96, [2, 2]],
  [96, 128, [2, 1]],
].map(([from, to, stride]) => ({
  stride,
  deep: uniform([from, 1, 3, 3]),
  point: uniform([to, from, 1, 1]),
  squeeze: uniform([to / 4, to, 1, 1]),
  gate: uniform([to, to / 4, 1, 1]),
}))
const [stem, head] = [uniform([16, 3, 3, 3]), uniform([128, 500])]

function recogniser(x) {
  const hardSwish = (y) => y.mul(y.add(3).clip(0, 6).div(6))
  let y = hardSwish(s.conv(x, stem, { stride: 2, padding: 1 }))
  for (const { stride, deep, point, squeeze, gate } of kernels) {
    y = hardSwish(s.conv(y, deep, { stride, padding: 1, groups: y.shape[1] }))
    y = hardSwish(s.conv(y, point))
    y = y.mul(s.sigmoid(s.conv(s.relu(s.conv(y.mean([2, 3], { keepdims: true }), squeeze)), gate)))
  }
  y = s.averagePool(y, [y.shape[2], 2])
  const [n, c, , q] = y.shape
  const columns = y.reshape([n, c, q]).swapaxes(1, 2)
  const shares = s.softmax(columns.matmul(columns.swapaxes(1, 2)).mul(c ** -0.5), -1)
  return s.softmax(s.layerNorm(columns.add(shares.matmul(columns))).matmul(head), -1)
}

/** A step of a decoder: one position, whose keys and values go behind those of the positions before it. */
function decoder(x, caches) {
  const b = x.shape[0]
  const grown = []
  let y = x
  for (const [l, { qkv, out, up, down }] of weights.entries()) {
    const [q, k, v] = [0, 1, 2].map((i) =>
      s
        .layerNorm(y)
        .matmul(qkv)
        .slice(null, null, [i * width, (i + 1) * width])
        .reshape([b, 1, heads, 64])
        .transpose([0, 2, 1, 3]),
    )
    const keys = s.concat([caches[2 * l], k], 2)
    const values = s.concat([caches[2 * l + 1], v], 2)
    const shares = s.softmax(q.matmul(keys.swapaxes(-1, -2)).mul(1 / 8), -1)
    y = y.add(shares.matmul(values).transpose([0, 2, 1, 3]).reshape([b, 1, width]).matmul(out))
    y = y.add(s.gelu(s.layerNorm(y).matmul(up)).matmul(down))
    grown.push(keys, values)
  }
  return [y, ...grown]
}

const disposed = (result) => {
  for (const t of [result].flat()) t.dispose()
}

/** Microseconds of processor time of a call. */
function cpu(f, inputs) {
  const from = process.cpuUsage()
  disposed(f(...inputs))
  const { user, system } = process.cpuUsage(from)
  return user + system
}

/** Prints both times at each of some shapes; `warm` are shapes whose calls make all programs. */
function compare(name, f, declared, inputsAt, warm, groups) {
  const open = s.jit(f, { dynamic: declared })
  for (const shape of warm) {
    const inputs = inputsAt(shape)
    open(...inputs).dispose()
    for (const t of inputs) t.dispose()
  }
  for (const [group, shapes] of Object.entries(groups)) {
    let worst = 0
    for (const shape of shapes) {
      const fixed = s.jit(f)
      const inputs = inputsAt(shape)
      const { closed } = open.explain(...inputs)
      if (closed !== undefined) throw new Error(`${shape.join(' x ')} has a program of its own: ${closed}`)
      let [own, range] = [Infinity, Infinity]
      for (let i = 0; i < rounds + 2; i++) {
        const [x, y] = [cpu(open, inputs), cpu(fixed, inputs)]
        // The engine warms up in the first.
        if (i >= 2) [range, own] = [Math.min(range, x), Math.min(own, y)]
      }
      fixed.dispose()
      for (const t of inputs) t.dispose()
      worst = Math.max(worst, range / own)
      const ms = (us) => `${(us / 1e3).toFixed(2).padStart(8)} ms`
      console.log(
        `${group.padEnd(7)} ${shape.join(' x ').padStart(9)}  open ${ms(range)}  static ${ms(own)}  ${(range / own).toFixed(2)}`,
      )
    }
    console.log(`${name}, ${group}: worst ${worst.toFixed(2)}`)
  }
  open.dispose()
}

const declared = s.spec([s.dim('batch', 1, 8), s.dim('length', 8, positions)], 'i32')
console.log(`BERT, ${layers} layers of ${width}, batch x length`)
compare(
  'BERT',
  encoder,
  [declared, declared],
  ([b, n]) => [
    s.tensor(
      Int32Array.from({ length: b * n }, (_, i) => (7 * i) % words),
      { shape: [b, n] },
    ),
    s.full([b, n], 1, 'i32'),
  ],
  [8, 1].flatMap((b) => [positions, positions - 3].map((n) => [b, n])),
  {
    listed: [1, 8].flatMap((b) => [8, 32, 128, 512].map((n) => [b, n])),
    others: [
      [1, 9],
      [1, 17],
      [1, 47],
      [1, 100],
      [1, 301],
      [2, 13],
      [3, 77],
      [5, 45],
      [7, 200],
    ],
  },
)
/** Prints what steps of the decoder take: calls at a length for the first time, and again. */
function compareSteps(batches, lengths) {
  const past = s.dim('past', 1, 1024)
  const caches = Array.from({ length: 2 * layers }, () => s.spec([s.dim('batch', 1, 8), heads, past, 64]))
  const open = s.jit(decoder, { dynamic: [s.spec([s.dim('batch', 1, 8), 1, width]), caches] })
  const inputsAt = (b, p) => [
    uniform([b, 1, width]),
    Array.from({ length: 2 * layers }, () => uniform([b, heads, p, 64])),
  ]
  const freed = (inputs) => disposed(inputs.flat())
  for (const b of batches)
    for (const p of [1023, 1019]) {
      const inputs = inputsAt(b, p)
      disposed(open(...inputs))
      freed(inputs)
    }
  const ms = (us) => `${(us / 1e3).toFixed(2).padStart(8)} ms`
  for (const b of batches)
    for (const p of lengths) {
      // Lengths one after another, as steps are: the first of them warms the engine.
      const steps = Array.from({ length: 4 }, (_, i) => inputsAt(b, p + i))
      const firsts = steps.map((inputs) => cpu(open, inputs))
      const { closed } = open.explain(...steps[0])
      if (closed !== undefined) throw new Error(`a step behind ${p} positions has a program of its own: ${closed}`)
      const fixed = s.jit(decoder)
      const compiled = steps.map((inputs) => cpu(fixed, inputs))
      let [own, range] = [Infinity, Infinity]
      for (let i = 0; i < rounds + 2; i++) {
        const [x, y] = [cpu(open, steps[0]), cpu(fixed, steps[0])]
        if (i >= 2) [range, own] = [Math.min(range, x), Math.min(own, y)]
      }
      fixed.dispose()
      steps.forEach(freed)
      const [first, compilation] = [firsts, compiled].map((list) => Math.min(...list))
      console.log(
        `${b} x ${p}`.padStart(9) +
          `  new length: open ${ms(first)}  compiled ${ms(compilation)}   again: open ${ms(range)}  static ${ms(own)}  ${(range / own).toFixed(2)}`,
      )
    }
  open.dispose()
}

console.log(`decoder, ${layers} layers of ${width}, batch x positions before`)
compareSteps([1, 8], [7, 100, 400, 900])
console.log('recogniser of text, batch x width')
compare(
  'recogniser',
  recogniser,
  [s.spec([s.dim('batch', 1, 8), 3, 48, s.dim('width', 32, 640)])],
  ([b, w]) => [uniform([b, 3, 48, w])],
  [8, 1].flatMap((b) => [640, 637].map((w) => [b, w])),
  {
    listed: [1, 8].flatMap((b) => [64, 160, 320, 640].map((w) => [b, w])),
    others: [
      [1, 33],
      [1, 101],
      [1, 203],
      [1, 479],
      [3, 90],
      [5, 257],
    ],
  },
)
