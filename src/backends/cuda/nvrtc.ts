/** NVRTC, CUDA's run-time compiler, behind the interface of `driver.ts`. */
import { UserError } from '../../diagnostics/errors.ts'
import type { CompileOutcome, CompilePool, CudaCompiler } from './driver.ts'
import { type Ffi, ffiPath, loadCompilerLibrary, loadFfi, type NativeArgument, type NativeFunction } from './library.ts'
import { poolOfThreads } from './parallel.ts'

const u64 = 'uint64_t'

const signatures = {
  nvrtcVersion: ['void*', 'void*'],
  nvrtcGetNumSupportedArchs: ['void*'],
  nvrtcGetSupportedArchs: ['void*'],
  nvrtcCreateProgram: ['void*', 'str', 'str', 'int', u64, u64],
  nvrtcCompileProgram: [u64, 'int', 'void*'],
  nvrtcGetProgramLogSize: [u64, 'void*'],
  nvrtcGetProgramLog: [u64, 'void*'],
  nvrtcGetCUBINSize: [u64, 'void*'],
  nvrtcGetCUBIN: [u64, 'void*'],
  nvrtcDestroyProgram: ['void*'],
} as const

type Name = keyof typeof signatures
type Functions = Readonly<Record<Name, NativeFunction>>

/** Opens NVRTC. Throws E_DEVICE where there is none. */
export function openCompiler(): CudaCompiler {
  const ffi = loadFfi()
  const { library, path } = loadCompilerLibrary(ffi)
  return new Nvrtc(ffi, library, path)
}

/** One compilation. Worker threads are given the text of this function, so it uses nothing but its parameters. */
function compileWith(
  nvrtc: Functions,
  addressOf: (memory: ArrayBufferView) => bigint,
  source: string,
  name: string,
  options: readonly string[],
): CompileOutcome {
  const call = (f: Name, ...args: NativeArgument[]): void => {
    const code = nvrtc[f](...args)
    if (code !== 0) throw new Error(`${f} failed with NVRTC error ${code}`)
  }
  const sizeOf = (f: Name): number => {
    const out = new BigUint64Array(1)
    call(f, program, out)
    return Number(out[0])
  }
  const handle = new BigUint64Array(1)
  call('nvrtcCreateProgram', handle, source, name, 0, 0, 0)
  const program = Number(handle[0])
  try {
    const texts = options.map((o) => new TextEncoder().encode(`${o}\0`.padEnd(72, '\0')))
    const table = BigUint64Array.from(texts, (t) => addressOf(t))
    const code = nvrtc.nvrtcCompileProgram(program, options.length, table)
    const log = new Uint8Array(Math.max(1, sizeOf('nvrtcGetProgramLogSize')))
    call('nvrtcGetProgramLog', program, log)
    const text = new TextDecoder().decode(log).replace(/\0+$/, '')
    if (code !== 0) return { image: undefined, log: text === '' ? `NVRTC error ${code}` : text }
    const image = new Uint8Array(sizeOf('nvrtcGetCUBINSize'))
    call('nvrtcGetCUBIN', program, image)
    return { image, log: text }
  } finally {
    call('nvrtcDestroyProgram', handle)
  }
}

/** What a worker thread runs to have the same function there. */
const workerSetup = `
  const ffi = require(setup.ffi)
  const library = ffi.load(setup.library)
  const functions = {}
  for (const [name, args] of setup.signatures) functions[name] = library.func(name, 'int', args)
  const compileWith = ${compileWith}
  const compile = (source, name, options) => compileWith(functions, (m) => ffi.address(m), source, name, options)
`

class Nvrtc implements CudaCompiler {
  readonly version: string
  readonly architectures: readonly number[]
  /** Options that all compilations take, where this version knows them. */
  private readonly common: readonly string[]
  private readonly ffi: Ffi
  private readonly path: string
  private readonly functions: Functions

  constructor(ffi: Ffi, library: ReturnType<typeof loadCompilerLibrary>['library'], path: string) {
    this.ffi = ffi
    this.path = path
    this.functions = Object.fromEntries(
      Object.entries(signatures).map(([name, args]) => [name, library.func(name, 'int', args)]),
    ) as Record<Name, NativeFunction>
    const [major, minor] = [new Int32Array(1), new Int32Array(1)]
    this.call('nvrtcVersion', major, minor)
    this.version = `${major[0]}.${minor[0]}`
    const version = 100 * (major[0] ?? 0) + (minor[0] ?? 0)
    if (version < 1200)
      throw new UserError('E_DEVICE', `NVRTC ${this.version} is too old`, {
        help: 'install CUDA 12 or later and set CUDA_HOME to its folder',
      })
    // Declarations that kernels do not use are left out.
    this.common = version >= 1204 ? ['--minimal'] : []
    const count = new Int32Array(1)
    this.call('nvrtcGetNumSupportedArchs', count)
    const list = new Int32Array(Math.max(1, count[0] ?? 0))
    this.call('nvrtcGetSupportedArchs', list)
    this.architectures = [...list]
  }

  private call(name: Name, ...args: readonly NativeArgument[]): void {
    const code = this.functions[name](...args)
    if (code !== 0) throw new UserError('E_DEVICE', `${name} failed with NVRTC error ${code}`)
  }

  compile(source: string, name: string, options: readonly string[]): CompileOutcome {
    return this.here(source, name, [...options, ...this.common])
  }

  pool(options: readonly string[]): CompilePool {
    const all = [...options, ...this.common]
    return poolOfThreads(all, {
      code: workerSetup,
      setup: { ffi: ffiPath(), library: this.path, signatures: Object.entries(signatures) },
      here: (job) => this.here(job.source, job.name, all),
    })
  }

  private here(source: string, name: string, options: readonly string[]): CompileOutcome {
    return compileWith(this.functions, (m) => this.ffi.address(m), source, name, options)
  }
}
