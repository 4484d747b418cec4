/** The built command, as users start it. `npm run build` comes before the tests in CI. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { nightly } from '../support/nightly.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const built = existsSync(`${root}/dist/cli/main.js`)
const run = (...args: string[]) =>
  spawnSync(process.execPath, ['dist/cli/main.js', ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  })

if (!built) console.warn('\n*** THE BUILT COMMAND IS NOT TESTED: run npm run build first. ***\n')

describe.skipIf(!built)('dist/cli/main.js', () => {
  it('explains a program module and an ONNX model', () => {
    const program = run('explain', 'examples/layer.ts')
    expect(program.stderr).toBe('')
    expect(program.stdout).toContain('layer: 3 operations in 1 kernel')
    // By day the model is run below.
    if (!nightly) return
    const model = run('explain', 'examples/digits/digits.onnx')
    expect(model.status).toBe(0)
    expect(model.stdout).toContain('digits: 51 operations')
  })
  it('ends with exit code 2 on bad usage', () => {
    const r = run('run')
    expect(r.status).toBe(2)
    expect(r.stderr).toContain("missing required argument 'MODEL'")
  })
  it('reads digits', () => {
    const r = run('run', 'examples/digits/digits.onnx', '--input', 'image=examples/digits/images.npy', '--json')
    expect(r.status).toBe(0)
    expect(JSON.parse(r.stdout).outputs.map((o: { name: string }) => o.name)).toEqual(['probabilities', 'digit'])
  })
})
