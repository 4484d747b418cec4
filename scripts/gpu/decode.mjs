/**
 * One decoding step of a model of Llama-3.2-1B's shape (batch 1, bf16) in plain operations: rotary embedding, grouped heads over caches of
 * 1,024 positions that are updated in place, gated feed-forward layers, and the tied embedding's product under argmax.
 */
import * as api from '../../src/index.ts'
import { median } from './measure.mjs'
import { makeInputs, size } from './rows.mjs'

const [layers, width, heads, keyHeads, head, inner, words, positions] = [16, 2048, 32, 8, 64, 8192, 128256, 1024]
const { concat, dynamicUpdateSlice, nn } = api
const f32 = (x) => x.astype('f32')
const bf16 = (x) => x.astype('bf16')

const normalised = (h, w) => {
  const x = f32(h)
  return bf16(x.mul(x.square().mean(-1, { keepdims: true }).add(1e-6).rsqrt())).mul(w)
}

/** The next token and the caches, from a token, its position, shared weights, weights of layers and caches. */
function step(token, position, { embedding, norm, cos, sin }, weights, caches) {
  const [c, s] = [cos.take(position, 0), sin.take(position, 0)]
  const rotated = (x) => {
    const [p, q] = [f32(x.slice(null, [0, head / 2])), f32(x.slice(null, [head / 2, head]))]
    return bf16(concat([p.mul(c).sub(q.mul(s)), q.mul(c).add(p.mul(s))], -1))
  }
  const at = [0, position.reshape([]), 0]
  let x = embedding.take(token, 0)
  const next = []
  weights.forEach(([n1, qkv, out, n2, gated, down], i) => {
    const all = normalised(x, n1)
      .matmul(qkv)
      .reshape([heads + 2 * keyHeads, head])
    const q = rotated(all.slice([0, heads])).reshape([keyHeads, heads / keyHeads, head])
    const k = rotated(all.slice([heads, heads + keyHeads])).reshape([keyHeads, 1, head])
    const v = all.slice([heads + keyHeads, heads + 2 * keyHeads]).reshape([keyHeads, 1, head])
    const [keys, values] = [k, v].map((y, j) => dynamicUpdateSlice(caches[i][j], y, at))
    next.push([keys, values])
    const scores = f32(q.matmul(keys.transpose([0, 2, 1]))).mul(head ** -0.5)
    x = x.add(
      bf16(nn.softmax(scores, -1))
        .matmul(values)
        .reshape([1, heads * head])
        .matmul(out),
    )
    const y = normalised(x, n2).matmul(gated)
    x = x.add(
      nn
        .silu(y.slice(null, [0, inner]))
        .mul(y.slice(null, [inner, 2 * inner]))
        .matmul(down),
    )
  })
  return [normalised(x, norm).matmul(embedding.transpose()).argmax(-1), next]
}

const made = (shapes, seed, dtype = 'bf16') =>
  makeInputs(
    shapes.map((shape) => [shape, dtype]),
    seed,
  ).map((t) => api.evaluate(t.mul(0.02)))

/** Milliseconds a step, with its floor: weights and caches once at the rate of a copy. */
export async function measureDecode(open, copy) {
  api.setDevice(open.device)
  const [embedding, norm] = made([[words, width], [width]], 1)
  const [cos, sin] = made(
    [
      [positions, head / 2],
      [positions, head / 2],
    ],
    2,
    'f32',
  )
  const shapes = [
    [width],
    [width, (heads + 2 * keyHeads) * head],
    [heads * head, width],
    [width],
    [width, 2 * inner],
    [inner, width],
  ]
  const weights = Array.from({ length: layers }, (_, i) => made(shapes, 10 + i))
  const cache = [keyHeads, positions, head]
  let caches = Array.from({ length: layers }, (_, i) => made([cache, cache], 100 + i))
  const token = api.tensor([5], { dtype: 'i32' })
  const position = api.tensor([positions - 1], { dtype: 'i32' })
  const f = api.jit(step, { donate: [4] })
  const args = () => [token, position, { embedding, norm, cos, sin }, weights, caches]
  const { totals, kernels } = f.explain(...args())
  const call = () => {
    const [next, updated] = f(...args())
    caches = updated
    next.dispose()
  }
  const start = performance.now()
  call()
  await open.backend.settled()
  const first = performance.now() - start
  const calls = 50
  const times = []
  for (let i = 0; i < 9; i++)
    times.push(
      (await open.time(() => {
        for (let j = 0; j < calls; j++) call()
      })) / calls,
    )
  const bytes = 2 * (words * width + layers * (shapes.reduce((n, s) => n + size(s), 0) + 2 * size(cache)))
  const { executable, inputs } = open.recorded.last
  const { times: steps } = await open.backend.profile(executable, inputs)
  const slow = steps
    .map((t) => ({
      ms: t.ms,
      name: executable.program.steps[t.step]?.kernel?.name ?? executable.program.steps[t.step]?.kind,
    }))
    .sort((a, b) => b.ms - a.ms)
  f.dispose()
  return {
    ms: median(times),
    floor: bytes / (await copy.measure()) / 1e6,
    first,
    kernels: totals.kernels,
    stages: totals.stages ?? 0,
    modelled: kernels.reduce((n, k) => n + k.modelledMs, 0),
    profiled: steps.reduce((n, t) => n + t.ms, 0),
    steps: slow,
  }
}
