/**
 * ONNX's node cases on WebGPU (the software adapter; every 30th, all of them at night), those of dtypes and operators it lacks skipped. Runs when SINTER_SHARED
 * names the folder that holds `onnx/onnx-node-cases.tar.xz`.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { CaseResult } from '../../src/cli/verify/runCase.ts'
import { sinter } from '../cli/support.ts'
import { some } from '../support/nightly.ts'
import { openSoftware } from './software.ts'

const shared = process.env.SINTER_SHARED
const archive = shared === undefined ? undefined : join(shared, 'onnx', 'onnx-node-cases.tar.xz')
const present = archive !== undefined && existsSync(archive)
if (!present)
  console.warn('\n*** ONNX CASES NOT RUN ON WEBGPU: SINTER_SHARED names no folder with onnx/*.tar.xz. ***\n')

/**
 * Cases that differ on every device, WebAssembly too: bf16 attention by a step of bf16 (fused intermediates are not rounded), other
 * random generators, a quotient next to a tie.
 */
const differing = /^test_(attention_.*bf16|bernoulli_seed|training_dropout_.*mask|dynamicquantizelinear_expanded)/

const root = present ? mkdtempSync(join(tmpdir(), 'sinter-webgpu-onnx-')) : ''
afterAll(() => rmSync(root, { recursive: true, force: true }))

test.skipIf(!present)(
  'node cases',
  async ({ skip }) => {
    const device = await openSoftware()
    skip(typeof device === 'string', String(device))
    execFileSync('tar', ['-xJf', archive ?? '', '-C', root])
    const cases = some(
      readdirSync(root)
        .filter((d) => d.startsWith('test_'))
        .sort(),
      30,
    )
    const r = await sinter(
      'verify',
      '--device',
      'webgpu',
      '--skip-unsupported',
      '--jobs',
      '1',
      '--json',
      ...cases.map((c) => join(root, c)),
    )
    const data = JSON.parse(r.out)
    const failed = (data.cases as CaseResult[]).filter((c) => c.status === 'failed')
    const wrong = failed.filter(
      (c) => c.code !== 'E_ONNX_UNSUPPORTED' && !(differing.test(c.name) && c.code === 'MISMATCH'),
    )
    expect(wrong.map((c) => `${c.name}: [${c.code}] ${c.message}`)).toEqual([])
    expect(data.passed).toBeGreaterThan(0.9 * cases.length)
  },
  600_000,
)
