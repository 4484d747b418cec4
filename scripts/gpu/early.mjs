/**
 * Kernels of a graph that start before those they follow have ended (CUDA): every setting of `earlyStart` measured in turn on rows
 * and on chains of small kernels, and its results compared bit for bit with those of plain edges.
 */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import * as api from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { median } from './measure.mjs'
import { leaves, makeInputs, rows, size } from './rows.mjs'

const settings = ['never', 'exit', 'work', 'start']

const named = [
  'int8_matmul',
  'int8_matmul_wide',
  'relu_bias_backward',
  'sum_exp',
  'layernorm_backward',
  'cross_entropy',
  'tanh_means',
  'matmul_gelu',
]

const square = (n, dtype) => [[n, n], dtype]

/** Ten steps, each on the result of the one before; products are kernels of ours. */
const chain = (name, title, specs, step) => ({
  name,
  title,
  specs: () => specs,
  f: (x, ...more) => {
    let y = x
    for (let i = 0; i < 10; i++) y = step(y, more, i)
    return y
  },
  latency: true,
  target: cudaTarget,
})

const chains = [
  chain('chain_products', '10 products of 512^3 bf16', [square(512, 'bf16'), square(512, 'bf16')], (y, [w]) =>
    y.matmul(w).mul(0.04),
  ),
  chain(
    'chain_layers',
    '10 products of 512^3 bf16, each with bias, GELU and normalisation',
    [square(512, 'bf16'), square(512, 'bf16'), [[512], 'bf16']],
    (y, [w, b]) => api.nn.layerNorm(api.nn.gelu(y.matmul(w).add(b))).astype('bf16'),
  ),
  chain(
    'chain_few_rows',
    '10 products of 16 rows with 4096 x 4096 bf16, each with its finishing stage',
    [[[16, 4096], 'bf16'], square(4096, 'bf16')],
    (y, [w]) => y.matmul(w).mul(0.015),
  ),
]

/** Most elements of results that are compared. */
const compared = 1 << 22

/** A row on a device, with what a call takes; `result` gives the bytes of what the first inputs give. */
function running(row, device, l2Bytes) {
  api.setDevice(device)
  const specs = row.specs(false)
  const bytes = specs.reduce((n, [shape]) => n + 2 * size(shape), 0)
  const sets = row.latency ? 1 : Math.max(2, Math.min(8, Math.ceil((4 * l2Bytes) / bytes)))
  const inputs = Array.from({ length: sets }, (_, i) => makeInputs(specs, 100 + i).map((t) => api.evaluate(t)))
  const f = api.jit(row.f)
  let turn = 0
  const call = () => {
    api.setDevice(device)
    for (const t of leaves(f(...inputs[turn++ % sets]))) t.dispose()
  }
  const { totals } = f.explain(...inputs[0])
  for (let i = 0; i < 2 * sets + 2; i++) call()
  return {
    call,
    kernels: totals.kernels,
    stages: totals.stages ?? 0,
    async result() {
      api.setDevice(device)
      const out = leaves(f(...inputs[0]))
      const read = []
      for (const t of out)
        if (size(t.shape) <= compared) {
          const data = await t.data()
          read.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength))
        }
      for (const t of out) t.dispose()
      return read
    },
    dispose() {
      for (const set of inputs) for (const t of set) t.dispose()
    },
  }
}

const same = (a, b) => a.length === b.length && a.every((x, i) => x.equals(b[i]))

/** Milliseconds of each row under each setting; `wanted`: rows by name, all of those above unless given. */
export async function measureEarlyStart(open, { wanted, index, seconds, report }) {
  const backends = settings.map((earlyStart) => createCudaBackend({ index, earlyStart }))
  const list = [...named.flatMap((n) => rows.filter((r) => r.name === n)), ...chains]
  const results = []
  console.log(`  ${settings.map((s) => `${s} us`.padStart(10)).join('')}   kernels  row`)
  for (const row of list) {
    if (wanted !== undefined && !wanted.includes(row.name)) continue
    try {
      const each = backends.map((b) =>
        running(row, createCompiledDevice('cuda', b, row.target ?? open.target), open.l2Bytes),
      )
      const once = backends[0].timed(each[0].call)
      const calls = Math.max(2, Math.min(500, Math.round(20 / Math.max(once, 1e-3))))
      const times = settings.map(() => [])
      const until = performance.now() + 1e3 * seconds
      while (times[0].length < 5 || (performance.now() < until && times[0].length < 200))
        backends.forEach((b, i) => {
          times[i].push(
            b.timed(() => {
              for (let k = 0; k < calls; k++) each[i].call()
            }) / calls,
          )
        })
      const us = times.map((t) => 1e3 * median(t))
      // Hazards would be rare: small results are made many times.
      const want = await each[0].result()
      const rounds = want.reduce((n, b) => n + b.length, 0) < 1 << 22 ? 100 : 3
      const wrong = []
      for (let i = 1; i < each.length; i++)
        for (let k = 0; k < rounds; k++) {
          for (let ahead = 0; ahead < k % 4; ahead++) each[i].call()
          if (same(want, await each[i].result())) continue
          wrong.push(`${settings[i]}, run ${k}`)
          break
        }
      for (const e of each) e.dispose()
      const { kernels } = each[0]
      results.push({ name: row.name, kernels, us: Object.fromEntries(settings.map((s, i) => [s, us[i]])), wrong })
      console.log(
        `  ${us.map((x) => x.toFixed(2).padStart(10)).join('')}  ${String(kernels).padStart(8)}  ${row.title}`,
      )
      report(row.name, wrong.length === 0 ? undefined : `results differ from those of plain edges: ${wrong.join('; ')}`)
    } catch (e) {
      results.push({ name: row.name, error: String(e) })
      report(row.name, e instanceof Error ? (e.stack ?? e.message) : String(e))
    }
  }
  for (const b of backends) b.dispose()
  api.setDevice(open.device)
  return results
}
