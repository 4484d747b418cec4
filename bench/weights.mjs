/**
 * What weights cost until a program has them: `node weights.mjs [--rounds 9] [--forms TEXT] [--copied] [--build DIR]`. For each form in which models have them: how
 * long tensors take out of a model's bytes (given away, as those of a file are; `--copied`: bytes that the caller keeps), what the compiler computes of them (its time
 * less that of a model with an eighth of the weights), and the way into the program's memory; beside a plain copy of as many bytes into new memory. One thread.
 */
import { parseArgs } from 'node:util'
import { microsoft, model } from './shared/onnx.mjs'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    build: { type: 'string' },
    forms: { type: 'string' },
    copied: { type: 'boolean', default: false },
  },
})
const at = (name) => import(new URL(name, buildAt(options.build)).href)
const { importModel, readModel } = await at('onnx/index.js')
const { compileGraph } = await at('compile/index.js')
const { tensorFromProto } = await at('onnx/tensors.js')
const { evaluateConstant } = await at('reference/evaluate.js')
const { createWasmBackend } = await at('backends/wasm/backend.js')
const { machine } = createWasmBackend({ threads: 1 })

let state = 1
/** Numbers in [-1, 1). */
function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return state / 2 ** 31 - 1
}
const size = (shape) => shape.reduce((n, d) => n * d, 1)
const floats = (...shape) => Float32Array.from({ length: size(shape) }, random)
const bytes = (...shape) => Int8Array.from({ length: size(shape) }, () => 127 * random())
const step = ['step', [], new Float32Array([0.02])]
const zero = ['zero', [], new Int8Array(1)]
const conv = { kernel_shape: [3, 3], pads: [1, 1, 1, 1], group: 1, dilations: [1, 1], strides: [1, 1] }

/** A product with weights of `n` columns; its inputs have `k`. */
const product = (k, n, nodes, constants) =>
  model({ nodes, constants, inputs: [['x', [16, k]]], outputs: [['y', [16, n]]] })
const image = (to, nodes, constants) =>
  model({ nodes, constants, inputs: [['x', [1, 256, 14, 14]]], outputs: [['y', [1, to, 14, 14]]] })

/** By form: a model whose weights have `n` columns or channels, and which there are. */
const forms = {
  'f32 768 x n': [3072, (n) => product(768, n, [['MatMul', ['x', 'w'], ['y']]], [['w', [768, n], floats(768, n)]])],
  'f32 n x 2048, transposed': [
    1000,
    (n) => product(2048, n, [['Gemm', ['x', 'w'], ['y'], { transB: 1 }]], [['w', [n, 2048], floats(n, 2048)]]),
  ],
  'f32 n x 256 x 3 x 3': [
    128,
    (n) => image(n, [['Conv', ['x', 'w'], ['y'], conv]], [['w', [n, 256, 3, 3], floats(n, 256, 3, 3)]]),
  ],
  'the same, normalised': [
    128,
    (n) =>
      image(
        n,
        [
          ['Conv', ['x', 'w'], ['c'], conv],
          ['BatchNormalization', ['c', 'scale', 'bias', 'mean', 'variance'], ['y']],
        ],
        [
          ['w', [n, 256, 3, 3], floats(n, 256, 3, 3)],
          ...['scale', 'bias', 'mean', 'variance'].map((name) => [name, [n], floats(n).map(Math.abs)]),
        ],
      ),
  ],
  'i8 768 x n, dequantised': [
    3072,
    (n) =>
      product(
        768,
        n,
        [
          ['DequantizeLinear', ['w', 'step', 'zero'], ['f']],
          ['MatMul', ['x', 'f'], ['y']],
        ],
        [['w', [768, n], bytes(768, n)], step, zero],
      ),
  ],
  'i8 768 x n, integer product': [
    3072,
    (n) =>
      product(
        768,
        n,
        [
          ['DynamicQuantizeLinear', ['x'], ['q', 'qs', 'qz']],
          ['MatMulInteger', ['q', 'w', 'qz', 'zero'], ['p']],
          ['Cast', ['p'], ['f'], { to: 1 }],
          ['Mul', ['f', 'qs'], ['y']],
        ],
        [['w', [768, n], bytes(768, n)], zero],
      ),
  ],
  '4 bits, n x 2048 in blocks of 32': [
    4096,
    (n) =>
      product(
        2048,
        n,
        [['MatMulNBits', ['x', 'w', 's'], ['y'], { K: 2048, N: n, bits: 4, block_size: 32 }, microsoft]],
        [
          ['w', [n, 64, 16], Uint8Array.from({ length: n * 1024 }, () => 128 * (random() + 1))],
          ['s', [n * 64], floats(n * 64)],
        ],
      ),
  ],
}

/** What a body makes, and milliseconds it takes. */
function timed(body) {
  const from = performance.now()
  const result = body()
  return { result, ms: performance.now() - from }
}

/** Milliseconds of a model's way to a program that is ready: tensors out of its bytes, the compiler, constants into the program's memory. */
function ready(file) {
  const model = readModel(file, !options.copied)
  const read = timed(() => {
    for (const t of model.model.graph.initializer) model.tensors.set(t, tensorFromProto(t, undefined, !options.copied))
  }).ms
  const { graph } = importModel(model, { evaluate: evaluateConstant })
  let stored = 0
  // Memory of its own, as new as that of a process which has begun.
  const backend = createWasmBackend({ threads: 1 })
  const { device } = backend
  const { copyIn } = Object.getPrototypeOf(device)
  device.copyIn = (...args) => {
    stored += timed(() => copyIn.apply(device, args)).ms
  }
  const compile = timed(() => compileGraph(graph, { mode: 'fast', target: machine }))
  backend.prepare(compile.result.program).dispose()
  backend.dispose()
  return { read, compile: compile.ms, stored }
}

const rate = (bytes, ms) => `${(bytes / 1e6 / ms).toFixed(2).padStart(5)} GB/s`
for (const [name, [n, make]] of Object.entries(forms)) {
  if (options.forms !== undefined && !name.includes(options.forms)) continue
  const [large, small] = [make(8 * n), make(n)]
  const bytes = large.length
  const least = { read: Infinity, compile: Infinity, other: Infinity, stored: Infinity, copy: Infinity }
  const source = new Uint8Array(bytes).fill(1)
  for (let i = 0; i < Number(options.rounds) + 2; i++) {
    // Bytes of a file are nobody else's.
    const [file, part] = [large, small].map((b) => Uint8Array.from(b))
    const seen = ready(file)
    const other = ready(part).compile
    // Memory that is as new as what the program gets.
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / 65536) })
    const copy = timed(() => new Uint8Array(memory.buffer).set(source)).ms
    if (i >= 2) for (const [k, ms] of Object.entries({ ...seen, other, copy })) least[k] = Math.min(least[k], ms)
  }
  const { read, compile, other, stored, copy } = least
  const all = read + stored + Math.max(0, compile - other)
  console.log(
    `${name.padEnd(34)} ${(bytes / 1e6).toFixed(1).padStart(5)} MB  ${rate(bytes, all)}, a copy ${rate(bytes, copy)}: ${Math.round((100 * copy) / all)}%` +
      `   ms: read ${read.toFixed(1)}, folded ${(compile - other).toFixed(1)}, stored ${stored.toFixed(1)}, copy ${copy.toFixed(1)}`,
  )
}
