/** NVRTC, CUDA's run-time compiler, behind the interface of `driver.ts`. */
import { UserError } from '../../diagnostics/errors.ts'
import type { CompileOutcome, CudaCompiler } from './driver.ts'
import { type Ffi, loadCompilerLibrary, loadFfi, type NativeArgument, type NativeFunction } from './library.ts'

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

/** Opens NVRTC. Throws E_DEVICE where there is none. */
export function openCompiler(): CudaCompiler {
  const ffi = loadFfi()
  return new Nvrtc(ffi, loadCompilerLibrary(ffi).library)
}

class Nvrtc implements CudaCompiler {
  readonly version: string
  readonly architectures: readonly number[]
  private readonly ffi: Ffi
  private readonly functions: Readonly<Record<Name, NativeFunction>>

  constructor(ffi: Ffi, library: ReturnType<typeof loadCompilerLibrary>['library']) {
    this.ffi = ffi
    this.functions = Object.fromEntries(
      Object.entries(signatures).map(([name, args]) => [name, library.func(name, 'int', args)]),
    ) as Record<Name, NativeFunction>
    const [major, minor] = [new Int32Array(1), new Int32Array(1)]
    this.call('nvrtcVersion', major, minor)
    this.version = `${major[0]}.${minor[0]}`
    if ((major[0] ?? 0) < 12)
      throw new UserError('E_DEVICE', `NVRTC ${this.version} is too old`, {
        help: 'install CUDA 12 or later and set CUDA_HOME to its folder',
      })
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

  private size(name: Name, program: number): number {
    const out = new BigUint64Array(1)
    this.call(name, program, out)
    return Number(out[0])
  }

  compile(source: string, name: string, options: readonly string[]): CompileOutcome {
    const handle = new BigUint64Array(1)
    this.call('nvrtcCreateProgram', handle, source, name, 0, 0, 0)
    const program = Number(handle[0])
    try {
      const texts = options.map((o) => new TextEncoder().encode(`${o}\0`.padEnd(72, '\0')))
      const table = BigUint64Array.from(texts, (t) => this.ffi.address(t))
      const code = this.functions.nvrtcCompileProgram(program, options.length, table)
      const log = new Uint8Array(Math.max(1, this.size('nvrtcGetProgramLogSize', program)))
      this.call('nvrtcGetProgramLog', program, log)
      const text = new TextDecoder().decode(log).replace(/\0+$/, '')
      if (code !== 0) return { image: undefined, log: text === '' ? `NVRTC error ${code}` : text }
      const image = new Uint8Array(this.size('nvrtcGetCUBINSize', program))
      this.call('nvrtcGetCUBIN', program, image)
      return { image, log: text }
    } finally {
      this.call('nvrtcDestroyProgram', handle)
    }
  }
}
