/**
 * Problems of KernelBench (github.com/ScalingIntelligence/KernelBench) as ONNX graphs whose parameters are inputs: times and 64
 * sampled elements of the first result, in the form that its comparison reads. Inputs are made on the device: element i of tensor k
 * comes from a hash of i + 7919 k + 13, so that other systems can make the same.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as api from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { leaves, size } from './rows.mjs'

const dtypes = { float32: 'f32', bfloat16: 'bf16', float16: 'f16', int64: 'i64', int32: 'i32', bool: 'bool' }
const chunk = 2 ** 27

/** Numbers of [0, 1) by position, counted from `start`. */
const uniform = (n, start) => {
  const word = (v) => api.full([], v, 'u32')
  const i = api.arange(0, n, 1, 'u32').add(start).mul(word(2654435761))
  const a = api.bitwiseXor(i, api.rightShift(i, word(15))).mul(word(2246822519))
  return api
    .rightShift(api.bitwiseXor(a, api.rightShift(a, word(13))), word(8))
    .astype('f32')
    .mul(2 ** -24)
}

const makers = new Map()
/** A jitted maker of `n` elements of a kind. */
function maker(n, spec) {
  const key = `${n} ${spec.dtype} ${spec.kind} ${spec.low} ${spec.high}`
  if (!makers.has(key))
    makers.set(
      key,
      api.jit((start) => {
        const u = uniform(n, start)
        const { kind } = spec
        if (kind === 'bool') return u.greater(0.5)
        if (kind.startsWith('int:')) return api.floor(u.mul(Number(kind.slice(4)))).astype(dtypes[spec.dtype])
        const [low, high] = kind === 'weight' ? [spec.low, spec.high] : kind === 'randn' ? [-1, 1] : [0, 1]
        return u
          .mul(high - low)
          .add(low)
          .astype(dtypes[spec.dtype])
      }),
    )
  return makers.get(key)
}

/** Tensor number `k` of a problem. */
function makeTensor(spec, k) {
  const n = size(spec.shape)
  const parts = []
  for (let at = 0; at < n; at += chunk)
    parts.push(maker(Math.min(chunk, n - at), spec)(api.tensor([(at + 7919 * k + 13) % 2 ** 32], { dtype: 'u32' })))
  if (parts.length === 1) return api.evaluate(parts[0].reshape(spec.shape))
  const whole = api.evaluate(api.concat(parts).reshape(spec.shape))
  for (const p of parts) p.dispose()
  return whole
}

const samples = (y, n) => {
  const at = Array.from({ length: Math.min(64, n) }, (_, i) =>
    Math.floor((i * (n - 1)) / Math.max(1, Math.min(64, n) - 1)),
  )
  return api.take(y.reshape([n]), api.tensor(at, { dtype: n > 2 ** 31 ? 'i64' : 'i32' })).astype('f32')
}

/**
 * A step of training a problem: gradients in the parameters of these names and the loss, the mean of the problem's first result times `target`.
 */
const stepOf =
  (model, names) =>
  ({ target, ...x }) => {
    const loss = (w) =>
      leaves(model.apply(model.parameters, { ...x, ...w }))[0]
        .mul(target)
        .mean()
    const [value, gradients] = api.valueAndGrad(loss)(Object.fromEntries(names.map((name) => [name, x[name]])))
    return [...names.map((name) => gradients[name]), value]
  }

/**
 * Keeps a device at work for a while. A GPU that was idle while the host compiled runs at its least clock (345 MHz of an H200's 1980) for the first 200 ms of
 * work and longer, where all takes six times as long.
 */
async function awake(open, call) {
  for (const until = performance.now() + 500; performance.now() < until; )
    await open.time(() => {
      for (let i = 0; i < 8; i++) call()
    })
}

/** A problem's times (a call's, and once with a clock around each step), what was modelled, samples and the precision of its products; an error where its inputs have more than `limit` bytes. */
export async function measureProblem(open, folder, name, { inputs, weights, ops, train }, limit) {
  api.setDevice(open.device)
  const target = train && {
    name: 'target',
    shape: train.target,
    dtype: weights[0].dtype,
    kind: 'weight',
    low: -1,
    high: 1,
  }
  const specs = [...inputs, ...weights, ...(target === undefined ? [] : [target])]
  const bytes = specs.reduce((n, s) => n + size(s.shape) * 4, 0)
  if (bytes > limit) return { error: `inputs of ${(bytes / 1e9).toFixed(0)} GB` }
  const args = Object.fromEntries(specs.map((s, k) => [s.name, makeTensor(s, k)]))
  const before = { ...open.backend.kernelTimes }
  const start = performance.now()
  const model = importOnnx(readFileSync(join(folder, 'onnx', `${name}.onnx`)))
  // Convolutions in tf32, as in PyTorch; other products as close as f32.
  const precision = ops.some((op) => op.includes('Conv')) ? 'tf32' : 'tf32x3'
  const program = train === undefined ? (x) => model.apply(model.parameters, x) : stepOf(model, train.parameters)
  const f = api.jit(program, { precision })
  const first = f(args)
  await open.backend.settled()
  const seconds = (performance.now() - start) / 1e3
  const made = Object.entries(open.backend.kernelTimes ?? {}).map(([part, ms]) => [part, (ms - before[part]) / 1e3])
  const [y] = leaves(first)
  const sample = [...(await samples(y, size(y.shape)).data())]
  for (const t of leaves(first)) t.dispose()
  const call = () => {
    for (const t of leaves(f(args))) t.dispose()
  }
  const { totals, kernels } = f.explain(args)
  await awake(open, call)
  const { executable, inputs: bound } = open.recorded.last
  const once = await open.time(call)
  const calls = Math.max(1, Math.min(50, Math.floor((1.2 * open.batchMs) / Math.max(once, 1e-3))))
  const times = []
  const begun = performance.now()
  while (times.length < 3 || (times.length < 9 && performance.now() - begun < 16 * open.batchMs)) {
    const ms = await open.time(() => {
      for (let i = 0; i < calls; i++) call()
    })
    times.push(ms / calls)
  }
  const { outputs, times: stepTimes } = await open.backend.profile(executable, bound)
  for (const b of outputs) open.backend.free(b)
  const steps = stepTimes.map(({ step, ms }) => {
    const s = executable.program.steps[step]
    return { name: s?.kernel?.name ?? s?.name ?? s?.kind, stage: s?.stage, ms }
  })
  for (const t of Object.values(args)) t.dispose()
  f.dispose()
  return {
    precision,
    ms: times.sort((p, q) => p - q)[times.length >> 1],
    first: seconds,
    firstParts: Object.fromEntries(made),
    kernels: totals.kernels,
    modelled: kernels.map((k) => k.modelledMs),
    steps,
    sample,
  }
}
