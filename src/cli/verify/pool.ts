/** Cases over child processes: one case at a time in each; a child that dies or hangs costs its case, not the run. */
import { type ChildProcess, fork } from 'node:child_process'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DeviceName } from '../devices.ts'
import type { CaseOptions, CaseResult } from './runCase.ts'

/** What a child is told once, as its only argument. */
export interface ChildSetup {
  readonly device: DeviceName
  readonly threads: number
  readonly index?: number
  readonly options: CaseOptions
}

export interface PoolOptions extends ChildSetup {
  readonly jobs: number
  /** Seconds a case may take. */
  readonly timeout: number
  readonly onResult: (result: CaseResult) => void
}

/** Sources run as they are through the same loader that loads program modules. */
const fromSource = import.meta.url.endsWith('.ts')
const childPath = fileURLToPath(new URL(fromSource ? './child.ts' : './child.js', import.meta.url))

function startChild(setup: ChildSetup): ChildProcess {
  return fork(childPath, [JSON.stringify(setup)], {
    execArgv: fromSource ? ['--import', 'jiti/register'] : [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  })
}

const lost = (dir: string, message: string, ms: number): CaseResult => ({
  name: basename(dir),
  status: 'failed',
  code: 'E_WORKER_LOST',
  message,
  specialised: [],
  ms,
})

/** Runs all cases; results come in the order of the cases. */
export async function runPool(dirs: readonly string[], options: PoolOptions): Promise<CaseResult[]> {
  const { device, threads, index, jobs, timeout, onResult } = options
  const setup: ChildSetup = {
    device,
    threads,
    options: options.options,
    ...(index === undefined ? {} : { index }),
  }
  const results = new Array<CaseResult | undefined>(dirs.length)
  let next = 0

  const runOne = (child: ChildProcess, dir: string): Promise<{ result: CaseResult; alive: boolean }> =>
    new Promise((resolve) => {
      const started = performance.now()
      const settle = (result: CaseResult, alive: boolean): void => {
        clearTimeout(timer)
        child.off('message', onMessage)
        child.off('exit', onExit)
        resolve({ result, alive })
      }
      const onMessage = (message: unknown): void => settle(message as CaseResult, true)
      const onExit = (code: number | null, signal: string | null): void => {
        const how = signal === null ? `with exit code ${code}` : `by ${signal}`
        settle(lost(dir, `the process that ran the case ended ${how}`, performance.now() - started), false)
      }
      const timer = setTimeout(() => {
        child.off('exit', onExit)
        child.kill('SIGKILL')
        settle(lost(dir, `no result within ${timeout} s`, performance.now() - started), false)
      }, timeout * 1000)
      child.on('message', onMessage)
      child.on('exit', onExit)
      child.send(dir)
    })

  const work = async (): Promise<void> => {
    let child = startChild(setup)
    for (let i = next++; i < dirs.length; i = next++) {
      const dir = dirs[i]
      if (dir === undefined) break
      const { result, alive } = await runOne(child, dir)
      results[i] = result
      onResult(result)
      if (!alive) child = startChild(setup)
    }
    child.kill()
  }
  await Promise.all(Array.from({ length: Math.min(jobs, dirs.length) }, work))
  return results.filter((r): r is CaseResult => r !== undefined)
}
