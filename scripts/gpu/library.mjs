/** The device's library of matrix products: right against float64 in every layout, and its rates beside those of our kernels. */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import * as api from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import { leaves, makeInputs } from './rows.mjs'

/** A target that gives the library whatever it can. */
const eager = (target) => ({
  ...target,
  matrixRate: 1e3,
  plainMatrixRate: 1e3,
  prices: pricesByClass({ simple: 1e6, divide: 1e6, special: 1e6, random: 1e6 }),
  library: { ...target.library, leastFlops: 1, launch: 1e-9 },
})

const t = (x) => x.transpose([1, 0])

/** Programs at odd sizes: [name, shapes, program]. */
const layouts = [
  [
    'rows',
    [
      [129, 67],
      [67, 93],
    ],
    (a, b) => a.matmul(b),
  ],
  [
    'first transposed',
    [
      [67, 129],
      [67, 93],
    ],
    (a, b) => t(a).matmul(b),
  ],
  [
    'second transposed',
    [
      [129, 67],
      [93, 67],
    ],
    (a, b) => a.matmul(t(b)),
  ],
  [
    'both, and the result',
    [
      [67, 129],
      [93, 67],
    ],
    (a, b) => t(t(a).matmul(t(b))),
  ],
  ['with itself', [[70, 67]], (a) => a.matmul(t(a))],
  [
    'batches',
    [
      [5, 33, 67],
      [5, 67, 41],
    ],
    (a, b) => a.matmul(b),
  ],
  [
    'a shared operand',
    [
      [33, 67],
      [5, 67, 41],
    ],
    (a, b) => a.matmul(b),
  ],
  [
    'heads side by side',
    [
      [3, 35, 2, 24],
      [3, 2, 47, 24],
    ],
    (q, k) => api.einsum('bshd,bhtd->bhst', q, k),
  ],
  [
    'a slice, scaled',
    [
      [80, 90],
      [64, 40],
    ],
    (a, b) => a.slice([3, 70], [5, 69]).matmul(b).mul(0.125),
  ],
  [
    'aligned',
    [
      [256, 128],
      [128, 192],
    ],
    (a, b) => a.matmul(b),
  ],
  [
    'into single precision',
    [
      [129, 64],
      [64, 96],
    ],
    (a, b) => a.astype('f32').matmul(b.astype('f32')),
  ],
  ['bias and GELU behind', [[129, 64], [64, 96], [96]], (a, b, c) => api.nn.gelu(a.matmul(b).add(c))],
]

const tolerance = { f32: 2e-5, f64: 1e-12, f16: 4e-3, bf16: 3e-2 }

async function layoutCase(device, [, shapes, f], dtype) {
  api.setDevice('reference')
  const keys = api.random.split(api.random.key(11), shapes.length + 1)
  const made = shapes.map((shape, i) => api.random.normal(keys[i], shape).astype(dtype))
  const data = made.map((x) => ({ data: x.dataSync(), shape: x.shape }))
  const run = async (on) => {
    api.setDevice(on)
    const args = data.map((x) => api.tensor(x.data, { shape: x.shape, dtype }))
    const g = api.jit(f)
    let out
    // The first run goes call by call, later ones by captured graphs.
    for (let i = 0; i < 3; i++) out = await leaves(g(...args))[0].data()
    return { out, report: on === 'reference' ? undefined : g.explain(...args) }
  }
  const want = (await run('reference')).out
  const { out: got, report } = await run(device)
  if (!report.kernels.some((k) => k.kind === 'library'))
    return `no library call: ${report.kernels.map((k) => k.library?.detail ?? k.kind)}`
  for (let i = 0; i < want.length; i++) {
    const [g, w] = [Number(got[i]), Number(want[i])]
    if (!(Math.abs(g - w) <= tolerance[dtype] * (8 + Math.abs(w)))) return `[${i}] is ${g}, expected ${w}`
  }
  return undefined
}

const product = (label, dtype, m, k, n) => ({
  label: `${m} x ${k} x ${n} ${dtype}`.concat(label === '' ? '' : `, ${label}`),
  specs: [
    [[m, k], dtype],
    [label === 'w^T' ? [n, k] : [k, n], dtype],
  ],
  f: (a, b) => a.matmul(label === 'w^T' ? t(b) : b),
  flops: 2 * m * k * n,
})

/** Ten products one after another, so that the launch of one graph is shared. */
const chained = (n, rows = n) => ({
  label: `10 of ${rows} x ${n} x ${n} bf16, dependent`,
  specs: [
    [[rows, n], 'bf16'],
    [[n, n], 'bf16'],
  ],
  f: (x, w) => {
    let y = x
    for (let i = 0; i < 10; i++) y = y.matmul(w)
    return y
  },
  flops: 20 * rows * n * n,
})

/** Products whose rates the model's constants come from. */
const rated = [
  product('', 'bf16', 8192, 8192, 8192),
  product('', 'bf16', 8192, 4096, 4096),
  product('w^T', 'bf16', 8192, 4096, 11008),
  product('', 'f16', 8192, 4096, 4096),
  product('', 'bf16', 2048, 2048, 2048),
  product('', 'bf16', 1024, 1024, 1024),
  product('', 'bf16', 512, 512, 512),
  chained(512),
  chained(1024),
  chained(2048),
  chained(4096, 16),
  product('', 'bf16', 16, 8192, 8192),
  product('', 'f32', 4096, 4096, 4096),
  product('', 'f32', 1024, 1024, 1024),
  product('', 'f64', 2048, 2048, 2048),
  {
    label: '64 of 1024 x 128 x 1024 bf16',
    specs: [
      [[64, 1024, 128], 'bf16'],
      [[64, 1024, 128], 'bf16'],
    ],
    f: (q, k) => q.matmul(k.transpose([0, 2, 1])),
    flops: 2 * 64 * 1024 * 128 * 1024,
  },
]

async function rate(open, device, { specs, f }, seconds) {
  api.setDevice(device)
  const inputs = makeInputs(
    specs.map(([shape]) => [shape]),
    3,
  ).map((x, i) => api.evaluate(x.astype(specs[i][1])))
  const g = api.jit(f)
  const { totals } = g.explain(...inputs)
  const call = () => {
    for (const x of leaves(g(...inputs))) x.dispose()
  }
  for (let i = 0; i < 3; i++) call()
  const once = await open.time(call)
  const calls = Math.max(3, Math.min(200, Math.round(10 / once)))
  const times = []
  const until = performance.now() + seconds * 1e3
  while (times.length < 3 || (performance.now() < until && times.length < 30))
    times.push(
      (await open.time(() => {
        for (let i = 0; i < calls; i++) call()
      })) / calls,
    )
  for (const x of inputs) x.dispose()
  times.sort((a, b) => a - b)
  return { ms: times[times.length >> 1], modelledMs: totals.modelledMs, library: (totals.libraryCalls ?? 0) > 0 }
}

/** Checks the layouts; then measures, unless `seconds` is 0. */
export async function checkLibrary(open, { seconds, report }) {
  const results = []
  if (open.target.library === undefined) {
    console.log('no library of matrix products on this device')
    return results
  }
  const device = createCompiledDevice('cuda', open.recorded, eager(open.target))
  for (const c of layouts)
    for (const dtype of ['f32', 'bf16', 'f16', 'f64']) {
      if (dtype === 'f64' && c[0] === 'into single precision') continue
      let why
      try {
        why = await layoutCase(device, c, dtype)
      } catch (e) {
        why = e instanceof Error ? (e.stack ?? e.message).slice(0, 600) : String(e)
      }
      results.push({ name: `${c[0]} ${dtype}`, ...(why === undefined ? {} : { why }) })
      report(`library: ${c[0]}, ${dtype}`, why)
    }
  if (seconds === 0) return results
  const own = createCompiledDevice('cuda', open.recorded, cudaTarget)
  console.log('  library ms  Tflop/s  modelled   kernel ms  Tflop/s  modelled   product')
  for (const r of rated) {
    try {
      const [l, k] = [await rate(open, device, r, seconds), await rate(open, own, r, seconds)]
      const column = (x) =>
        `${x.ms.toFixed(4).padStart(9)}  ${(r.flops / x.ms / 1e9).toFixed(1).padStart(7)}  ${x.modelledMs.toFixed(4).padStart(8)}`
      console.log(`  ${column(l)}  ${column(k)}   ${r.label}${l.library ? '' : ' (no call)'}`)
      results.push({ name: r.label, library: l, kernel: k })
    } catch (e) {
      console.log(`  FAILED ${r.label}: ${String(e).slice(0, 500)}`)
    }
  }
  return results
}
