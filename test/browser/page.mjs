/**
 * What the page runs: programs on WebGPU against the same programs on WebAssembly, from the built package. Posts
 * `{ results: [{ name, error? }] }` to /done.
 */
import * as api from 'sinter'
import * as onnx from 'sinter/onnx'
import { webgpu } from 'sinter/webgpu'

const { nn, random, tensor } = api
const noise = (n, seed) => Float32Array.from({ length: n }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233) * 1.7)
const make = (shape, seed) =>
  tensor(
    noise(
      shape.reduce((a, b) => a * b, 1),
      seed,
    ),
  ).reshape(shape)

/** A step of training a perceptron: loss and gradients. */
function perceptron(x, target, w1, w2) {
  const loss = (a, b) => x.matmul(a).relu().matmul(b).sub(target).square().mean()
  return api.valueAndGrad(loss, { argnums: [0, 1] })(w1, w2)
}

/** Which programs run: the test sets another number by day. */
const every = 1

const programs = {
  elementwise: [(x) => x.exp().add(1).log().mul(x).tanh(), [[1037]]],
  comparisons: [(x) => api.where(x.greater(0), x, x.neg().sqrt()), [[513]]],
  reductions: [(x) => [x.sum(), x.mean(0), x.max(1), x.argmax(1)], [[37, 61]]],
  softmax: [(x) => x.softmax(-1), [[33, 701]]],
  'layer normalisation': [(x, scale, bias) => nn.layerNorm(x, { scale, bias }), [[19, 257], [257], [257]]],
  'matrix product with an epilogue': [(x, w, b) => nn.gelu(x.matmul(w).add(b)), [[33, 47], [47, 29], [29]]],
  'a step of a perceptron': [
    perceptron,
    [
      [16, 20],
      [16, 3],
      [20, 11],
      [11, 3],
    ],
  ],
  dropout: [(x) => nn.dropout(x, random.key(3), 0.25), [[31, 67]]],
  convolution: [
    (x, w) => api.conv(x, w, { padding: 'same' }).relu(),
    [
      [2, 3, 11, 13],
      [5, 3, 3, 3],
    ],
  ],
  'half precision': [(x) => x.astype('bf16').mul(1.5).softmax(-1).astype('f32'), [[9, 130]]],
  'a scan': [(x) => api.scan((c, v) => [c.mul(0.5).add(v), c.sum()], api.zeros([5]), x), [[7, 5]]],
}

const leaves = async (value) =>
  Promise.all(api.tree.leaves(value).map(async (t) => ({ shape: t.shape, data: await t.data() })))

function compare(got, want) {
  if (got.length !== want.length) throw new Error(`${got.length} results, expected ${want.length}`)
  want.forEach((w, k) => {
    const g = got[k]
    if (String(g.shape) !== String(w.shape))
      throw new Error(`result ${k} has shape [${g.shape}], expected [${w.shape}]`)
    for (let i = 0; i < w.data.length; i++) {
      const [a, b] = [Number(g.data[i]), Number(w.data[i])]
      const near =
        Object.is(a, b) || Math.abs(a - b) <= 2e-4 * (1 + Math.abs(b)) || (Number.isNaN(a) && Number.isNaN(b))
      if (!near) throw new Error(`result ${k}[${i}] is ${a}, expected ${b}`)
    }
  })
}

async function run(device, [f, shapes]) {
  api.setDevice(device)
  return leaves(api.jit(f)(...shapes.map((s, i) => make(s, i + 1))))
}

async function runModel(device, bytes) {
  api.setDevice(device)
  const model = onnx.importOnnx(bytes)
  return leaves(api.jit((x) => Object.values(model.apply(model.parameters, { x })))(make([2, 8], 5)))
}

/** A device that is destroyed under the program: an error with a code, and the next device works. */
async function lose(gpu) {
  let made
  const request = GPUAdapter.prototype.requestDevice
  GPUAdapter.prototype.requestDevice = async function (...args) {
    made = await request.apply(this, args)
    return made
  }
  const device = await webgpu().finally(() => {
    GPUAdapter.prototype.requestDevice = request
  })
  api.setDevice(device)
  const x = make([64], 1).add(1)
  await x.data()
  made.destroy()
  await made.lost
  await new Promise((resolve) => setTimeout(resolve, 50))
  let code
  try {
    await x.mul(2).data()
  } catch (e) {
    code = e.code
  }
  if (code !== 'E_DEVICE') throw new Error(`a lost device gave ${code ?? 'a value'}, expected E_DEVICE`)
  compare(await run(await webgpu(), programs.elementwise), await run('wasm', programs.elementwise))
  // The device opened before is another one, and goes on.
  compare(await run(gpu, programs.softmax), await run('wasm', programs.softmax))
}

const results = []
const check = async (name, body) => {
  try {
    await body()
    results.push({ name })
  } catch (e) {
    results.push({ name, error: `${e?.code ?? ''} ${e?.stack ?? e}` })
  }
}

let gpu
await check('a device', async () => {
  gpu = await webgpu()
})
if (gpu !== undefined) {
  for (const [name, program] of Object.entries(programs).filter((_, i) => i % every === 0))
    await check(name, async () => compare(await run(gpu, program), await run('wasm', program)))
  await check('an ONNX model', async () => {
    const bytes = new Uint8Array(await (await fetch('/model.onnx')).arrayBuffer())
    compare(await runModel(gpu, bytes), await runModel('wasm', bytes))
  })
  await check('a lost device', () => lose(gpu))
}
await fetch('/done', { method: 'POST', body: JSON.stringify({ results, isolated: crossOriginIsolated }) })
