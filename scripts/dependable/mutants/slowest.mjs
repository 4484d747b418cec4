/** Runs a script of mutants and measures the slowest. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** The longest time between one of so many mutants of a script and the next, in seconds. */
export function slowest(script, count) {
  const jiti = join(dirname(createRequire(import.meta.url).resolve('jiti/package.json')), 'lib/jiti-cli.mjs')
  const path = fileURLToPath(new URL(`../../../${script}`, import.meta.url))
  const child = spawn(process.execPath, [jiti, path, '0', String(count)], { stdio: ['ignore', 'pipe', 'inherit'] })
  let last
  let longest = 0
  const noted = () => {
    const now = performance.now()
    if (last !== undefined) longest = Math.max(longest, now - last)
    last = now
  }
  createInterface({ input: child.stdout }).on('line', noted)
  return new Promise((done, fail) => {
    child.on('close', (code) => {
      noted()
      if (code === 0) done(longest / 1000)
      else fail(new Error(`the mutants end with ${code}`))
    })
  })
}
