/**
 * The built package in headless Chromium: a page of this test loads `dist` as ES modules and compares WebGPU (on the software
 * adapter) with WebAssembly. Skipped where there is no Chromium or no build.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { encodeModel } from '../onnx/encode.ts'
import { nightly } from '../support/nightly.ts'
import { closePage, missing, openPage } from './open.ts'

const seconds = 150

/** softmax(relu(x w + b)). */
const model = encodeModel({
  nodes: [
    { op: 'MatMul', in: ['x', 'w'], out: ['product'] },
    { op: 'Add', in: ['product', 'b'], out: ['sum'] },
    { op: 'Relu', in: ['sum'], out: ['hidden'] },
    { op: 'Softmax', in: ['hidden'], out: ['y'] },
  ],
  inputs: [{ name: 'x', type: 1, dims: [2, 8] }],
  outputs: [{ name: 'y', type: 1, dims: [2, 5] }],
  initializers: [
    { name: 'w', type: 1, dims: [8, 5], floats: Array.from({ length: 40 }, (_, i) => Math.cos(i)) },
    { name: 'b', type: 1, dims: [5], floats: [0.1, -0.2, 0.3, -0.4, 0.5] },
  ],
})

afterAll(closePage)

test(
  'programs on WebGPU in Chromium equal those on WebAssembly',
  async ({ skip }) => {
    const why = missing()
    if (why !== undefined) skip(why)
    // By day every other program.
    const page = readFileSync(join(import.meta.dirname, 'page.mjs'), 'utf8')
    const code = nightly ? page : page.replace('const every = 1', 'const every = 2')
    expect(code === page).toBe(nightly)
    const { results, isolated } = await openPage({ code, files: { '/model.onnx': model }, seconds })
    expect(results.flatMap((r) => (r.error === undefined ? [] : [`${r.name}: ${r.error}`]))).toEqual([])
    expect(isolated).toBe(true)
    expect(results.length).toBeGreaterThanOrEqual(nightly ? 14 : 9)
  },
  (seconds + 20) * 1e3,
)
