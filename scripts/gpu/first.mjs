/** The first call of programs on a cold cache: two layers of a transformer forward, a training step of a small network. */
import * as api from '../../src/index.ts'

const { nn } = api

/** Weights of a layer: queries, keys and values, the way out, up, down. */
const layerShapes = (d) => [
  [d, 3 * d],
  [d, d],
  [d, 4 * d],
  [4 * d, d],
]

function layer(x, [qkv, out, up, down], heads) {
  const [batch, length, d] = x.shape
  const [q, k, v] = nn
    .layerNorm(x)
    .matmul(qkv)
    .split(3, -1)
    .map((t) => t.reshape([batch, length, heads, d / heads]).transpose([0, 2, 1, 3]))
  const a = nn.attention(q, k, v).transpose([0, 2, 1, 3]).reshape([batch, length, d])
  const h = x.add(a.matmul(out))
  return h.add(nn.gelu(nn.layerNorm(h).matmul(up), 'tanh').matmul(down))
}

function trainingStep(x, labels, ...weights) {
  const loss = (...w) => {
    let h = x
    w.forEach((m, i) => {
      h = h.matmul(m)
      if (i + 1 < w.length) h = nn.relu(h)
    })
    return nn.crossEntropy(h, labels).mean()
  }
  const places = weights.map((_, i) => i)
  const [value, grads] = api.valueAndGrad(loss, { argnums: places })(...weights)
  return [value, ...weights.map((w, i) => w.sub(grads[i].mul(0.1)))]
}

export const programs = [
  {
    name: 'transformer',
    title: 'two layers of a transformer, 4 x 128 x 256, bf16',
    specs: () => [[4, 128, 256], ...layerShapes(256), ...layerShapes(256)].map((s) => api.spec(s, 'bf16')),
    f: (x, ...w) => layer(layer(x, w.slice(0, 4), 4), w.slice(4), 4),
  },
  {
    name: 'mlp_step',
    title: 'training step of a network 784-512-512-10, batch 128',
    specs: () => [
      api.spec([128, 784]),
      api.spec([128], 'i32'),
      ...[
        [784, 512],
        [512, 512],
        [512, 10],
      ].map((s) => api.spec(s)),
    ],
    f: trainingStep,
  },
]

/** Seconds until a program can run, in parts; the folder of compiled kernels must be off or empty. */
export function measureFirst(open, { name, title, specs, f }) {
  api.setDevice(open.device)
  const before = { ...open.backend.kernelTimes }
  const jitted = api.jit(f)
  const start = performance.now()
  jitted.compile(...specs())
  const total = performance.now() - start
  const parts = Object.fromEntries(
    Object.entries(open.backend.kernelTimes).map(([k, ms]) => [k, (ms - before[k]) / 1e3]),
  )
  const spent = Object.values(parts).reduce((a, b) => a + b, 0)
  const { totals } = jitted.explain(...specs())
  return {
    name,
    title,
    kernels: totals.kernels,
    stages: totals.stages,
    seconds: total / 1e3,
    parts: { plan: total / 1e3 - spent, ...parts },
  }
}
