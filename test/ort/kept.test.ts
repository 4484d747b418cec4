/** Kept compilations: `sinter compile` makes a file that sessions and `importOnnx` take; stale ones are left aside, malformed ones refused. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import { forgetKept, takeKept } from '../../src/api/device/kept.ts'
import { Digest } from '../../src/compile/digest.ts'
import * as compiler from '../../src/compile/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { jit, onWarning, tensor } from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { InferenceSession, Tensor } from '../../src/ort.ts'
import { version } from '../../src/version.ts'
import { sinter } from '../cli/support.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { nightly, some } from '../support/nightly.ts'

const dir = mkdtempSync(join(tmpdir(), 'sinter-kept-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))
const compiles = vi.spyOn(compiler, 'compileGraph')
afterEach(() => {
  forgetKept()
  compiles.mockClear()
  onWarning(null)
})

/** Two products with a softmax between, a loop, weights that are literals of a session and parameters of the library. */
const network = (scale: number, batch: number | string = 3): ModelSpec => ({
  nodes: [
    { op: 'Mul', in: ['w', 'u'], out: ['folded'] },
    { op: 'MatMul', in: ['x', 'folded'], out: ['h'] },
    { op: 'Softmax', in: ['h'], out: ['p'], attrs: { axis: { int: -1 } } },
    { op: 'MatMul', in: ['p', 'v'], out: ['y'] },
    { op: 'TopK', in: ['y', 'k'], out: ['top', 'at'] },
  ],
  inputs: [{ name: 'x', type: 1, dims: [batch, 8] }],
  outputs: ['y', 'top', 'at'].map((name) => ({ name, type: name === 'at' ? 7 : 1 })),
  initializers: [
    { name: 'w', type: 1, dims: [8, 150], floats: Array.from({ length: 1200 }, (_, i) => scale * Math.sin(i)) },
    { name: 'u', type: 1, dims: [8, 150], floats: Array.from({ length: 1200 }, (_, i) => 1 + Math.cos(i)) },
    { name: 'v', type: 1, dims: [150, 140], floats: Array.from({ length: 21000 }, (_, i) => Math.cos(i)) },
    { name: 'k', type: 7, dims: [1], int64s: [2] },
  ],
  opset: 17,
})

let files = 0
async function compiled(spec: ModelSpec, ...args: string[]): Promise<{ path: string; file: string }> {
  const path = join(dir, `m${files++}.onnx`)
  writeFileSync(path, encodeModel(spec))
  const file = `${path}.sinter`
  const r = await sinter('compile', path, '-o', file, ...args, '--json')
  expect(r.code).toBe(0)
  expect(JSON.parse(r.out).programs).toBeGreaterThanOrEqual(2)
  compiles.mockClear()
  return { path, file }
}

const x = Float32Array.from({ length: 24 }, (_, i) => Math.sin(3 * i))

async function outputs(path: string, compiled?: string | Uint8Array): Promise<unknown[]> {
  const session = await InferenceSession.create(path, compiled === undefined ? {} : { extra: { sinter: { compiled } } })
  const r = await session.run({ x: new Tensor('float32', x, [3, 8]) })
  await session.release()
  return Object.values(r).map((t) => Array.from(t.data as Float32Array))
}

async function errorOf(body: () => Promise<unknown>): Promise<string> {
  try {
    await body()
    return ''
  } catch (error) {
    if (error instanceof UserError) return error.code
    throw error
  }
}

describe('a file of compilations', () => {
  it('is taken by sessions, by path and by bytes: nothing is compiled, results are the same bits', async () => {
    const { path, file } = await compiled(network(1))
    const plain = await outputs(path)
    expect(compiles).toHaveBeenCalled()
    compiles.mockClear()
    expect(await outputs(path, file)).toEqual(plain)
    expect(await outputs(path, readFileSync(file))).toEqual(plain)
    expect(compiles).not.toHaveBeenCalled()
  })

  it('is taken by importOnnx, report and kernels with it', async () => {
    const { path, file } = await compiled(network(2))
    const run = (model: ReturnType<typeof importOnnx>, f: ReturnType<typeof jit>): unknown[] =>
      Object.values(
        f(model.parameters, { x: tensor(x, { shape: [3, 8] }) }) as Record<string, ReturnType<typeof tensor>>,
      ).map((t) => Array.from(t.dataSync() as Float32Array))
    const bytes = readFileSync(path)
    const one = importOnnx(bytes)
    const wanted = run(one, jit(one.apply) as ReturnType<typeof jit>)
    compiles.mockClear()
    const other = importOnnx(bytes, { compiled: readFileSync(file) })
    const kept = jit(other.apply)
    expect(run(other, kept as ReturnType<typeof jit>)).toEqual(wanted)
    expect(compiles).not.toHaveBeenCalled()
    const report = String(kept.explain(other.parameters, { x: tensor(x, { shape: [3, 8] }) }))
    expect(report).toContain('MatMul')
  })

  it('of open extents holds the lengths it was made for, weights apart', async () => {
    const { path, file } = await compiled(network(3, 'batch'), '--length', 'batch=3')
    const plain = await outputs(path)
    compiles.mockClear()
    expect(await outputs(path, file)).toEqual(plain)
    expect(compiles).not.toHaveBeenCalled()
    const session = await InferenceSession.create(path, { extra: { sinter: { compiled: file } } })
    await session.run({ x: new Tensor('float32', x.slice(0, 16), [2, 8]) })
    expect(compiles).toHaveBeenCalledTimes(1)
  })

  it('of a model with other weights is not taken', async () => {
    const { file } = await compiled(network(4))
    const other = join(dir, 'other.onnx')
    writeFileSync(other, encodeModel(network(5)))
    const plain = await outputs(other)
    expect(await outputs(other, file)).toEqual(plain)
    expect(compiles).toHaveBeenCalledTimes(2)
  })
})

/** A file with its head changed, and its digest made right. */
function rewritten(file: Uint8Array, change: (head: string) => string): Uint8Array {
  const length = new DataView(file.buffer, file.byteOffset).getUint32(40, true)
  const json = new TextEncoder().encode(change(new TextDecoder().decode(file.subarray(44, 44 + length))))
  const out = new Uint8Array(44 + json.length + file.length - 44 - length)
  out.set(file.subarray(0, 44))
  new DataView(out.buffer).setUint32(40, json.length, true)
  out.set(json, 44)
  out.set(file.subarray(44 + length), 44 + json.length)
  const sum = new Digest()
  sum.bytes(out.subarray(40))
  out.set(new TextEncoder().encode(sum.value), 8)
  return out
}

describe('a file that is not for here', () => {
  const warned = (): string[] => {
    const codes: string[] = []
    onWarning(({ code }) => codes.push(code))
    return codes
  }

  it('of another version, machine or engine is left aside with a warning', async () => {
    const { path, file } = await compiled(network(6))
    const plain = await outputs(path)
    const bytes = readFileSync(file)
    const changes = [
      (head: string) => head.replace(`"version":"${version}"`, '"version":"99.0.0"'),
      (head: string) => head.replaceAll(/"machine":"\w+"/g, '"machine":"0123456789abcdef"'),
      (head: string) => head.replaceAll(/"engine":"wasm (\w+) /g, '"engine":"wasm other '),
    ]
    for (const change of some(changes, 2)) {
      const codes = warned()
      compiles.mockClear()
      expect(await outputs(path, rewritten(bytes, change))).toEqual(plain)
      expect(codes).toEqual(['W_STALE_COMPILATION'])
      expect(compiles).toHaveBeenCalled()
      forgetKept()
    }
  })

  it('torn, changed or no such file is refused', async () => {
    const { path, file } = await compiled(network(7))
    const bytes = readFileSync(file)
    const flipped = bytes.slice()
    flipped[bytes.length - 5] = (flipped[bytes.length - 5] ?? 0) ^ 1
    for (const bad of [bytes.subarray(0, bytes.length - 1), flipped, Uint8Array.of(1, 2, 3), new Uint8Array(0)])
      expect(await errorOf(() => outputs(path, bad))).toBe('E_FILE')
    expect(await errorOf(() => outputs(path, join(dir, 'nowhere')))).toBe('E_FILE')
    expect(await errorOf(() => outputs(path, 7 as unknown as string))).toBe('E_ARGUMENT')
  })

  it('with a head that says what is not so is refused, or gives results: never another error', async () => {
    const { path, file } = await compiled(network(8))
    const bytes = readFileSync(file)
    // Numbers of plans and modules, one after the other, to what is out of bounds; and whole parts taken away.
    const numbers = [
      ...new TextDecoder()
        .decode(bytes.subarray(44))
        .slice(0, new DataView(bytes.buffer, bytes.byteOffset).getUint32(40, true))
        .matchAll(
          /"(bytes|offset|index|literal|at|length|kernel|launch|arenaBytes|scratch|programs|inputs|outputs|buffers|module)":/g,
        ),
    ]
    expect(numbers.length).toBeGreaterThan(50)
    const seen = new Set<string>()
    const count = nightly ? 60 : 20
    for (let i = 0; i < count; i++) {
      const pick = numbers[Math.floor((i * numbers.length) / count)]
      if (pick === undefined) continue
      const value = ['-1', '1e15', 'null', '[]'][i % 4]
      const changed = rewritten(bytes, (head) => {
        const at = (pick.index ?? 0) + pick[0].length
        return `${head.slice(0, at)}${value},"was":${head.slice(at)}`
      })
      forgetKept()
      const code = await errorOf(() => outputs(path, changed))
      expect(['', 'E_FILE', 'E_OUT_OF_MEMORY', 'E_KERNEL_SYNTAX', 'E_KERNEL_INVALID']).toContain(code)
      seen.add(code)
    }
    expect(seen.has('E_FILE')).toBe(true)
  })

  it('with code that is no module is refused', async () => {
    const { path, file } = await compiled(network(9))
    const bytes = readFileSync(file)
    const noise = rewritten(bytes, (head) => head.replaceAll(/"modules":\[\{"at":\d+/g, '"modules":[{"at":3'))
    expect(noise).not.toEqual(bytes)
    expect(await errorOf(() => outputs(path, noise))).toBe('E_FILE')
  })
})

it('the version is that of the package', () => {
  expect(version).toBe(JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version)
  expect(() => takeKept(new Uint8Array(100))).toThrow('E_FILE')
})
