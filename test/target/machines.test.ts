/** Machines are data: passes ask for features, never for a device or a language by name. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { cudaTarget, cudaTargetOf } from '../../src/target/cuda.ts'
import { cudaSimt, type SimtMachine } from '../../src/target/simt.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'

const passes = ['plan', 'lower', 'kernel', 'rewrite', 'transforms', 'codegen', 'compile']

/** A name of a device or a language that code compares with. */
const compared = /(?:===|!==|case)\s*'(?:cuda|wgsl|webgpu|wasm)'|'(?:cuda|wgsl|webgpu|wasm)'\s*(?:===|!==)/

test('no pass compares the name of a device or a language', () => {
  const files = passes.flatMap((folder) =>
    readdirSync(`src/${folder}`, { recursive: true, encoding: 'utf8' })
      .filter((f) => f.endsWith('.ts'))
      .map((f) => `src/${folder}/${f}`),
  )
  expect(files.length).toBeGreaterThan(200)
  expect(files.filter((f) => compared.test(readFileSync(f, 'utf8')))).toEqual([])
})

test('records are complete: none takes what another has by leaving it out', () => {
  const keys = (record: object): string[] => Object.keys(record).sort()
  // What a record may leave out has a meaning of its own.
  const optional = [
    'apartBytes',
    'blockRowBytes',
    'chains',
    'depthSplit',
    'elementBytes',
    'lineBytes',
    'memoryLine',
    'memorySector',
    'loops',
    'plainMatrixRate',
    'integerMatrixRate',
    'tf32MatrixRate',
    'tf32x3MatrixRate',
    'vectorChains',
    'programShare',
    'rereadShare',
    'rowAlignment',
    'rowPrograms',
    'simt',
    'slidingWindows',
    'stageLaunch',
    'windowPoints',
  ]
  const needed = (record: object): string[] => keys(record).filter((k) => !optional.includes(k))
  expect(needed(cudaTarget)).toEqual(needed(wasmTarget))
  expect(needed(webgpuTarget())).toEqual(needed(wasmTarget))
  // Kernels are loops or threads, and the record says what those cost.
  for (const m of [wasmTarget, cudaTarget, webgpuTarget()])
    expect(keys(m).filter((k) => k === 'loops' || k === 'simt')).toHaveLength(1)
  for (const file of ['wasm', 'cuda', 'webgpu'])
    expect(readFileSync(`src/target/${file}.ts`, 'utf8')).not.toMatch(/\.\.\.wasmTarget/)
})

test('a device is a machine with what its capability gives', () => {
  const facts = { multiprocessors: 108, sharedBytes: 163 << 10, hasLibrary: false }
  const ampere = cudaTargetOf({ ...facts, capability: 80 })
  expect(ampere.simt).toMatchObject({
    clusters: 1,
    hasMatrixUnit: true,
    hasAsyncCopy: true,
    hasWarpGroupProducts: false,
  })
  expect(ampere.simt.maxSharedBytes).toBe(163 << 10)
  // Rows stay in one block where there are no clusters.
  expect(ampere.rowBytes).toBe(ampere.blockRowBytes)
  const turing = cudaTargetOf({ ...facts, capability: 75 })
  expect(turing.simt).toMatchObject({ hasMatrixUnit: false, hasAsyncCopy: false, foldsLanes: false })
  const hopper = cudaTargetOf({ ...facts, capability: 90, hasLibrary: true })
  expect(hopper.simt).toMatchObject({ clusters: 8, launchDependents: 'work', hasWarpGroupProducts: true })
  expect(hopper.library?.name).toBe('cuBLASLt')
  expect(cudaTargetOf({ ...facts, capability: 90, earlyStart: 'never' }).simt.launchDependents).toBeUndefined()
})

test('a made-up machine is one record: fewer threads, other lanes, no matrix unit', () => {
  const small: SimtMachine = { ...cudaSimt, maxThreads: 64, fewThreads: 64, clusters: 1, hasMatrixUnit: false }
  const kernel = parseKernel(`kernel rows {
  param x: f32[64, 4096] read
  param y: f32[64] write
  axes r: 64, c: 4096
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r} = reduce sum %0 over c
  store y[r] = %1
}`)
  const made = emitKernel(kernel, small)
  expect(made.threads).toBe(64)
  expect(made.cluster).toBe(1)
  expect(emitKernel(kernel, cudaSimt).threads).toBeGreaterThan(64)
})
