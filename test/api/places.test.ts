/** Wrong programs of every kind: the error has a code, names the line of the user's call and says what to do. */
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { useDevice } from '../../src/api/device/session.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as s from '../../src/index.ts'
import { jit, ones, type Tensor, tensor, UserError } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx } from '../../src/onnx.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { encodeModel } from '../onnx/encode.ts'

type Wrong = readonly [what: string, message: string, program: () => unknown]

type Groups = Readonly<Record<string, readonly Wrong[]>>

const urlOf = (name: string): string => new URL(name, import.meta.url).href
// JavaScript has no types to import.
const { wrongOperations } = (await import(urlOf('./wrongOperations.mjs'))) as { wrongOperations: Groups }
const { wrongFunctions } = (await import(urlOf('./wrongFunctions.mjs'))) as { wrongFunctions: Groups }

async function errorOf(f: () => unknown): Promise<UserError> {
  try {
    await f()
  } catch (error) {
    if (error instanceof UserError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

/** The text of the line that a place in one of the test's files names. */
function lineAt(where: string | undefined): string {
  const [, file, line] = /([^/]+):(\d+):\d+$/.exec(where ?? '') ?? []
  if (file === undefined) return `no place: ${where}`
  return readFileSync(new URL(`./${file}`, import.meta.url), 'utf8').split('\n')[Number(line) - 1] ?? `no line ${where}`
}

describe.each(Object.entries({ ...wrongOperations, ...wrongFunctions }))('%s', (_, programs) => {
  it.each(programs)('%s', async (_, message, program) => {
    const error = await errorOf(program)
    expect(`${error.code} ${error.summary}`).toBe(message)
    expect(lineAt(error.where)).toContain('/* here */')
    expect(error.help ?? '').not.toBe('')
  })
})

it('a value that is awaited names the await', async () => {
  const t = tensor([1])
  t.dispose()
  const error = await errorOf(async () => {
    await Promise.resolve()
    await t.data() /* here */
  })
  expect(error.code).toBe('E_DISPOSED')
  expect(lineAt(error.where)).toContain('/* here */')
})

it('a tensor is text where text is wanted', () => {
  expect(`${tensor([1])}`).toBe(tensor([1]).toString())
})

it("errors of the user's own pass as they are", () => {
  const mine = new RangeError('mine')
  const fail = (_: Tensor): never => {
    throw mine
  }
  const x = tensor([1, 2])
  for (const run of [
    () => jit(fail)(x),
    () => s.grad(fail)(x),
    () => s.tidy(() => fail(x)),
    () => s.tree.map(fail, [x]),
  ])
    expect(run).toThrow(mine)
})

describe('errors that are found late', () => {
  afterEach(() => {
    s.setDevice('wasm', { threads: 1 })
  })
  const narrow = (): void => {
    const unsupported = (dtype: string): string | undefined => (dtype === 'f64' ? 'it has no 64-bit floats' : undefined)
    const capabilities = { dtype: unsupported, op: () => undefined }
    useDevice(createCompiledDevice('webgpu', createWasmBackend({ threads: 1 }), wasmTarget, capabilities))
  }
  const widened = (x: Tensor): Tensor => x.astype('f64') /* the operation */

  it('what a device cannot run: outside jit the operation and the line that asked for its value', async () => {
    narrow()
    const y = widened(tensor([1, 2]))
      .mul(2)
      .astype('f32')
    const error = await errorOf(() => y.dataSync() /* here */)
    expect(error.summary).toBe('astype cannot run on the device webgpu: it has no 64-bit floats')
    expect(lineAt(error.where)).toContain('/* here */')
    expect(error.help).toMatch(/inside jit this error says the line of the operation$/)
  })
  it('what a device cannot run: inside jit the line of the operation', async () => {
    narrow()
    const f = jit((x: Tensor) => widened(x).astype('f32'))
    const error = await errorOf(() => f(tensor([1, 2])))
    expect(error.summary).toBe('astype cannot run on the device webgpu: it has no 64-bit floats')
    expect(lineAt(error.where)).toContain('/* the operation */')
    expect(error.help).not.toContain('inside jit')
  })

  const large = (x: Tensor): Tensor => ones([3000, 6000]).add(x) /* the operation */
  it('memory that runs out: outside jit the operation and the line that asked for its value', async () => {
    s.setDevice('wasm', { memoryLimit: 8 << 20, threads: 1 })
    const y = large(tensor(1))
    const error = await errorOf(() => y.dataSync() /* here */)
    expect(error.code).toBe('E_OUT_OF_MEMORY')
    expect(error.summary).toMatch(/the largest value of the program is f32\[3000, 6000\] \(68\.7 MiB\) of add$/)
    expect(lineAt(error.where)).toContain('/* here */')
  })
  it('memory that runs out: inside jit the line of the operation and of the call', async () => {
    s.setDevice('wasm', { memoryLimit: 8 << 20, threads: 1 })
    const f = jit(large)
    const error = await errorOf(() => f(tensor(1)) /* here */)
    expect(error.code).toBe('E_OUT_OF_MEMORY')
    const [, where] = /f32\[3000, 6000\] \(68\.7 MiB\) of add at (.*)$/.exec(error.summary) ?? []
    expect(lineAt(where)).toContain('/* the operation */')
    expect(lineAt(error.where)).toContain('/* here */')
  })
  it('a value beyond what the target holds: outside jit the line that asked for it, inside that of the operation', async () => {
    s.setDevice('wasm')
    const beyond = (x: Tensor): Tensor => ones([30_000, 60_000]).add(x) /* the operation */
    for (const [call, place] of [
      [() => beyond(tensor(1)).dataSync() /* here */, '/* here */'],
      [() => jit(beyond)(tensor(1)), '/* the operation */'],
    ] as const) {
      const error = await errorOf(call)
      expect(error.code).toBe('E_OVERFLOW')
      expect(error.summary).toMatch(/^add gives f32\[30000, 60000\], which would be stored in 7200000000 bytes/)
      expect(lineAt(error.where)).toContain(place)
    }
  })
  it('memory that runs out: a value inside a program is named, not its small result', async () => {
    s.setDevice('wasm', { memoryLimit: 8 << 20, threads: 1 })
    const f = jit((x: Tensor, y: Tensor) => {
      const product = s.matmul(x, y) /* the operation */
      return s.matmul(product, product).sum()
    })
    const error = await errorOf(() => f(ones([2000, 64]), ones([64, 2000])) /* here */)
    const [, where] = /f32\[2000, 2000\] \(15\.3 MiB\) of matmul at (.*)$/.exec(error.summary) ?? []
    expect(lineAt(where)).toContain('/* the operation */')
    expect(lineAt(error.where)).toContain('/* here */')
    expect(error.help).toMatch(/more than all its memory/)
  })
})

describe('imported models', () => {
  const model = (perm: number): Uint8Array =>
    encodeModel({
      nodes: [{ op: 'Transpose', name: 'turn', in: ['x'], out: ['y'], attrs: { perm: { ints: [perm] } } }],
      inputs: [{ name: 'x', type: tensorType.FLOAT, dims: [3] }],
      outputs: [{ name: 'y', type: tensorType.FLOAT, dims: [3] }],
    })
  it('a node at fault, and the call that imports it', async () => {
    const error = await errorOf(() => importOnnx(model(3)) /* here */)
    expect(error.code).toBe('E_AXIS')
    expect(error.where).toMatch(/^Transpose "turn", imported at /)
    expect(lineAt(error.where)).toContain('/* here */')
  })
  it.each<readonly [what: string, code: string, call: () => unknown]>([
    ['bytes that are no model', 'E_ONNX_MALFORMED', () => importOnnx(Uint8Array.of(1, 2, 3)) /* here */],
    ['a path', 'E_ARGUMENT', () => importOnnx('model.onnx' as never) /* here */],
    ['null as options', 'E_ARGUMENT', () => importOnnx(model(0), null as never) /* here */],
    ['an input there is not', 'E_ONNX_INPUT', () => importOnnx(model(0), { inputShapes: { q: [3] } }) /* here */],
    [
      'a value that is no tensor',
      'E_ARGUMENT',
      () => importOnnx(model(0), { inputValues: { x: 3 as never } }) /* here */,
    ],
    ['no inputs', 'E_STRUCTURE', () => importOnnx(model(0)).apply({}, undefined as never) /* here */],
  ])('%s', async (_, code, call) => {
    const error = await errorOf(call)
    expect(error.code).toBe(code)
    expect(lineAt(error.where)).toContain('/* here */')
    expect(error.help ?? '').not.toBe('')
  })
})

it('outside jit no stack is looked at until an error is made', () => {
  const Native = Error
  let stacks = 0
  const counted = new Proxy(Native, {
    construct: (target, args, newTarget) => {
      stacks++
      return Reflect.construct(target, args, newTarget) as Error
    },
  })
  vi.stubGlobal('Error', counted)
  try {
    let x: Tensor = tensor([1, 2])
    for (let i = 0; i < 50; i++) x = s.nn.relu(x.add(i)).matmul(ones([2, 2]))
    x.dataSync()
    expect(stacks).toBe(0)
    expect(() => x.add(ones([3]))).toThrow(UserError)
    expect(stacks).toBeGreaterThan(0)
  } finally {
    vi.unstubAllGlobals()
  }
})
