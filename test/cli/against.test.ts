/**
 * `sinter bench --against ort`: how ONNX Runtime is found, run and compared with. The packages here are stand-ins that record what they are
 * asked; onnxruntime-node itself is compared with where the benchmarks' packages are installed.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { againstCommand } from '../../src/cli/against.ts'
import { consoleOn } from '../../src/cli/console.ts'
import { encodeModel } from '../onnx/encode.ts'
import { sinter, temporaryFolder } from './support.ts'

const dir = temporaryFolder()
const model = join(dir, 'scale.onnx')
writeFileSync(
  model,
  encodeModel({
    nodes: [{ op: 'Add', in: ['x', 'x'], out: ['y'] }],
    inputs: [{ name: 'x', type: 1, dims: ['n'] }],
    outputs: [{ name: 'y', type: 1, dims: ['n'] }],
  }),
)

/** A folder whose modules hold a package of that name, which multiplies by `factor`. */
function folderWith(name: string, factor: number, create = ''): string {
  const folder = join(dir, `${name}-${factor}-${create.length}`)
  const home = join(folder, 'node_modules', name)
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name, main: 'index.js' }))
  writeFileSync(
    join(home, 'index.js'),
    `const { writeFileSync } = require('node:fs')
const env = { wasm: {}, versions: { common: '0.1', node: '9.8.7', web: '9.8.6' } }
class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }) } }
const create = async (path, options) => {
  ${create}
  writeFileSync(${JSON.stringify(join(folder, 'asked.json'))}, JSON.stringify({ path, options, threads: env.wasm.numThreads }))
  return { outputNames: ['y'], run: async ({ x }) => ({ y: new Tensor(x.type, x.data.map((v) => v * ${factor}), x.dims) }) }
}
module.exports = { env, Tensor, InferenceSession: { create } }
`,
  )
  return folder
}

const given = {
  input: [],
  shape: [],
  length: ['n=5'],
  bound: [],
  device: 'wasm',
  mode: 'fast',
  seed: 0,
  seconds: 0.01,
} as const

async function against(from: string, json: boolean, threads = 2): Promise<{ code: number; out: string }> {
  const out: string[] = []
  const sink = { write: (text: string) => void out.push(text), colour: false }
  const code = await againstCommand(model, { ...given, threads, json }, consoleOn(sink, sink), from)
  return { code, out: out.join('') }
}

describe('bench --against ort', () => {
  it('runs both in turns with as many threads, and compares', async () => {
    const from = folderWith('onnxruntime-node', 2)
    const { code, out } = await against(from, true)
    expect(code).toBe(0)
    const r = JSON.parse(out)
    expect(r).toMatchObject({ model: 'scale', against: 'onnxruntime-node', version: '9.8.7', threads: 2 })
    expect(r.outputs).toEqual([{ name: 'y', largestDifference: 0 }])
    expect(r.rounds).toBeGreaterThanOrEqual(5)
    expect(r.ratio).toBeCloseTo(r.againstMs / r.ms, 6)
    const asked = JSON.parse(readFileSync(join(from, 'asked.json'), 'utf8'))
    expect(asked).toMatchObject({ path: model, threads: 2 })
    expect(asked.options).toMatchObject({ executionProviders: ['cpu'], intraOpNumThreads: 2, interOpNumThreads: 1 })
    expect((await against(from, false)).out).toContain('y agrees; largest difference 0')
  })

  it('a result that differs is a failure', async () => {
    const from = folderWith('onnxruntime-web', 3)
    const { code, out } = await against(from, false)
    expect(code).toBe(1)
    expect(out).toContain('onnxruntime-web')
    expect(out).toContain('y differs: 5 of 5 elements differ')
  })

  it('says what to install where there is none, or one without its native part', async () => {
    const none = join(dir, 'empty')
    mkdirSync(none)
    await expect(against(none, false)).rejects.toMatchObject({
      code: 'E_DEVICE',
      help: 'npm install onnxruntime-node (or onnxruntime-web) in this folder',
    })
    const bare = folderWith('onnxruntime-node', 2, `throw new Error('no available backend found')`)
    await expect(against(bare, false)).rejects.toMatchObject({ code: 'E_DEVICE' })
    const refusing = folderWith('onnxruntime-node', 2, `throw new Error('no such operator')`)
    await expect(against(refusing, false)).rejects.toMatchObject({ code: 'E_UNSUPPORTED' })
  })

  it('refuses other devices, models and runtimes', async () => {
    for (const args of [
      ['bench', model, '--against', 'ort', '--device', 'webgpu'],
      ['bench', join(dir, 'x.ts'), '--against', 'ort'],
      ['bench', model, '--against', 'abacus'],
    ]) {
      const r = await sinter(...args)
      expect(r.code).toBe(2)
      expect(r.err).toContain('E_ARGUMENT')
    }
  })

  const bench = fileURLToPath(new URL('../../bench', import.meta.url))
  it.skipIf(!existsSync(join(bench, 'node_modules', 'onnxruntime-node')))('onnxruntime-node agrees', async () => {
    const { code, out } = await against(bench, true)
    expect(code).toBe(0)
    expect(JSON.parse(out).outputs).toEqual([{ name: 'y', largestDifference: 0 }])
  })
})
