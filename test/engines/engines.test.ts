/**
 * The built library on other engines than the one of the tests: Node 22 and 24 and Bun, from a lockfile of their own, and Node 22 and 24
 * again where types are not stripped. Each passes `smoke.mjs` (what it claims stands there), and all give the strict bits that this
 * engine gives.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { some } from '../support/nightly.ts'

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const required = process.env.SINTER_REQUIRE_ENGINES === '1'

interface Engine {
  readonly name: string
  readonly binary: string
  readonly flags?: readonly string[]
  /** What it does with TypeScript. */
  readonly types: 'none' | 'stripped'
}

const node = (version: 22 | 24): string => at(`node_modules/node${version}/bin/node`)
const engines: readonly Engine[] = [
  { name: 'bun 1', binary: at('node_modules/bun/bin/bun'), types: 'stripped' },
  { name: 'node 22', binary: node(22), types: 'stripped' },
  { name: 'node 24', binary: node(24), types: 'stripped' },
  { name: 'node 24', binary: node(24), flags: ['--no-strip-types'], types: 'none' },
  { name: 'node 22', binary: node(22), flags: ['--no-experimental-strip-types'], types: 'none' },
]

/** Why they cannot be run. */
const missing =
  process.platform !== 'linux' || process.arch !== 'x64'
    ? `the engines are those of linux-x64, and this is ${process.platform}-${process.arch}`
    : !existsSync(at('../../dist/index.js'))
      ? 'the library is not built: npm run build'
      : engines.some(({ binary }) => !existsSync(binary))
        ? 'engines are not installed: npm ci --prefix test/engines --ignore-scripts'
        : undefined
if (missing !== undefined) console.warn(`\n*** OTHER ENGINES NOT RUN: ${missing}. ***\n`)

interface Found {
  readonly engine: string
  readonly types: string
  readonly strict: unknown
}

function smoke(binary: string, flags: readonly string[] = []): Found {
  const r = spawnSync(binary, [...flags, at('smoke.mjs')], { encoding: 'utf8', timeout: 50_000 })
  expect(r.status, r.stderr).toBe(0)
  return JSON.parse(r.stdout.trim().split('\n').at(-1) ?? '')
}

describe.skipIf(missing !== undefined && !required)('other engines', () => {
  let here: Found | undefined
  it('can be run', () => expect(missing).toBeUndefined())
  // By day the one whose engine is another than that of the tests.
  it.each(some(engines, 5))('$name $flags', ({ name, binary, flags, types }) => {
    here ??= smoke(process.execPath)
    const there = smoke(binary, flags)
    expect(there.engine.startsWith(`${name}.`)).toBe(true)
    expect(there.types).toBe(types)
    expect(there.strict).toEqual(here.strict)
  })
})
