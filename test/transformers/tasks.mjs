/**
 * Tasks of transformers.js on the models of models.ts: `node tasks.mjs MODELS [RUNTIME]` prints their results as JSON. RUNTIME is the address of
 * sinter/ort; without it the package takes its own runtime, which has to be installed (outputs.json was made so, by onnxruntime-node 1.30.0).
 */
const [root, address] = process.argv.slice(2)
let sessions = 0
if (address !== undefined) {
  const runtime = await import(address)
  const create = (...args) => {
    sessions++
    return runtime.InferenceSession.create(...args)
  }
  globalThis[Symbol.for('onnxruntime')] = { ...runtime, InferenceSession: { create } }
}

const { env, pipeline } = await import('@huggingface/transformers')
env.allowRemoteModels = false
env.localModelPath = root
const settings = { device: address === undefined ? 'cpu' : 'auto', dtype: 'fp32', local_files_only: true }

const texts = ['the cat sat on the mat', 'a dog ran far', 'tensors are fused here and the dog sat near a cat']

const extract = await pipeline('feature-extraction', 'features', settings)
const features = []
for (const text of [...texts, texts]) {
  const { dims, data } = await extract(text, { pooling: 'mean', normalize: true })
  features.push({ dims, data: Array.from(data) })
}

const classify = await pipeline('text-classification', 'classes', settings)
const classes = await classify(texts, { top_k: 3 })

const generate = await pipeline('text-generation', 'decoder', settings)
const generated = []
for (const text of texts.slice(0, 2)) {
  const [{ generated_text }] = await generate(text, { max_new_tokens: 12, do_sample: false })
  generated.push(generated_text)
}

console.log(JSON.stringify({ features, classes, generated, ...(address === undefined ? {} : { sessions }) }))
