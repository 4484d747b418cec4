/** onnxruntime-web with its WebGPU execution provider: models of the rows, inputs and results in GPU buffers. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import {
  conv,
  layernorm,
  matmul,
  microsoft,
  modelOfRow,
  multiplyAdds,
  rmsnorm,
  scalar,
  softmax,
  sumexp,
} from '../shared/onnx.mjs'
import { kinds } from './grid.mjs'
import { chain } from './rows.mjs'

/** Files beside the bundle: the library, and its WebAssembly, compressed. */
export const ortFiles = { library: 'ort.webgpu.bundle.min.mjs', binary: 'ort-wasm-simd-threaded.asyncify.wasm' }

/** The nodes of a point of the grid: MatMul, or Gemm where an operand is transposed. */
function gridGraph({ form, order }) {
  const [transA, transB] = [...order].map((o) => (o === 't' ? 1 : 0))
  const left = form === 'silu' ? 'x' : 'in0'
  const to = form === 'gelu' ? 'm' : 'out0'
  const before = [
    ['Sigmoid', ['in0'], ['s']],
    ['Mul', ['in0', 's'], ['u']],
    ['Mul', ['u', 'in2'], ['x']],
  ]
  const product = order === 'nn' ? ['MatMul', [left, 'in1'], [to]] : ['Gemm', [left, 'in1'], [to], { transA, transB }]
  const behind = ['BiasGelu', ['m', 'in2'], ['out0'], {}, microsoft]
  return { nodes: [...(form === 'silu' ? before : []), product, ...(form === 'gelu' ? [behind] : [])] }
}

/** The nodes of a row. Fused operators where the library has them. */
const graphs = {
  logexp: {
    nodes: [
      ['Exp', ['in0'], ['e']],
      ['Add', ['e', 'one'], ['a']],
      ['Log', ['a'], ['out0']],
    ],
    constants: [scalar('one', 1)],
  },
  chain: multiplyAdds(chain),
  softmax,
  layernorm,
  sumexp,
  rmsnorm,
  matmul,
  linear_gelu: {
    nodes: [
      ['MatMul', ['in0', 'in1'], ['m']],
      ['BiasGelu', ['m', 'in2'], ['out0'], {}, microsoft],
    ],
  },
  conv,
  mlp: {
    nodes: [
      ['Gemm', ['in0', 'in1', 'in2'], ['g1']],
      ['Relu', ['g1'], ['h1']],
      ['Gemm', ['h1', 'in3', 'in4'], ['g2']],
      ['Relu', ['g2'], ['h2']],
      ['Gemm', ['h2', 'in5', 'in6'], ['out0']],
    ],
  },
  ...Object.fromEntries(kinds.map((k) => [k.name, gridGraph(k)])),
}

function modelOf(row, inputs) {
  const shapes = row.inputs.map((p) => p.shape)
  const outputs = row.outputs.map((shape, i) => [`out${i}`, shape])
  return modelOfRow(row, graphs[row.kind ?? row.name], shapes, inputs, outputs)
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
