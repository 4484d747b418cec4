/** Measured rates as text: what is complete comes back, what is not is refused, and plans follow. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { calibrationPath, keepCalibration, thisMachine } from '../../src/backends/wasm/calibration.ts'
import { processorName } from '../../src/backends/wasm/host.ts'
import {
  type Calibration,
  calibrated,
  digestOf,
  parseCalibration,
  printCalibration,
} from '../../src/target/calibration.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

const { loops: shippedLoops } = wasmTarget
if (shippedLoops === undefined) throw new Error('WebAssembly has loops')

const made: Calibration = {
  on: processorName(),
  rates: {
    memories: [
      { bytes: 1 << 20, bandwidth: 5e10 },
      { bytes: Number.POSITIVE_INFINITY, bandwidth: 1e10 },
    ],
    overlap: 0.25,
    launch: 1e-6,
    matrixRate: 4e10,
    loops: { ...shippedLoops, strided: 7e-10 },
    prices: pricesByClass({ simple: 1e10, divide: 2e9, special: 1e9, random: 1e8 }),
  },
}

beforeEach(() => {
  vi.stubEnv('SINTER_CACHE', mkdtempSync(join(tmpdir(), 'sinter-')))
  vi.stubEnv('SINTER_MACHINE', '')
})
afterEach(() => vi.unstubAllEnvs())

test('a calibration is its text', () => {
  expect(parseCalibration(printCalibration(made))).toEqual(made)
})

test('what is incomplete, out of range or of another version is none', () => {
  const text = printCalibration(made)
  for (const [from, to] of [
    ['"version": 2', '"version": 1'],
    ['"strided"', '"stridden"'],
    ['"beside": 0.3', '"beside": -1'],
    ['"overlap": 0.25', '"overlap": 1.5'],
    ['"matrixRate": 40000000000', '"matrixRate": 0'],
    ['"bandwidth": 10000000000', '"bandwidth": "fast"'],
    ['"bytes": 1048576', '"bytes": null'],
    ['"exp"', '"exq"'],
    ['"bf16"', '"bf17"'],
    ['"on"', '"off"'],
  ] as const) {
    expect(text).toContain(from)
    expect(parseCalibration(text.replace(from, to)), from).toBeUndefined()
  }
  for (const other of ['', '[]', 'null', '{', '3']) expect(parseCalibration(other)).toBeUndefined()
})

test('rates that were kept on this machine are its own; another machine or SINTER_MACHINE=shipped has the record', () => {
  expect(thisMachine()).toBe(wasmTarget)
  const path = keepCalibration(made)
  expect(path).toBe(calibrationPath())
  expect(thisMachine()).toEqual(calibrated(wasmTarget, made))
  expect(digestOf(thisMachine())).not.toBe(digestOf(wasmTarget))
  vi.stubEnv('SINTER_MACHINE', 'shipped')
  expect(thisMachine()).toBe(wasmTarget)
  vi.stubEnv('SINTER_MACHINE', '')
  writeFileSync(path ?? '', readFileSync(path ?? '', 'utf8').replace(processorName(), 'another'))
  expect(thisMachine()).toBe(wasmTarget)
  vi.stubEnv('SINTER_CACHE', 'off')
  expect(calibrationPath()).toBeUndefined()
})

test('digests tell any number of a record apart', () => {
  expect(digestOf({ ...wasmTarget })).toBe(digestOf(wasmTarget))
  for (const other of [
    { launch: 6e-7 },
    { overlap: 0.51 },
    { rowBytes: 1 },
    { memories: wasmTarget.memories.slice(1) },
  ])
    expect(digestOf({ ...wasmTarget, ...other })).not.toBe(digestOf(wasmTarget))
})
