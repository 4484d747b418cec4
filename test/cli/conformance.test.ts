/**
 * `sinter verify --device wasm` over ONNX's node cases and ten real models. Runs when SINTER_SHARED names the folder that
 * holds `onnx/onnx-models.tar.xz` and `onnx/onnx-node-cases.tar.xz`.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CaseResult } from '../../src/cli/verify/runCase.ts'
import { contribPresent, unpackContrib } from '../onnx/archives.ts'
import { refusedCases } from '../onnx/contribCases.ts'
import { nightly, some } from '../support/nightly.ts'
import { sinter } from './support.ts'

const shared = process.env.SINTER_SHARED
const archives = shared === undefined ? undefined : join(shared, 'onnx')
const present = archives !== undefined && existsSync(archives)
if (!present) console.warn('\n*** ONNX CASES NOT RUN ON WASM: SINTER_SHARED names no folder with onnx/*.tar.xz. ***\n')

/** Node cases that must pass, by day of every 25th: the number reached, so that none is lost unseen. */
const floor = nightly ? 1190 : 50
/** The same of cases of onnxruntime's operators, by day of every ninth. */
const contribFloor = nightly ? 167 : 19

describe.skipIf(!present)('ONNX on wasm', () => {
  let root = ''
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'sinter-verify-'))
    for (const archive of readdirSync(archives ?? '').filter((f) => f.endsWith('.tar.xz')))
      execFileSync('tar', ['-xJf', join(archives ?? '', archive), '-C', root])
  }, 120_000)
  afterAll(() => rmSync(root, { recursive: true, force: true }))

  it('the ten models (by day two) pass, nothing specialised', async () => {
    const all = readdirSync(root).filter((d) => !d.startsWith('test_'))
    expect(all).toHaveLength(10)
    const models = some(all.sort(), 6)
    const r = await sinter('verify', ...models.map((m) => join(root, m)), '--jobs', '1', '--json')
    const data = JSON.parse(r.out)
    const failed = data.cases.filter((c: CaseResult) => c.status !== 'passed')
    expect(failed).toEqual([])
    expect(data.passed).toBe(models.length)
    expect(data.cases.flatMap((c: CaseResult) => c.specialised)).toEqual([])
  }, 300_000)

  it('node cases', async () => {
    const all = readdirSync(root).filter((d) => d.startsWith('test_'))
    const cases = some(all.sort(), 25)
    const r = await sinter('verify', ...cases.map((m) => join(root, m)), '--jobs', '2', '--json')
    const data = JSON.parse(r.out)
    for (const c of data.cases as CaseResult[])
      if (c.status === 'failed' && c.code !== 'E_ONNX_UNSUPPORTED')
        console.info(`  ${c.name}: [${c.code}] ${c.message}`)
    console.info(`ONNX node cases on wasm: ${r.err}`)
    expect(data.cases.filter((c: CaseResult) => c.code === 'FOLDED_INPUT')).toEqual([])
    expect(data.passed).toBeGreaterThanOrEqual(floor)
  }, 600_000)
})

describe.skipIf(!contribPresent("CASES OF ONNXRUNTIME'S OPERATORS ON WASM"))("onnxruntime's operators on wasm", () => {
  it('cases and models, each within its own tolerance', async () => {
    const root = unpackContrib()
    const all = readdirSync(root, { withFileTypes: true }).flatMap((d) => (d.isDirectory() ? [d.name] : []))
    const cases = some(all.sort(), 9)
    const r = await sinter('verify', ...cases.map((m) => join(root, m)), '--jobs', '2', '--json')
    const data = JSON.parse(r.out)
    const failed = (data.cases as CaseResult[]).filter((c) => c.status !== 'passed')
    console.info(`onnxruntime's operators on wasm: ${r.err}`)
    expect(failed.filter((c) => c.code !== 'E_ONNX_UNSUPPORTED')).toEqual([])
    const refused = failed.filter((c) => refusedCases[c.name]?.test(c.message ?? '') === true)
    expect(refused.map((c) => c.name)).toEqual(
      Object.keys(refusedCases)
        .filter((name) => cases.includes(name))
        .sort(),
    )
    expect(data.passed).toBeGreaterThanOrEqual(contribFloor)
  }, 300_000)
})
