/** Measures rows on a device: many calls between two marks of its clock, with inputs in rotation so that the cache does not serve them. */

import { copyBlocks, copyKernel } from '../../src/backends/cuda/copy.ts'
import * as api from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { leaves, makeInputs, size } from './rows.mjs'

export const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b)
  return sorted[sorted.length >> 1]
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

/** What copies a gibibyte by hand on a WebGPU device, and what frees its buffers. */
function webgpuCopy({ backend }, bytes) {
  const [from, to] = [backend.alloc(bytes), backend.alloc(bytes)]
  const { device } = from
  const pipeline = device.pipeline({ source: copyShader, entry: 'main' })
  const entries = [from, to].map(({ buffer }, binding) => ({ binding, resource: { buffer, size: bytes } }))
  const group = device.gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
  return {
    copy: () => device.recorder.dispatch(pipeline, group, bytes >> 18, 32),
    end: () => {
      backend.free(from)
      backend.free(to)
    },
  }
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

/** GB a second, read and written: the driver's copy, a copy kernel, and a negation through the compiler. */
export async function measureCopy(open) {
  const most = open.backend.device?.limits?.maxStorageBufferBindingSize ?? Number.POSITIVE_INFINITY
  const bytes = Math.min(1 << 30, 2 ** Math.floor(Math.log2(most)))
  const best = async (body, n = open.batchMs) => {
    body()
    const times = []
    for (let i = 0; i < 7; i++)
      times.push(
        (await open.time(() => {
          for (let k = 0; k < n; k++) body()
        })) / n,
      )
    return (2 * bytes) / median(times) / 1e6
  }
  const out = {}
  if (open.name === 'cuda') {
    const { backend } = open
    const [from, to] = [backend.alloc(bytes), backend.alloc(bytes)]
    const device = from.device
    out.driver = await best(() => device.context.copy(to.address, from.address, bytes))
    const { fn, source } = device.kernels.load(copyKernel)
    const args = device.context.makeArguments(3)
    args.set(0, to.address)
    args.set(1, from.address)
    args.set(2, bytes)
    const launch = { fn, grid: copyBlocks(bytes), threads: source.threads, sharedBytes: 0, args }
    out.kernel = await best(() => device.context.launch(launch))
    backend.free(from)
    backend.free(to)
  } else {
    const { copy, end } = webgpuCopy(open, bytes)
    await warm(open, 10, () => {
      for (let i = 0; i < 100; i++) copy()
    })
    out.kernel = await best(copy)
    end()
  }
  api.setDevice(open.device)
  const x = api.evaluate(api.zeros([bytes / 4]))
  const neg = api.jit((v) => v.neg())
  out.compiled = await best(() => neg(x).dispose())
  x.dispose()
  return out
}

/**
 * One row; `copy` is the ceiling in GB/s. Peers measure a batch of as many calls after each of the library's batches, so that
 * all see the same machine.
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
  const f = api.jit(row.f, donate === undefined ? {} : { donate })
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
  const once = await open.time(call)
  const most = (row.latency ? 80 : 8) * open.batchMs
  const calls = Math.max(sets, Math.min(most, Math.round(open.batchMs / Math.max(once, 1e-3))))
  await warm(open, 2, () => {
    for (let i = 0; i < calls; i++) call()
  })
  const firsts = Object.assign({}, ...(await peersReady).map((answer) => answer.systems))
  const times = []
  const hosts = []
  const theirs = {}
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
    for (const p of peers)
      for (const [system, t] of Object.entries(await p.ask({ measure: calls }))) {
        theirs[system] ??= []
        theirs[system].push(t)
      }
  }
  const ms = median(times)
  const floorBytes = row.floor(specs)
  const floorMs = floorBytes / copy / 1e6
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
