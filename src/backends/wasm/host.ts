/** What the WebAssembly backend takes from its host: V8's flags and worker threads in Node, neither in a browser. */

/** The parts of `node:worker_threads` in use. */
export interface NodeWorker {
  postMessage(message: unknown): void
  on(event: string, listener: (arg: unknown) => void): void
  unref(): void
  terminate(): Promise<number>
}

export interface WorkerThreads {
  readonly Worker: new (
    code: string,
    options: {
      readonly eval: true
      readonly workerData: unknown
      readonly name: string
    },
  ) => NodeWorker
}

interface NodeProcess {
  readonly getBuiltinModule?: (name: string) => unknown
}

/** A module of Node, if this is Node (20.16 or later) and has it: no import, so that browsers can load this file. */
function builtin(name: string): unknown {
  const host: { readonly process?: NodeProcess } = globalThis
  return host.process?.getBuiltinModule?.(name)
}

export const workerThreads = (): WorkerThreads | undefined =>
  builtin('node:worker_threads') as WorkerThreads | undefined

/** Processors this process may use. */
export function processors(): number {
  const os = builtin('node:os') as { availableParallelism?: () => number } | undefined
  return os?.availableParallelism?.() ?? 1
}

export function setEngineFlag(flag: string): void {
  const v8 = builtin('node:v8') as { setFlagsFromString?: (flag: string) => void } | undefined
  v8?.setFlagsFromString?.(flag)
}

/** (func (param v128 v128 v128) (result v128) local.get 0 local.get 1 local.get 2 f32x4.relaxed_madd) */
const relaxedProbe = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 8, 1, 0x60, 3, 0x7b, 0x7b, 0x7b, 1, 0x7b, 3, 2, 1, 0, 10, 13, 1, 11, 0, 0x20,
  0, 0x20, 1, 0x20, 2, 0xfd, 0x85, 0x02, 0x0b,
])

let relaxed: boolean | undefined

/** Whether the engine has relaxed SIMD: where V8 keeps it behind a flag, the flag is set. */
export function hasRelaxedSimd(): boolean {
  if (relaxed !== undefined) return relaxed
  relaxed = WebAssembly.validate(relaxedProbe)
  if (!relaxed) {
    setEngineFlag('--experimental-wasm-relaxed-simd')
    relaxed = WebAssembly.validate(relaxedProbe)
  }
  return relaxed
}
