/** onnxruntime-web with its WebGPU execution provider: models of the rows, inputs and results in GPU buffers. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import { model, scalar } from '../onnx.mjs'
import { chain, epsilon } from './rows.mjs'

/** Files beside the bundle: the library, and its WebAssembly, compressed. */
export const ortFiles = { library: 'ort.webgpu.bundle.min.mjs', binary: 'ort-wasm-simd-threaded.asyncify.wasm' }

const microsoft = 'com.microsoft'

/** Nodes of a row: inputs are in0, in1 ..., results out0 ... Fused operators where it has them. */
const graphs = {
  logexp: () => ({
    nodes: [
      ['Exp', ['in0'], ['e']],
      ['Add', ['e', 'one'], ['a']],
      ['Log', ['a'], ['out0']],
    ],
    constants: [scalar('one', 1)],
  }),
  chain: () => ({
    nodes: chain.flatMap((_, i) => [
      ['Mul', [i === 0 ? 'in0' : `y${i - 1}`, `a${i}`], [`m${i}`]],
      ['Add', [`m${i}`, `b${i}`], [i + 1 === chain.length ? 'out0' : `y${i}`]],
    ]),
    constants: chain.flatMap(([a, b], i) => [scalar(`a${i}`, a), scalar(`b${i}`, b)]),
  }),
  softmax: () => ({ nodes: [['Softmax', ['in0'], ['out0'], { axis: -1 }]] }),
  layernorm: () => ({ nodes: [['LayerNormalization', ['in0', 'in1', 'in2'], ['out0'], { axis: -1, epsilon }]] }),
  sumexp: () => ({
    nodes: [
      ['Exp', ['in0'], ['e']],
      ['ReduceSum', ['e'], ['out0'], { keepdims: 1 }],
    ],
  }),
  rmsnorm: () => ({
    nodes: [
      ['SkipSimplifiedLayerNormalization', ['in0', 'in1', 'in2'], ['out1', '', '', 'out0'], { epsilon }, microsoft],
    ],
  }),
  matmul: () => ({ nodes: [['MatMul', ['in0', 'in1'], ['out0']]] }),
  linear_gelu: () => ({
    nodes: [
      ['MatMul', ['in0', 'in1'], ['m']],
      ['BiasGelu', ['m', 'in2'], ['out0'], {}, microsoft],
    ],
  }),
  conv: () => ({ nodes: [['Conv', ['in0', 'in1'], ['out0'], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }]] }),
  mlp: () => ({
    nodes: [
      ['Gemm', ['in0', 'in1', 'in2'], ['g1']],
      ['Relu', ['g1'], ['h1']],
      ['Gemm', ['h1', 'in3', 'in4'], ['g2']],
      ['Relu', ['g2'], ['h2']],
      ['Gemm', ['h2', 'in5', 'in6'], ['out0']],
    ],
  }),
}

function modelOf(row, inputs) {
  const { nodes, constants = [] } = graphs[row.name]()
  const isWeight = (_, i) => row.weights.includes(i)
  const named = row.inputs.map(({ shape }, i) => [`in${i}`, shape, inputs[i]])
  return model({
    nodes,
    constants: [...constants, ...named.filter(isWeight)],
    inputs: named.filter((_, i) => !isWeight(_, i)).map(([name, shape]) => [name, shape]),
    outputs: row.outputs.map((shape, i) => [`out${i}`, shape]),
  })
}

export async function open() {
  const folder = dirname(fileURLToPath(import.meta.url))
  const packed = join(folder, `${ortFiles.binary}.br`)
  if (!existsSync(packed)) throw new Error(`${packed} is missing`)
  const ort = await import(pathToFileURL(join(folder, ortFiles.library)).href)
  ort.env.wasm.numThreads = 1
  ort.env.wasm.wasmBinary = brotliDecompressSync(readFileSync(packed))
  ort.env.logLevel = 'error'

  async function prepare(row, inputs) {
    const session = await ort.InferenceSession.create(new Uint8Array(modelOf(row, inputs)), {
      executionProviders: ['webgpu'],
      preferredOutputLocation: 'gpu-buffer',
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      // An operator that the provider lacks is an error, not a computation on the processor.
      extra: { session: { disable_cpu_ep_fallback: '1' } },
    })
    const device = await ort.env.webgpu.device
    const buffers = []
    const feeds = {}
    inputs.forEach((data, i) => {
      if (row.weights.includes(i)) return
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC
      const buffer = device.createBuffer({ size: data.byteLength, usage })
      device.queue.writeBuffer(buffer, 0, data)
      buffers.push(buffer)
      feeds[`in${i}`] = ort.Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims: row.inputs[i].shape })
    })
    return {
      call: async () => {
        const results = await session.run(feeds)
        for (const t of Object.values(results)) t.dispose()
      },
      flush: () => {},
      read: async () => {
        const results = await session.run(feeds)
        const data = []
        for (const [i] of row.outputs.entries()) data.push(await results[`out${i}`].getData())
        for (const t of Object.values(results)) t.dispose()
        return data
      },
      end: async () => {
        await session.release()
        for (const b of buffers) b.destroy()
      },
    }
  }
  return { prepare }
}
