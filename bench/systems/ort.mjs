/** ONNX Runtime: the native CPU provider (`ort-node`) and the WebAssembly one (`ort-web`), on the same models. */
import { createRequire } from 'node:module'
import { hasModel, modelOf, timedOutputs } from '../onnx.mjs'

async function load(web, threads) {
  if (!web) return createRequire(import.meta.url)('onnxruntime-node')
  const ort = await import('onnxruntime-web')
  ort.env.wasm.numThreads = threads
  return ort
}

export async function open({ threads, web }) {
  const ort = await load(web, threads)
  ort.env.logLevel = 'error'
  const options = {
    executionProviders: [web ? 'wasm' : 'cpu'],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  }
  const create = (row, data, seed) => ort.InferenceSession.create(new Uint8Array(modelOf(row, data, seed)), options)

  async function prepare(row, inputs) {
    const feeds = {}
    inputs.forEach((data, i) => {
      if (!row.weights.includes(i)) feeds[`in${i}`] = new ort.Tensor('float32', data, row.inputs[i].shape)
    })
    const names = row.outputs.map((_, i) => `out${i}`)
    if (row.fresh) {
      let session
      let result
      return {
        run: async (seed) => {
          session = await create(row, inputs, seed)
          result = await session.run(feeds)
        },
        finish: () => session?.release(),
        read: () => names.map((n) => result[n].data),
      }
    }
    const session = await create(row, inputs)
    const timed = timedOutputs(row)
    return {
      run: async () => {
        for (let i = 0; i < row.calls; i++) await session.run(feeds, timed)
      },
      finish: () => {},
      read: async () => {
        const result = await session.run(feeds, names)
        return names.map((n) => result[n].data)
      },
    }
  }
  return { prepare, has: hasModel }
}
