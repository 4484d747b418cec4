/** ONNX models on WebGPU (the software adapter). Runs when SINTER_SHARED names the folder that holds `onnx/onnx-models.tar.xz`. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { CaseResult } from '../../src/cli/verify/runCase.ts'
import { sinter } from '../cli/support.ts'
import { archivesPresent, models, unpack } from '../onnx/archives.ts'
import { some } from '../support/nightly.ts'
import { openSoftware } from './software.ts'

/** Every third model; at night all. */
const tried = some(models, 5)

const present = archivesPresent('ONNX MODELS ON WEBGPU')
const root = present ? unpack(['onnx-models']) : ''
afterAll(() => {
  if (present) rmSync(root, { recursive: true, force: true })
})

test.skipIf(!present)(
  'all pass',
  async ({ skip }) => {
    const device = await openSoftware()
    skip(typeof device === 'string', String(device))
    const r = await sinter('verify', '--device', 'webgpu', '--jobs', '1', '--json', ...tried.map((m) => join(root, m)))
    const data = JSON.parse(r.out)
    const failed = (data.cases as CaseResult[]).filter((c) => c.status !== 'passed')
    expect(failed.map((c) => `${c.name}: [${c.code}] ${c.message}`)).toEqual([])
    expect(data.passed).toBe(tried.length)
  },
  600_000,
)
