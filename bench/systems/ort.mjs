/** ONNX Runtime: the native CPU provider (`ort-node`) and the WebAssembly one (`ort-web`), on the same models. */
import { createRequire } from 'node:module'
import { hasModel, modelOf } from '../onnx.mjs'

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
    let result
    const read = () => names.map((n) => result[n].data)
    if (row.fresh) {
      let session
      return {
        run: async (seed) => {
          session = await create(row, inputs, seed)
          result = await session.run(feeds)
        },
        finish: () => session?.release(),
        read,
      }
    }
    const session = await create(row, inputs)
    // Outputs written in place spare the native runtime an allocation a call; ort-web copies either way.
    const fetches = Object.fromEntries(
      names.map((n, i) => {
        const shape = row.outputs[i]
        return [n, new ort.Tensor('float32', new Float32Array(shape.reduce((a, b) => a * b, 1)), shape)]
      }),
    )
    return {
      run: async () => {
        for (let i = 0; i < row.calls; i++) result = web ? await session.run(feeds) : await session.run(feeds, fetches)
      },
      finish: () => {},
      read,
    }
  }
  return { prepare, has: hasModel }
}
