/**
 * The snippets of README.md run as they stand, each a file of its own beside the built package, in the order of the page. They need a
 * build, and the one on a GPU a software Vulkan driver. Sites looked at: every fenced block of README.md marked ts, js or sh.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { some } from '../support/nightly.ts'
import { chooseDriver } from '../support/softwareDriver.ts'

const root = resolve(import.meta.dirname, '../..')
const snippets = [...readFileSync(join(root, 'README.md'), 'utf8').matchAll(/^```(ts|js)\n([\s\S]*?)^```$/gm)].map(
  ([, language = '', code = ''], i) => ({ name: `${i + 1}: ${code.split('\n')[0]}`, language, code }),
)

const folder = mkdtempSync(join(tmpdir(), 'sinter-readme-'))
mkdirSync(join(folder, 'node_modules'))
symlinkSync(root, join(folder, 'node_modules', 'sinter'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Types taken out by the compiler that the project has. */
async function asModule(language: string, code: string): Promise<string> {
  if (language === 'js') return code
  const { default: ts } = await import('typescript')
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true }
  return ts.transpileModule(code, { compilerOptions }).outputText
}

test('README has snippets', () => {
  expect(snippets.length).toBeGreaterThanOrEqual(5)
})

describe.skipIf(!existsSync(join(root, 'dist', 'index.js')))('with a build', () => {
  // By day every other one; the others are of the same functions.
  test.each(some(snippets, 2))('snippet $name', async ({ language, code }) => {
    const missing = code.includes('sinter/webgpu') ? chooseDriver() : undefined
    if (missing !== undefined) {
      console.warn(`not run: ${missing}`)
      return
    }
    const file = join(folder, `snippet${snippets.findIndex((s) => s.code === code)}.mjs`)
    // A device of WebGPU keeps the process alive.
    writeFileSync(file, `${await asModule(language, code)}\nprocess.exit(0)\n`)
    const run = spawnSync(process.execPath, [file], { cwd: root, encoding: 'utf8', timeout: 60_000 })
    expect(run.stderr.replace(/^Warning: .*$/gm, '').trim()).toBe('')
    expect(run.status).toBe(0)
  })
})
