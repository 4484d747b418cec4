/** What the WebAssembly backend takes from its host: worker threads and files in Node, neither in a browser. */
import { builtin } from '../../host/engine.ts'
import type { CacheHost } from '../cacheFolder.ts'

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

export const workerThreads = (): WorkerThreads | undefined =>
  builtin('node:worker_threads') as WorkerThreads | undefined

/** Processors this process may use. */
export function processors(): number {
  const os = builtin('node:os') as { availableParallelism?: () => number } | undefined
  return os?.availableParallelism?.() ?? 1
}

/** Files of the host, as far as calibrations need them. */
export interface Files extends CacheHost {
  /** The text of a file; undefined where there is none. */
  read(path: string): string | undefined
  /** Writes a file, and makes its folders. */
  write(path: string, text: string): void
}

interface NodeFiles {
  readFileSync(path: string, encoding: 'utf8'): string
  writeFileSync(path: string, text: string): void
  mkdirSync(path: string, options: { readonly recursive: true }): void
}

interface NodePaths {
  join(...parts: readonly string[]): string
  dirname(path: string): string
}

/** Undefined outside Node. */
export function files(): Files | undefined {
  const fs = builtin('node:fs') as NodeFiles | undefined
  const path = builtin('node:path') as NodePaths | undefined
  const os = builtin('node:os') as { homedir(): string } | undefined
  const { process } = globalThis as { readonly process?: Pick<Files, 'env' | 'platform'> }
  if (fs === undefined || path === undefined || os === undefined || process === undefined) return undefined
  return {
    env: process.env,
    platform: process.platform,
    home: () => os.homedir(),
    join: (...parts) => path.join(...parts),
    read: (file) => {
      try {
        return fs.readFileSync(file, 'utf8')
      } catch {
        return undefined
      }
    },
    write: (file, text) => {
      fs.mkdirSync(path.dirname(file), { recursive: true })
      fs.writeFileSync(file, text)
    },
  }
}

/** The processor and the engine, as rates depend on them. */
export function processorName(): string {
  const os = builtin('node:os') as { cpus?: () => readonly { readonly model: string }[] } | undefined
  const { process } = globalThis as { readonly process?: { readonly versions?: Readonly<Record<string, string>> } }
  return `${os?.cpus?.()[0]?.model.trim() ?? 'unknown processor'}, V8 ${process?.versions?.v8 ?? 'unknown'}`
}
