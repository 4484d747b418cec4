/**
 * Makes `outputs.json`: runs the cases through onnxruntime-node. Not part of the tests; run again when a case changes:
 *   (cd test/models && npm ci --ignore-scripts) && (cd bench && npm ci --ignore-scripts) && npx jiti test/models/store.ts
 */
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { cases, modelPath, summary, valuesOf } from './cases.ts'

interface OrtTensor {
  readonly dims: readonly number[]
  readonly data: Float32Array
}
interface Ort {
  readonly Tensor: new (type: string, data: Float32Array | BigInt64Array, dims: readonly number[]) => OrtTensor
  readonly InferenceSession: {
    create(path: string): Promise<{
      readonly outputNames: readonly string[]
      run(feeds: Readonly<Record<string, OrtTensor>>): Promise<Readonly<Record<string, OrtTensor>>>
    }>
  }
}

const ort = createRequire(new URL('../../bench/package.json', import.meta.url))('onnxruntime-node') as Ort
const stored: Record<string, unknown> = {}
for (const c of cases) {
  const session = await ort.InferenceSession.create(modelPath(c))
  const feeds = Object.fromEntries(
    Object.entries(c.inputs).map(([name, spec]) => {
      const type = 'longs' in spec ? 'int64' : 'float32'
      return [name, new ort.Tensor(type, valuesOf(c, name, spec), spec.shape)]
    }),
  )
  const results = await session.run(feeds)
  stored[c.name] = session.outputNames.flatMap((name) => {
    const t = results[name]
    return t === undefined ? [] : [summary(name, t.dims, t.data)]
  })
}
const lines = Object.entries(stored).map(([name, outputs]) => `${JSON.stringify(name)}: ${JSON.stringify(outputs)}`)
writeFileSync(fileURLToPath(new URL('outputs.json', import.meta.url)), `{\n${lines.join(',\n')}\n}\n`)
