/**
 * transformers.js from its registry, its code unchanged, on `sinter/ort`: feature extraction, text classification, and text generation by a
 * decoder of 4-bit weights with its cache, against what it gives on onnxruntime-node (outputs.json). The runtimes it asks for are not
 * installed: package.json puts onnxruntime-common, which runs nothing, in their place.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { writeModels } from './models.ts'
import stored from './outputs.json' with { type: 'json' }

const here = fileURLToPath(new URL('.', import.meta.url))
const runtime = new URL('../../dist/ort.js', import.meta.url)
const installed = existsSync(join(here, 'node_modules')) && existsSync(runtime)
const required = process.env.SINTER_REQUIRE_TRANSFORMERS === '1'
if (!installed)
  console.warn(
    '\n*** TRANSFORMERS.JS NOT RUN: (cd test/transformers && npm ci --ignore-scripts), then npm run build, make it. ***\n',
  )

interface Results {
  readonly features: readonly { readonly dims: readonly number[]; readonly data: readonly number[] }[]
  readonly classes: readonly (readonly { readonly label: string; readonly score: number }[])[]
  readonly generated: readonly string[]
  readonly sessions: number
}

describe.skipIf(!installed && !required)('transformers.js', () => {
  it('gives on sinter/ort what it gives on onnxruntime-node', { timeout: 120_000 }, async () => {
    for (const name of ['onnxruntime-node', 'onnxruntime-web']) {
      const path = join(here, 'node_modules', name, 'package.json')
      expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ name: 'onnxruntime-common' })
    }
    const models = mkdtempSync(join(tmpdir(), 'sinter-transformers-'))
    writeModels(models)
    const { stdout } = await promisify(execFile)(process.execPath, ['tasks.mjs', `${models}/`, runtime.href], {
      cwd: here,
    })
    const results = JSON.parse(stdout) as Results
    // One for each model, at least: a pipeline may make more for its own small graphs.
    expect(results.sessions).toBeGreaterThanOrEqual(3)
    expect(results.generated).toEqual(stored.generated)
    expect(results.features.map((f) => f.dims)).toEqual(stored.features.map((f) => f.dims))
    results.features.forEach(({ data }, i) => {
      data.forEach((x, j) => {
        expect(Math.abs(x - (stored.features[i]?.data[j] ?? Number.NaN))).toBeLessThan(1e-6)
      })
    })
    results.classes.forEach((ranked, i) => {
      expect(ranked.map((c) => c.label)).toEqual(stored.classes[i]?.map((c) => c.label))
      ranked.forEach(({ score }, j) => {
        expect(Math.abs(score - (stored.classes[i]?.[j]?.score ?? Number.NaN))).toBeLessThan(1e-6)
      })
    })
  })
})
