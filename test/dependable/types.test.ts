/**
 * The types of the packed package, compiled as users compile them: `nodenext` and `bundler`, lib es2022 and esnext, every declaration
 * checked, no other types at hand. Without a declaration of its own `Symbol.dispose` was an error in `lib: es2022`, which `skipLibCheck`
 * hides, and an error in a computed name makes an index signature. Sites: `Tensor` (api/core), `JitFunction` (api/jit), the options of
 * devices (named a type beside `WebAssembly.Memory`), `[Symbol.toPrimitive]`, every declaration that the four entries reach.
 * Skipped where there is no build.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import { atNight, turn } from '../support/nightly.ts'
import { noBuild, packedProject, root } from './packed.ts'

const consumer = `
import { type DeviceOptions, grad, type JitFunction, type JitOptions, jit, memory, nn, setDevice, Tensor, tensor, valueAndGrad } from 'sinter'
import { type CudaDeviceOptions, cuda } from 'sinter/cuda'
import { importOnnx, type OnnxModel } from 'sinter/onnx'
import { type Device, webgpu } from 'sinter/webgpu'

export const x: Tensor = tensor([[1, 2], [3, 4]])
export const f: JitFunction<[a: Tensor, b: Tensor], Tensor> = jit((a: Tensor, b: Tensor) => nn.softmax(a.matmul(b)))
export const y: Tensor = f(x, x)
export const d: Tensor = grad((a: Tensor) => a.mul(a).sum())(x)
export const both: [Tensor, Tensor] = valueAndGrad((a: Tensor) => a.mul(a).sum())(x)
export const model: OnnxModel = importOnnx(new Uint8Array(0))
export const gpu: Promise<Device> = webgpu({ powerPreference: 'low-power' })
export const options: [CudaDeviceOptions, DeviceOptions, JitOptions] = [{ index: 1 }, { threads: 2 }, { donate: [0] }]
export const programs: number = memory().programs
setDevice('wasm')
setDevice(cuda({ memoryLimit: '1GiB' }))

export const released: void = x[Symbol.dispose]()
export const dropped: void = f[Symbol.dispose]()
export const disposes: () => void = Tensor.prototype[Symbol.dispose]
f.dispose()

// @ts-expect-error a tensor has no elements by number
export const element = x[0]
// @ts-expect-error nor has a function
export const part = f[0]
// @ts-expect-error nor has a model
export const output = model[0]
// @ts-expect-error no such method
x.softmx()
// @ts-expect-error not a tensor
f(x, 'x')
// @ts-expect-error one argument is missing
f(x)
// @ts-expect-error no such option
jit((a: Tensor) => a, { donated: [0] })
// @ts-expect-error no such option
cuda({ devise: 0 })
// @ts-expect-error nothing is taken
x[Symbol.dispose](1)
`

const using = `
import { jit, type Tensor, tensor } from 'sinter'
{
  using x = tensor([1, 2])
  using f = jit((a: Tensor) => a.mul(2))
  using y = f(x)
  const all: Disposable[] = [x, f, y]
  // @ts-expect-error a number cannot be disposed
  all.push(1)
}
`

const project = noBuild() === undefined ? packedProject() : undefined
if (project !== undefined) {
  writeFileSync(join(project.folder, 'consumer.ts'), consumer)
  writeFileSync(join(project.folder, 'using.ts'), using)
}
afterAll(() => {
  if (project !== undefined) rmSync(project.folder, { recursive: true, force: true })
})

/** TypeScript's own library, which all settings share. */
const library = new Map<string, ts.SourceFile | undefined>()

interface Compiled {
  readonly errors: readonly string[]
  /** Files of declarations outside TypeScript's library. */
  readonly read: readonly string[]
}

function compile(files: readonly string[], settings: ts.CompilerOptions): Compiled {
  const folder = project?.folder ?? ''
  const all: ts.CompilerOptions = { strict: true, noEmit: true, skipLibCheck: false, ...settings }
  const host = ts.createCompilerHost(all)
  host.getCurrentDirectory = () => folder
  const parse = host.getSourceFile
  const own = host.getDefaultLibLocation?.() ?? ''
  host.getSourceFile = (name, ...rest) => {
    if (!name.startsWith(own)) return parse(name, ...rest)
    if (!library.has(name)) library.set(name, parse(name, ...rest))
    return library.get(name)
  }
  const paths = files.map((name) => join(folder, name))
  const program = ts.createProgram(paths, all, host)
  const errors = ts.getPreEmitDiagnostics(program).map((e) => {
    const at = e.file?.getLineAndCharacterOfPosition(e.start ?? 0).line ?? 0
    return `${relative(folder, e.file?.fileName ?? '')}:${at + 1} ${ts.flattenDiagnosticMessageText(e.messageText, '\n')}`
  })
  const read = program.getSourceFiles().flatMap((f) => (f.fileName.startsWith(own) ? [] : [f.fileName]))
  return { errors, read }
}

const { ESNext, NodeNext } = ts.ModuleKind
const resolutions = [
  ['nodenext', { module: NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext }],
  ['bundler', { module: ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }],
] as const
const libs = [
  ['es2022', ['lib.es2022.d.ts'], ['consumer.ts']],
  ['esnext', ['lib.esnext.d.ts'], ['consumer.ts', 'using.ts']],
] as const

describe.each(resolutions)('a user of the packed package, %s', (name, resolution) => {
  // By day each resolution beside another library.
  it.for(
    turn(
      libs,
      resolutions.findIndex(([own]) => own === name),
    ),
  )('lib %s', ([_lib, lib, files], { skip }) => {
    if (project === undefined) return skip(noBuild())
    const settings = { target: ts.ScriptTarget.ES2022, lib: [...lib], types: [] }
    const { errors, read } = compile(files, { ...resolution, ...settings })
    expect(errors).toEqual([])
    const entries = ['index', 'onnx', 'cuda', 'webgpu'].map((e) => join(project.installed, 'dist', `${e}.d.ts`))
    expect(read).toEqual(expect.arrayContaining(entries))
    expect(read.filter((f) => !f.startsWith(project.folder))).toEqual([])
  })
})

atNight('beside the declarations of @types/node', ({ skip }) => {
  if (project === undefined) return skip(noBuild())
  const beside = { typeRoots: [join(root, 'node_modules', '@types')], types: ['node'] }
  const settings = { target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts'], ...beside }
  const { errors, read } = compile(['consumer.ts', 'using.ts'], { ...resolutions[0][1], ...settings })
  expect(errors).toEqual([])
  expect(read.some((f) => f.includes('@types/node'))).toBe(true)
})
