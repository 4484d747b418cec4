/**
 * The test suite under each Node engine of test/engines: `npm run matrix`, or with vitest's arguments, `npm run matrix -- test/api`;
 * `--engine 24` takes one alone, `--slice 2/6` the second of six parts of the test files: all six together are the suite. Prints a
 * table; exit code 1 where an engine fails or is not installed.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
/** The value of an option of ours, which vitest is not handed. */
function take(name) {
  const at = args.indexOf(name)
  return at < 0 ? undefined : (args.splice(at, 2)[1] ?? '')
}
const only = take('--engine')
const slice = take('--slice')
const [, part, parts] = (slice ?? '1/1').match(/^([1-9]\d{0,2})\/([1-9]\d{0,2})$/) ?? []
if (part === undefined || Number(part) > Number(parts)) {
  console.error(`--slice ${slice}: 2/6 is the second of six slices`)
  process.exit(2)
}
if (slice !== undefined) args.push(`--shard=${slice}`)

const versions = ['22', '24'].filter((v) => only === undefined || v === only)
if (versions.length === 0) {
  console.error(`--engine ${only}: there are 22 and 24`)
  process.exit(2)
}

const rows = versions.map((version) => {
  const binary = `${root}test/engines/node_modules/node${version}/bin/node`
  if (!existsSync(binary))
    return { version, ok: false, what: 'npm ci --prefix test/engines --ignore-scripts installs it' }
  const start = performance.now()
  const run = spawnSync(binary, [`${root}node_modules/vitest/vitest.mjs`, 'run', ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
  process.stdout.write(run.stdout ?? '')
  const closing = (run.stdout ?? '').split('\n').findLast((line) => /^\d+ passed, \d+ failed, \d+ skipped$/.test(line))
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  return {
    version,
    ok: run.status === 0 && closing !== undefined,
    what: `${closing ?? 'ended without its closing line'}, ${seconds} s`,
  }
})

console.log(`\n${slice === undefined ? '' : `slice ${slice}\n`}engine   result  tests`)
for (const { version, ok, what } of rows) console.log(`node ${version}  ${ok ? 'ok    ' : 'FAILED'}  ${what}`)
process.exit(rows.every(({ ok }) => ok) ? 0 : 1)
