/**
 * Operators and models of onnxruntime's domain, ai.onnx.ml among them, through importer and reference evaluator, against onnxruntime's
 * results. Runs when SINTER_SHARED names the folder that holds `contrib/contrib-cases.tar.xz`.
 */
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { launchOf } from '../../src/cli/launch.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { nightly, some, turn } from '../support/nightly.ts'
import { contribPresent, unpackContrib } from './archives.ts'
import { type CaseResult, graphOf, runCase } from './cases.ts'
import { refusedCases } from './contribCases.ts'

/** Cases that must pass: the number reached, so that none is lost unseen. */
const floor = nightly ? 170 : 80

describe.skipIf(!contribPresent("CASES OF ONNXRUNTIME'S OPERATORS"))("onnxruntime's operators", () => {
  it('cases and models', () => {
    const root = unpackContrib()
    const names = readdirSync(root, { withFileTypes: true }).flatMap((d) => (d.isDirectory() ? [d.name] : []))
    // By day every other one.
    const results = some(names, 2).map((name) => runCase(root, name))
    const passed = results.filter((r) => r.status === 'passed')
    console.info(`onnxruntime's operators: ${passed.length} of ${results.length} cases passed`)
    const refused = (r: CaseResult): boolean =>
      r.status === 'unsupported' && refusedCases[r.name]?.test(r.message) === true
    const lost = results.filter((r) => r.status === 'failed')
    expect(lost.map((r) => `${r.name}: ${r.message}`)).toEqual([])
    expect(results.filter(refused).map((r) => r.name)).toEqual(
      Object.keys(refusedCases)
        .filter((name) => some(names, 2).includes(name))
        .sort(),
    )
    expect(passed.length).toBeGreaterThanOrEqual(floor)
  }, 120_000)

  it('language models of 4-bit weights: kernels of GPUs pass the verifier, and have code', () => {
    const root = unpackContrib()
    const models = ['model_a_genai_llama_int4', 'model_a_genai_qwen2_int4']
    for (const [i, name] of some(models, 2).entries())
      for (const target of turn([cudaTarget, webgpuTarget()], i)) {
        const { program } = compileGraph(graphOf(root, name), { mode: 'fast', target, verify: true })
        for (const found of kernelsOf(program)) {
          const { kernel, launch } = launchOf(found, target.simt.language)
          expect(emitKernel(kernel, target.simt, launch).source).not.toBe('')
        }
      }
  }, 120_000)
})
