/** What the WebAssembly engine offers, found out by small modules; and errors that say what it lacks. */
import { UserError } from '../../diagnostics/errors.ts'
import { setEngineFlag } from '../../host/engine.ts'
import { workerThreads } from './host.ts'

/** A module of sections after the magic number and the version. */
const moduleOf = (...sections: readonly number[]): Uint8Array<ArrayBuffer> =>
  new Uint8Array([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, ...sections])

/** () -> v128: zero splat. */
const simdProbe = moduleOf(...[1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10, 8, 1, 6, 0, 0x41, 0x00, 0xfd, 0x11, 0x0b])

/** One shared memory of one page. */
const sharedProbe = moduleOf(5, 4, 1, 3, 1, 1)

const splat = (local: number): number[] => [0x20, local, 0xfd, 0x13]
const maddBody = [0x00, ...splat(0), ...splat(1), ...splat(2), 0xfd, 0x85, 0x02, 0xfd, 0x1f, 0x00, 0x0b]

/** f(a: f32, b: f32, c: f32) -> f32: f32x4.relaxed_madd in every lane, the first. */
const relaxedProbe = moduleOf(
  ...[1, 8, 1, 0x60, 3, 0x7d, 0x7d, 0x7d, 1, 0x7d, 3, 2, 1, 0, 7, 5, 1, 1, 0x66, 0, 0],
  ...[10, maddBody.length + 2, 1, maddBody.length, ...maddBody],
)

const accepts = (module: Uint8Array<ArrayBuffer>): boolean =>
  typeof WebAssembly === 'object' && WebAssembly.validate(module)

/** Whether kernels, which are SIMD throughout, can be. */
export const hasSimd = (): boolean => accepts(simdProbe)

/** Whether memory can be shared between threads of this host. */
export const sharesMemory = (): boolean =>
  typeof SharedArrayBuffer !== 'undefined' && workerThreads() !== undefined && accepts(sharedProbe)

/** What `relaxed_madd` is: a multiplication and an addition rounded once, rounded apart, or not there. */
export type MultiplyAdd = 'fused' | 'apart' | 'none'

let multiplyAdd: MultiplyAdd | undefined

/**
 * What the engine makes of `relaxed_madd`: the specification leaves it free, but one engine on one machine always does the same. Where
 * V8 keeps relaxed SIMD behind a flag, the flag is set.
 */
export function relaxedMultiplyAdd(): MultiplyAdd {
  multiplyAdd ??= findMultiplyAdd()
  return multiplyAdd
}

function findMultiplyAdd(): MultiplyAdd {
  if (!accepts(relaxedProbe)) setEngineFlag('--experimental-wasm-relaxed-simd')
  if (!accepts(relaxedProbe)) return 'none'
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(relaxedProbe)).exports
  // The square of 1 + 2^-12 is 1 + 2^-11 + 2^-24, which rounds to 1 + 2^-11.
  const a = 1 + 2 ** -12
  const run = f as unknown as (a: number, b: number, c: number) => number
  return run(a, a, -(1 + 2 ** -11)) === 2 ** -24 ? 'fused' : 'apart'
}

const elsewhere =
  "or compute on a GPU: import { webgpu } from 'sinter/webgpu', then setDevice(await webgpu()); setDevice('reference') needs neither, and is slow"

/** Throws E_DEVICE where the engine cannot run kernels: without WebAssembly, without SIMD, or forbidden to compile. */
export function checkEngine(): void {
  if (typeof WebAssembly !== 'object')
    throw new UserError('E_DEVICE', 'this engine has no WebAssembly', {
      help: `use one that has (Node without --jitless, a browser that does not switch it off), ${elsewhere}`,
    })
  if (!hasSimd())
    throw new UserError('E_DEVICE', 'the WebAssembly of this engine has no SIMD', {
      help: `run on Node 20 or later, or a browser of 2023 or later, ${elsewhere}`,
    })
  try {
    new WebAssembly.Module(simdProbe)
  } catch (cause) {
    // The engine has said that the module is valid: what stops it is the policy of the page or of the program that embeds it.
    throw new UserError('E_DEVICE', 'the policy of this page forbids WebAssembly to compile', {
      help: `add 'wasm-unsafe-eval' to script-src of its Content-Security-Policy, ${elsewhere}`,
      cause,
    })
  }
}

/** Throws E_DEVICE where threads are asked for and memory cannot be shared. */
export function checkThreads(threads: number): void {
  if (threads > 1 && !sharesMemory())
    throw new UserError('E_DEVICE', `threads is ${threads}, and this engine shares no memory between threads`, {
      help: 'leave threads out: kernels then run on the calling thread, as always in a browser',
    })
}
