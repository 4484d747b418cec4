/** Measures rows on a device: many calls between two marks of its clock, with inputs in rotation so that the cache does not serve them. */

import { copyBlocks, copyKernel } from '../../src/backends/cuda/copy.ts'
import * as api from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { Resources } from '../../src/runtime/resources.ts'
import { leaves, makeInputs, size } from './rows.mjs'

export const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b)
  return sorted[sorted.length >> 1]
}

/** Milliseconds of a jitted function's calls: the median and the least of some batches, with its kernels and what they are modelled to take. */
export async function measureCalls(open, run, inputs, batches) {
  const call = () => {
    for (const t of leaves(run(...inputs))) t.dispose()
  }
  const { totals } = run.explain(...inputs)
  const batchOf = (n) =>
    open.time(() => {
      for (let i = 0; i < n; i++) call()
    })
  await batchOf(2)
  const n = Math.max(2, Math.ceil(open.batchMs / ((await batchOf(2)) / 2)))
  const times = []
  for (let i = 0; i < batches; i++) times.push((await batchOf(n)) / n)
  return { ms: median(times), least: Math.min(...times), kernels: totals.kernels, modelled: totals.modelledMs }
}

/** A copy by hand, of two 16-byte words a thread. */
const copyShader = `
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) b: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
  let i = (b.x + b.y * n.x) * 512u + t;
  let first = x[i];
  let second = x[i + 256u];
  y[i] = first;
  y[i + 256u] = second;
}`

/** A copy of `bytes` by hand on a WebGPU device. */
function webgpuWays(device, [from, to], bytes) {
  const pipeline = device.pipeline({ source: copyShader, entry: 'main' }, new Resources(device.residents))
  const entries = [from, to].map(({ memory }, binding) => ({ binding, resource: { buffer: memory, size: bytes } }))
  const group = device.gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
  return { kernel: () => device.recorder.dispatch(pipeline, group, bytes >> 18, 32) }
}

/** The driver's copy of `bytes` and a kernel's on a CUDA device. */
function cudaWays({ context, kernels }, [from, to], bytes) {
  const { fn, source } = kernels.load(copyKernel)
  const args = context.makeArguments(3)
  args.set(0, to.memory)
  args.set(1, from.memory)
  args.set(2, bytes)
  const launch = { fn, grid: copyBlocks(bytes), threads: source.threads, sharedBytes: 0, args }
  return { driver: () => context.copy(to.memory, from.memory, bytes), kernel: () => context.launch(launch) }
}

/** Works until the device's clocks have come up (at most some seconds): one that was idle is several times slower at first. */
async function warm(open, seconds, body) {
  let fastest = Number.POSITIVE_INFINITY
  let steady = 0
  const until = performance.now() + 1e3 * seconds
  while (steady < 8 && performance.now() < until) {
    const ms = await open.time(body)
    steady = ms < 0.98 * fastest ? 0 : ms < 1.02 * fastest ? steady + 1 : steady
    fastest = Math.min(fastest, ms)
  }
}

/**
 * Copies: GB a second, read and written, of the driver's copy, a copy kernel, and a negation through the compiler; and the best
 * of the first two, to be measured in turn with rows.
 */
export async function openCopy(open) {
  const { device } = open.backend
  const most = device.limits?.maxStorageBufferBindingSize ?? Number.POSITIVE_INFINITY
  const bytes = Math.min(1 << 30, 2 ** Math.floor(Math.log2(most)))
  const buffers = [open.backend.alloc(bytes), open.backend.alloc(bytes)]
  const ways = open.name === 'cuda' ? cudaWays(device, buffers, bytes) : webgpuWays(device, buffers, bytes)
  const rateOf = async (body, n) => {
    const ms = await open.time(() => {
      for (let k = 0; k < n; k++) body()
    })
    return (2 * bytes * n) / ms / 1e6
  }
  const typical = async (body) => {
    body()
    const rates = []
    for (let i = 0; i < 7; i++) rates.push(await rateOf(body, open.batchMs))
    return median(rates)
  }
  await warm(open, 10, () => {
    for (let i = 0; i < 2 * open.batchMs; i++) ways.kernel()
  })
  const rates = {}
  for (const [way, body] of Object.entries(ways)) rates[way] = await typical(body)
  const best = Object.keys(ways).reduce((a, b) => (rates[b] > rates[a] ? b : a))
  api.setDevice(open.device)
  const x = api.evaluate(api.zeros([bytes / 4]))
  const neg = api.jit((v) => v.neg())
  rates.compiled = await typical(() => neg(x).dispose())
  x.dispose()
  const end = () => {
    for (const b of buffers) open.backend.free(b)
  }
  return { rates, measure: () => rateOf(ways[best], open.batchMs), end }
}

/**
 * One row. The copy that is its ceiling and peers (a batch of as many calls) are measured after each of the library's batches, so
 * that all see the same machine.
 */
export async function measureRow(open, row, copy, seconds, peers) {
  const peersReady = Promise.all(peers.map((p) => p.ask({ row: row.name })))
  api.setDevice(open.device)
  const specs = row.specs(false)
  const inputBytes = specs.reduce(
    (n, [shape, dtype = 'f32']) => n + size(shape) * (dtype === 'bf16' ? 2 : dtype === 'i8' ? 1 : 4),
    0,
  )
  const donate = row.donates?.(specs.length)
  const sets = row.latency || donate ? 1 : Math.max(2, Math.min(8, Math.ceil((4 * open.l2Bytes) / inputBytes)))
  const inputs = Array.from({ length: sets }, (_, i) => makeInputs(specs, 100 + i).map((t) => api.evaluate(t)))
  const f = api.jit(row.f, {
    ...(donate === undefined ? {} : { donate }),
    ...(row.precision === undefined ? {} : { precision: row.precision }),
  })
  const compileStart = performance.now()
  const explained = f.explain(...inputs[0])
  const compileMs = performance.now() - compileStart
  let turn = 0
  const call = () => {
    const args = inputs[turn++ % sets]
    const out = f(...args)
    if (row.next !== undefined) inputs[0] = row.next(args, leaves(out))
    else for (const t of leaves(out)) t.dispose()
  }
  const firstStart = performance.now()
  call()
  await open.backend.settled()
  const firstMs = performance.now() - firstStart
  for (let i = 0; i < 2 * sets + 2; i++) call()
  const most = (row.latency ? 80 : 8) * open.batchMs
  // Calls of a batch: one call alone may take much longer than its work.
  let calls = sets
  for (;;) {
    const ms = await open.time(() => {
      for (let i = 0; i < calls; i++) call()
    })
    if (calls >= most || ms >= open.batchMs / 2) {
      calls = Math.max(sets, Math.min(most, Math.round((calls * open.batchMs) / ms)))
      break
    }
    calls = Math.min(most, 2 * calls)
  }
  await warm(open, 2, () => {
    for (let i = 0; i < calls; i++) call()
  })
  const firsts = Object.assign({}, ...(await peersReady).map((answer) => answer.systems))
  const times = []
  const hosts = []
  const theirs = {}
  const copies = []
  const until = performance.now() + seconds * 1e3
  while (times.length < 5 || (performance.now() < until && times.length < 50)) {
    let host = 0
    const ms = await open.time(() => {
      const start = performance.now()
      for (let i = 0; i < calls; i++) call()
      host = performance.now() - start
    })
    times.push(ms / calls)
    hosts.push(host / calls)
    copies.push(await copy.measure())
    for (const p of peers)
      for (const [system, t] of Object.entries(await p.ask({ measure: calls }))) {
        theirs[system] ??= []
        theirs[system].push(t)
      }
  }
  const ms = median(times)
  const floorBytes = row.floor(specs)
  const copyRate = median(copies)
  const floorMs = floorBytes / copyRate / 1e6
  const flops = row.flops?.(specs)
  const steps = []
  const resources = []
  if (donate === undefined) {
    const { executable, inputs: bound } = open.recorded.last
    const kernels = kernelsOf(executable.program).map(({ step }) => step)
    const { outputs, times: stepTimes } = await open.backend.profile(executable, bound)
    for (const b of outputs) open.backend.free(b)
    for (const t of stepTimes) {
      const s = executable.program.steps[t.step]
      steps.push({ step: t.step, kind: s?.kind, stage: s?.stage, kernel: s?.kernel?.name ?? s?.name, ms: t.ms })
    }
    if (open.name === 'cuda') resources.push(...open.backend.resources(executable))
    steps.kernels = kernels.length
  }
  for (const set of inputs) for (const t of set) t.dispose()
  const { totals } = explained
  return {
    name: row.name,
    title: row.title,
    ms,
    best: Math.min(...times),
    copyRate,
    hostMs: median(hosts),
    floorMs,
    share: floorMs / ms,
    ...(flops === undefined ? {} : { tflops: flops / ms / 1e9 }),
    floorGB: floorBytes / 1e9,
    plannedGB: totals.bytes / 1e9,
    gbPerSecond: floorBytes / ms / 1e6,
    kernels: totals.kernels,
    steps: [...steps],
    resources,
    compileMs,
    firstMs,
    calls,
    batches: times.length,
    peers: Object.fromEntries(
      Object.entries(firsts).map(([system, first]) => [system, { ms: median(theirs[system] ?? [Number.NaN]), first }]),
    ),
  }
}
