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
