/**
 * Runs mutants in a process of their own, and ends it where one does not come back: what went wrong, mutant by mutant. A script of mutants
 * takes the first, the one after the last and further arguments; it writes a line `N` before mutant N, and `N CODE message` after a fault.
 */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/**
 * The longest that a mutant may take, in milliseconds, on a machine that does much else. That none takes two seconds of a quiet one is
 * measured by `scripts/dependable`.
 */
const patience = 20_000
/** The longest until the first mutant: the process starts, and reads its sources. */
const starting = 60_000

const jiti = join(dirname(createRequire(import.meta.url).resolve('jiti/package.json')), 'lib/jiti-cli.mjs')

/** One process, from a mutant on: the one it stopped at, if it did not reach the end. Faults go to `faults`. */
const stretch = (
  script: string,
  from: number,
  to: number,
  more: readonly string[],
  faults: string[],
): Promise<number | undefined> =>
  new Promise((done) => {
    const args = ['--max-old-space-size=1024', jiti, script, String(from), String(to), ...more]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let at = from - 1
    let hung = false
    let errors = ''
    const stop = (): void => {
      hung = true
      child.kill('SIGKILL')
    }
    let timer = setTimeout(stop, starting)
    child.stderr.on('data', (text) => {
      errors = (errors + String(text)).slice(-1000)
    })
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.includes(' ')) {
        faults.push(line)
        return
      }
      at = Number(line)
      clearTimeout(timer)
      timer = setTimeout(stop, patience)
    })
    child.on('close', (code) => {
      clearTimeout(timer)
      if (code === 0) return done(undefined)
      faults.push(`${at} ${hung ? 'does not come back' : `ends the process with ${code}: ${errors}`}`)
      done(at)
    })
  })

/** Runs mutants `from` to `to` of a script, the last not included; what went wrong. Gives up after twenty that end the process. */
export async function faultsOf(script: URL, from: number, to: number, more: readonly string[] = []): Promise<string[]> {
  const faults: string[] = []
  let next = from
  for (let ends = 0; next < to && ends < 20; ends++) {
    const stopped = await stretch(fileURLToPath(script), next, to, more, faults)
    if (stopped === undefined) return faults
    next = stopped + 1
  }
  return faults
}
