/** Finds and loads native libraries: the FFI library (optional dependency `koffi`), the driver, NVRTC, cuBLASLt. */
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, isAbsolute, join } from 'node:path'
import { UserError } from '../../diagnostics/errors.ts'

type NativeType = 'int' | 'uint32_t' | 'uint64_t' | 'void*' | 'str' | 'float'

/** Numbers for integers and addresses, typed arrays for pointers to memory of the host. */
export type NativeArgument = number | bigint | string | ArrayBufferView | null

export type NativeFunction = (...args: readonly NativeArgument[]) => number

export interface NativeLibrary {
  func(name: string, result: NativeType, args: readonly NativeType[]): NativeFunction
}

/** The parts of koffi in use. */
export interface Ffi {
  load(path: string): NativeLibrary
  address(memory: ArrayBufferView): bigint
  view(address: bigint, bytes: number): ArrayBuffer
}

const require = createRequire(import.meta.url)

/** Where the FFI library lies, for threads that load it too. */
export const ffiPath = (): string => require.resolve('koffi')

/** Throws E_DEVICE where koffi is not installed. */
export function loadFfi(): Ffi {
  try {
    return require('koffi') as Ffi
  } catch (cause) {
    throw new UserError('E_DEVICE', 'the package koffi, which calls the CUDA driver, is not installed', {
      help: 'npm install koffi',
      cause,
    })
  }
}

/** The first of several paths that loads, with why the others did not. */
function loadFirst(ffi: Ffi, paths: readonly string[]): { library?: NativeLibrary; path?: string; reasons: string[] } {
  const reasons: string[] = []
  for (const path of paths) {
    try {
      return { library: ffi.load(path), path, reasons }
    } catch (e) {
      reasons.push(e instanceof Error ? e.message : String(e))
    }
  }
  return { reasons }
}

const windows = process.platform === 'win32'

/** A library that the user names (SINTER_LIBCUDA, SINTER_NVRTC, SINTER_CUBLASLT), before the usual places. */
const named = (variable: string): string[] => {
  const path = process.env[variable]
  return path === undefined || path === '' ? [] : [path]
}

/** Throws E_DEVICE without an NVIDIA driver. */
export function loadDriverLibrary(ffi: Ffi): NativeLibrary {
  const places = windows
    ? ['nvcuda.dll']
    : ['libcuda.so.1', 'libcuda.so', '/usr/local/nvidia/lib64/libcuda.so.1', '/usr/lib/wsl/lib/libcuda.so.1']
  const { library, reasons } = loadFirst(ffi, [...named('SINTER_LIBCUDA'), ...places])
  if (library !== undefined) return library
  throw new UserError('E_DEVICE', `no NVIDIA driver: ${reasons[0] ?? ''}`, {
    help: 'install the NVIDIA driver (libcuda.so.1 must be on the library path; in a container, start it with GPU access)',
  })
}

const inside = (folder: string): string[] => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Folders where NVRTC and cuBLASLt usually lie, the user's own settings first. */
function toolkitFolders(): string[] {
  const roots = [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda', '/opt/cuda'].filter(
    (r): r is string => r !== undefined && r !== '',
  )
  for (const d of inside('/usr/local')) if (d.startsWith('cuda-')) roots.push(join('/usr/local', d))
  const folders = roots.flatMap((r) => [
    join(r, 'lib64'),
    join(r, 'lib'),
    join(r, 'targets', 'x86_64-linux', 'lib'),
    join(r, 'bin'),
  ])
  folders.push('/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/local/nvidia/lib64')
  const environment = process.env.VIRTUAL_ENV ?? process.env.CONDA_PREFIX
  if (environment !== undefined)
    for (const python of inside(join(environment, 'lib'))) {
      const nvidia = join(environment, 'lib', python, 'site-packages', 'nvidia')
      folders.push(join(nvidia, 'cuda_nvrtc', 'lib'), join(nvidia, 'cublas', 'lib'), join(nvidia, 'cu13', 'lib'))
    }
  return folders.filter((f) => existsSync(f))
}

/** Names of a library as the system finds them, then in the toolkit's folders. */
function placesOf(names: readonly string[]): string[] {
  const inFolders = toolkitFolders().flatMap((f) => {
    const have = inside(f)
    return names.filter((n) => have.includes(n)).map((n) => join(f, n))
  })
  return [...names, ...inFolders]
}

/** NVRTC looks for its builtins on the library path alone; those beside it are found when they are loaded already. */
function loadBuiltins(ffi: Ffi, nvrtc: string): void {
  if (windows || !isAbsolute(nvrtc)) return
  const folder = dirname(nvrtc)
  for (const f of inside(folder)) if (/^libnvrtc-builtins\.so\./.test(f)) loadFirst(ffi, [join(folder, f)])
}

/** Throws E_DEVICE without NVRTC. */
export function loadCompilerLibrary(ffi: Ffi): { readonly library: NativeLibrary; readonly path: string } {
  const names = windows
    ? ['nvrtc64_130_0.dll', 'nvrtc64_120_0.dll']
    : ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so']
  const paths = [...named('SINTER_NVRTC'), ...placesOf(names)]
  const { library, path, reasons } = loadFirst(ffi, paths)
  if (library !== undefined && path !== undefined) {
    loadBuiltins(ffi, path)
    return { library, path }
  }
  throw new UserError('E_DEVICE', `no NVRTC (CUDA's run-time compiler, version 12 or later): ${reasons[0] ?? ''}`, {
    help: 'install the CUDA toolkit, or the NVRTC package of your system, and set CUDA_HOME to its folder',
  })
}

/** cuBLASLt, or why there is none; SINTER_CUBLASLT=off leaves it out. */
export function loadProductLibrary(ffi: Ffi): NativeLibrary | { readonly missing: string } {
  if (process.env.SINTER_CUBLASLT === 'off') return { missing: 'SINTER_CUBLASLT is off' }
  const names = windows
    ? ['cublasLt64_13.dll', 'cublasLt64_12.dll']
    : ['libcublasLt.so.13', 'libcublasLt.so.12', 'libcublasLt.so']
  const { library, reasons } = loadFirst(ffi, [...named('SINTER_CUBLASLT'), ...placesOf(names)])
  return library ?? { missing: reasons[0] ?? 'not found' }
}
