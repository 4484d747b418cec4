/**
 * Operators and models of onnxruntime's domain, ai.onnx.ml among them, through importer and reference evaluator, against onnxruntime's
 * results. Runs when SINTER_SHARED names the folder that holds `contrib/contrib-cases.tar.xz`.
 */
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { contribPresent, unpackContrib } from './archives.ts'
import { type CaseResult, runCase } from './cases.ts'
import { refusedCases } from './contribCases.ts'

/** Cases that must pass: the number reached, so that none is lost unseen. */
const floor = 167

describe.skipIf(!contribPresent("CASES OF ONNXRUNTIME'S OPERATORS"))("onnxruntime's operators", () => {
  it('cases and models', () => {
    const root = unpackContrib()
    const names = readdirSync(root, { withFileTypes: true }).flatMap((d) => (d.isDirectory() ? [d.name] : []))
    const results = names.map((name) => runCase(root, name))
    const passed = results.filter((r) => r.status === 'passed')
    console.info(`onnxruntime's operators: ${passed.length} of ${results.length} cases passed`)
    const refused = (r: CaseResult): boolean =>
      r.status === 'unsupported' && refusedCases[r.name]?.test(r.message) === true
    const lost = results.filter((r) => r.status === 'failed')
    expect(lost.map((r) => `${r.name}: ${r.message}`)).toEqual([])
    expect(results.filter(refused).map((r) => r.name)).toEqual(Object.keys(refusedCases).sort())
    expect(passed.length).toBeGreaterThanOrEqual(floor)
  }, 120_000)
})
