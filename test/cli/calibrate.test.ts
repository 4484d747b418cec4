/** `sinter devices --calibrate` measures every rate and keeps them, and programs are planned by them from then on. */
import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { calibrationPath } from '../../src/backends/wasm/calibration.ts'
import { digestOf, parseCalibration } from '../../src/target/calibration.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { atNight } from '../support/nightly.ts'
import { sinter, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
beforeEach(() => {
  vi.stubEnv('SINTER_CACHE', folder)
  vi.stubEnv('SINTER_MACHINE', '')
})
afterEach(() => vi.unstubAllEnvs())

// A minute of measuring; what is kept and read back is tested in test/target/calibration.test.ts as well.
atNight('rates are measured, kept and used', { timeout: 240_000 }, async () => {
  const machineNow = () => {
    const backend = createWasmBackend({ threads: 1 })
    backend.dispose()
    return backend.machine
  }
  expect(machineNow()).toBe(wasmTarget)
  const { code, out } = await sinter('devices', '--calibrate', '--json')
  expect(code).toBe(0)
  const told = JSON.parse(out)
  const kept = parseCalibration(readFileSync(calibrationPath() ?? '', 'utf8'))
  expect(kept).toBeDefined()
  expect(told.path).toBe(calibrationPath())
  expect(machineNow()).toMatchObject({ prices: kept?.rates.prices, launch: kept?.rates.launch })
  expect(digestOf(machineNow())).toBe(told.digest)
  expect(told.digest).not.toBe(digestOf(wasmTarget))
})

test('there is nowhere to keep rates where the cache is off', async () => {
  vi.stubEnv('SINTER_CACHE', 'off')
  const { code, err } = await sinter('devices', '--calibrate')
  expect(code).toBe(1)
  expect(err).toContain('E_ARGUMENT')
  expect(err).toContain('SINTER_CACHE is off')
})
