/** `sinter verify`: runs ONNX backend-test cases and compares with the expected outputs. */
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { UserError } from '../diagnostics/errors.ts'
import { type Console, exitCodes, printData } from './console.ts'
import type { DeviceName } from './devices.ts'
import { fileError } from './files.ts'
import { type Mode, Session } from './session.ts'
import { red } from './style.ts'
import type { Tolerance } from './values.ts'
import { runPool } from './verify/pool.ts'
import { type CaseOptions, type CaseResult, isCase, runCase } from './verify/runCase.ts'

export interface VerifyOptions {
  readonly device: DeviceName
  readonly mode: Mode
  /** Processes; chosen by the number of cases and cores unless given. */
  readonly jobs?: number
  readonly index?: number
  /** Seconds a case may take, where processes run the cases. */
  readonly timeout: number
  readonly tolerance: Tolerance
  readonly skipUnsupported: boolean
  /** Open extents by their names in the cases. */
  readonly lengths: ReadonlyMap<string, number>
  readonly json: boolean
}

/** The cases of the folders given: a case itself, or a folder of cases. Throws E_FILE where there is none. */
export function findCases(dirs: readonly string[]): string[] {
  return dirs.flatMap((dir) => {
    if (isCase(dir)) return [dir]
    let inside: string[]
    try {
      inside = readdirSync(dir)
        .sort()
        .map((d) => join(dir, d))
        .filter(isCase)
    } catch (cause) {
      throw fileError('read', dir, cause)
    }
    if (inside.length === 0)
      throw new UserError('E_FILE', `${dir} is no case and holds none`, {
        help: 'a case is a folder with model.onnx and test_data_set_0/{input,output}_0.pb',
      })
    return inside
  })
}

/** A process pays for itself from about this many cases. */
const casesPerJob = 16

async function runAll(cases: readonly string[], options: VerifyOptions, console: Console): Promise<CaseResult[]> {
  // Processes would share a GPU's memory and gain nothing: the work is on the device.
  const parallel = options.device === 'cuda' || options.device === 'webgpu' ? 1 : availableParallelism()
  const jobs = options.jobs ?? Math.max(1, Math.min(parallel, Math.floor(cases.length / casesPerJob)))
  const caseOptions: CaseOptions = {
    mode: options.mode,
    tolerance: options.tolerance,
    skipUnsupported: options.skipUnsupported,
    lengths: Object.fromEntries(options.lengths),
  }
  let done = 0
  const onResult = (r: CaseResult): void => {
    done++
    if (r.status === 'failed' && !options.json) console.line(failureLine(r))
    console.progress(`${done} of ${cases.length}  ${r.name}`)
  }
  if (jobs > 1)
    return runPool(cases, {
      jobs,
      device: options.device,
      threads: 1,
      ...(options.index === undefined ? {} : { index: options.index }),
      options: caseOptions,
      timeout: options.timeout,
      onResult,
    })
  const session = await Session.open(options.device, options.index === undefined ? {} : { index: options.index })
  try {
    const results: CaseResult[] = []
    for (const dir of cases) {
      console.progress(`${done} of ${cases.length}  ${basename(dir)}`)
      const r = await runCase(dir, session, caseOptions)
      onResult(r)
      results.push(r)
    }
    return results
  } finally {
    session.close()
  }
}

const failureLine = (r: CaseResult): string =>
  `${red('FAIL')}  ${r.name}: [${r.code ?? 'E_INTERNAL'}] ${r.message ?? ''}`

/** Runs the cases; the last line is `N passed, N failed, N skipped`. */
export async function verifyCommand(
  dirs: readonly string[],
  options: VerifyOptions,
  console: Console,
): Promise<number> {
  const results = await runAll(findCases(dirs), options, console)
  console.progress(undefined)
  const count = (status: CaseResult['status']): number => results.filter((r) => r.status === status).length
  const [passed, failed, skipped] = [count('passed'), count('failed'), count('skipped')]
  const closing = `${passed} passed, ${failed} failed, ${skipped} skipped`
  if (options.json) {
    const { device, mode, tolerance } = options
    printData({ device, mode, ...tolerance, passed, failed, skipped, cases: results }, console)
    console.note(closing)
  } else console.line(closing)
  return failed > 0 ? exitCodes.failed : 0
}
