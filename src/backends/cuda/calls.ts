/** The functions of the CUDA driver API in use, bound through the FFI library and checked. */
import { DriverError } from './driver.ts'
import type { Ffi, NativeArgument, NativeFunction, NativeLibrary } from './library.ts'

const u64 = 'uint64_t'
const u32 = 'uint32_t'

/** The functions in use, with their types. Names carry the version suffix of the ABI they are declared with. */
const signatures = {
  cuInit: [u32],
  cuDriverGetVersion: ['void*'],
  cuDeviceGetCount: ['void*'],
  cuDeviceGet: ['void*', 'int'],
  cuDeviceGetName: ['void*', 'int', 'int'],
  cuDeviceTotalMem_v2: ['void*', 'int'],
  cuDeviceGetAttribute: ['void*', 'int', 'int'],
  cuDevicePrimaryCtxRetain: ['void*', 'int'],
  cuDevicePrimaryCtxRelease_v2: ['int'],
  cuCtxSetCurrent: [u64],
  cuStreamCreate: ['void*', u32],
  cuStreamSynchronize: [u64],
  cuStreamDestroy_v2: [u64],
  cuMemAlloc_v2: ['void*', u64],
  cuMemFree_v2: [u64],
  cuMemGetInfo_v2: ['void*', 'void*'],
  cuMemHostAlloc: ['void*', u64, u32],
  cuMemFreeHost: [u64],
  cuMemcpyHtoDAsync_v2: [u64, u64, u64, u64],
  cuMemcpyDtoHAsync_v2: [u64, u64, u64, u64],
  cuMemcpyDtoDAsync_v2: [u64, u64, u64, u64],
  cuEventCreate: ['void*', u32],
  cuEventRecord: [u64, u64],
  cuEventSynchronize: [u64],
  cuEventQuery: [u64],
  cuEventElapsedTime: ['void*', u64, u64],
  cuEventDestroy_v2: [u64],
  cuModuleLoadData: ['void*', 'void*'],
  cuModuleUnload: [u64],
  cuModuleGetFunction: ['void*', u64, 'str'],
  cuFuncGetAttribute: ['void*', 'int', u64],
  cuFuncSetAttribute: [u64, 'int', 'int'],
  cuOccupancyMaxActiveBlocksPerMultiprocessor: ['void*', u64, 'int', u64],
  cuLaunchKernel: [u64, u32, u32, u32, u32, u32, u32, u32, u64, u64, u64],
  cuGraphCreate: ['void*', u32],
  cuGraphAddKernelNode: ['void*', u64, 'void*', u64, 'void*'],
  cuGraphAddDependencies_v2: [u64, 'void*', 'void*', 'void*', u64],
  cuGraphInstantiateWithFlags: ['void*', u64, u64],
  cuGraphExecKernelNodeSetParams: [u64, u64, 'void*'],
  cuGraphExecUpdate_v2: [u64, u64, 'void*'],
  cuStreamBeginCapture_v2: [u64, 'int'],
  cuStreamEndCapture: [u64, 'void*'],
  cuGraphLaunch: [u64, u64],
  cuGraphExecDestroy: [u64],
  cuGraphDestroy: [u64],
} as const

export type CallName = keyof typeof signatures

/** The driver's functions, checked. */
export class Calls {
  private readonly functions = new Map<CallName, NativeFunction>()
  private readonly library: NativeLibrary
  private readonly errorName: NativeFunction
  private readonly errorString: NativeFunction
  readonly ffi: Ffi

  constructor(ffi: Ffi, library: NativeLibrary) {
    this.ffi = ffi
    this.library = library
    this.errorName = library.func('cuGetErrorName', 'int', ['int', 'void*'])
    this.errorString = library.func('cuGetErrorString', 'int', ['int', 'void*'])
  }

  /** A function, bound when it is first asked for: old drivers lack new ones. */
  fn(name: CallName): NativeFunction {
    const have = this.functions.get(name)
    if (have !== undefined) return have
    const made = this.library.func(name, 'int', signatures[name])
    this.functions.set(name, made)
    return made
  }

  /** Whether the driver has a function. */
  has(name: CallName): boolean {
    try {
      this.fn(name)
      return true
    } catch {
      return false
    }
  }

  call(name: CallName, ...args: readonly NativeArgument[]): void {
    const code = this.fn(name)(...args)
    if (code !== 0) this.fail(name, code)
  }

  fail(name: CallName, code: number): never {
    const error = this.text(this.errorName, code) ?? `CUDA error ${code}`
    throw new DriverError(name, error, this.text(this.errorString, code) ?? 'no description')
  }

  private text(of: NativeFunction, code: number): string | undefined {
    const at = new BigUint64Array(1)
    if (of(code, at) !== 0 || at[0] === undefined || at[0] === 0n) return undefined
    const bytes = new Uint8Array(this.ffi.view(at[0], 128))
    const end = bytes.indexOf(0)
    return new TextDecoder().decode(bytes.slice(0, end < 0 ? bytes.length : end))
  }

  /** What a call writes into its first argument, an address or handle. */
  handle(name: CallName, ...args: readonly NativeArgument[]): number {
    const out = new BigUint64Array(1)
    this.call(name, out, ...args)
    return Number(out[0])
  }

  /** The same of a 32-bit integer. */
  integer(name: CallName, ...args: readonly NativeArgument[]): number {
    const out = new Int32Array(1)
    this.call(name, out, ...args)
    return out[0] ?? 0
  }

  /** Address of memory that stays where it is as long as the view lives. */
  address(view: ArrayBufferView): number {
    return Number(this.ffi.address(view))
  }
}
