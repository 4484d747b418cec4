/**
 * Kernels that wait by themselves for those before them (griddepcontrol): nothing that may change is read or written before the
 * wait, in the source, in PTX, and on older architectures nothing is there at all.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { LaunchFacts } from '../../../src/codegen/simt/ir/code.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, type SimtMachine } from '../../../src/target/simt.ts'
import { loadKernels } from '../../kernel/hard-cases/case.ts'
import { hardCases } from '../../kernel/hard-cases/cases.ts'
import { some } from '../../support/nightly.ts'
import { type Buffers, Emulated, hasCompiler } from './emulator/emulator.ts'

const scaled = parseKernel(`kernel scaled {
  param x: f32[300] read
  param w: f32[300] read
  param y: f32[300] write
  axes i: 300
  grid i/64
  %0 f32{i} = load x[i]
  %1 f32{i} = load w[i]
  %2 f32{i} = mul %0, %1
  store y[i] = %2
}`)

const emit = (machine: Partial<SimtMachine>, launch: LaunchFacts = {}): string =>
  emitKernel(scaled, { ...cudaSimt, ...machine }, launch).source

/** Calls and accesses of the kernel's code, in order. */
const order = (source: string): string[] =>
  [...source.slice(source.indexOf('__global__')).matchAll(/launch_dependents|wait_for_kernels|\((?:x|w|y) \+|[xwy]\[/g)]
    .map(([m]) => m)
    .map((m) => (m.includes('_') ? m : 'access'))
    .filter((m, i, all) => m !== all[i - 1])

test('the wait comes before any access, the launch of those behind where it is asked for', () => {
  expect(order(emit({}))).toEqual(['access'])
  expect(order(emit({ launchDependents: 'exit' }))).toEqual(['wait_for_kernels', 'access'])
  expect(order(emit({ launchDependents: 'work' }))).toEqual(['wait_for_kernels', 'launch_dependents', 'access'])
  expect(order(emit({ launchDependents: 'start' }))).toEqual(['launch_dependents', 'wait_for_kernels', 'access'])
  // More blocks than run at once: those behind come at the end.
  expect(order(emit({ launchDependents: 'work', multiprocessors: 2 }))).toEqual(['wait_for_kernels', 'access'])
})

test('memory that may change is not declared constant', () => {
  const parameters = (source: string): string[] => [...source.matchAll(/^ {2}(.*\* .*)[,)]/gm)].map(([, p]) => p ?? '')
  expect(parameters(emit({}))).toEqual([
    'const float* __restrict__ x',
    'const float* __restrict__ w',
    'float* __restrict__ y',
  ])
  expect(parameters(emit({ launchDependents: 'work' }, { changing: (p) => p === 'x' }))).toEqual([
    'const float* x',
    'const float* __restrict__ w',
    'float* __restrict__ y',
  ])
  expect(parameters(emit({ launchDependents: 'work' }))).toEqual([
    'const float* x',
    'const float* w',
    'float* __restrict__ y',
  ])
})

test.skipIf(!hasCompiler())('runs on the host as without', () => {
  const data = (): Buffers => ({
    x: Float32Array.from({ length: 300 }, (_, i) => i / 7),
    w: Float32Array.from({ length: 300 }, (_, i) => 3 - i),
    y: new Float32Array(300),
  })
  const emulated = new Emulated([scaled], { ...cudaSimt, launchDependents: 'start' })
  try {
    const got = data()
    emulated.run(0, got)
    const { x, w } = data() as Record<string, Float32Array>
    expect(got.y).toEqual(x?.map((a, i) => Math.fround(a * (w?.[i] ?? 0))))
  } finally {
    emulated.dispose()
  }
})

const hasNvcc = (): boolean => {
  try {
    execFileSync('nvcc', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** PTX of sources compiled in one unit, by entry point. */
async function ptx(
  kernels: readonly Kernel[],
  machine: SimtMachine,
  architecture: string,
  launch: LaunchFacts = {},
): Promise<Map<string, string[]>> {
  const folder = mkdtempSync(join(tmpdir(), 'sinter-ptx-'))
  try {
    const sources = kernels.map((k, i) => emitKernel({ ...k, name: `k${i}_${k.name}` }, machine, launch).source)
    const [file, to] = [join(folder, 'kernels.cu'), join(folder, 'kernels.ptx')]
    writeFileSync(file, sources.map((s, i) => `namespace n${i} {\n${s}\n}`).join('\n'))
    await promisify(execFile)('nvcc', ['-ptx', `-arch=${architecture}`, '-o', to, file], { maxBuffer: 1 << 26 })
    const entries = readFileSync(to, 'utf8')
      .split(/^\s*(?:\.visible )?\.entry /m)
      .slice(1)
    return new Map(entries.map((e) => [e.slice(0, e.indexOf('(')).trim(), e.split('\n').map((l) => l.trim())]))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Instructions that reach memory of the device. */
const reaches = (line: string): boolean =>
  /^(@\S+ )?(ld|st|atom|red|prefetch|cp\.async)\b/.test(line) &&
  !/^(@\S+ )?(ld|st)\.(param|shared|local|const)/.test(line)

describe.skipIf(!hasNvcc())('in PTX (skipped where nvcc is missing)', () => {
  test('nothing reaches memory before the wait, nor as constant memory', { timeout: 240_000 }, async () => {
    const kernels = some(hardCases, 3).flatMap((c) => loadKernels(c.file))
    const found = await ptx(kernels, { ...cudaSimt, launchDependents: 'start' }, 'sm_90a')
    expect(found.size).toBe(kernels.length)
    for (const [name, lines] of found) {
      const wait = lines.indexOf('griddepcontrol.wait;')
      expect(wait, name).toBeGreaterThan(0)
      expect(lines.findIndex(reaches), name).toBeGreaterThan(wait)
      expect(
        lines.filter((l) => l.includes('.nc')),
        name,
      ).toEqual([])
    }
  })

  test('what cannot change stays constant memory', { timeout: 60_000 }, async () => {
    const found = await ptx([scaled], { ...cudaSimt, launchDependents: 'work' }, 'sm_90', {
      changing: (p) => p === 'x',
    })
    const loads = [...found.values()].flat().filter((l) => l.startsWith('ld.global') || l.includes(' ld.global'))
    expect(loads.some((l) => l.includes('.nc'))).toBe(true)
    expect(loads.some((l) => !l.includes('.nc'))).toBe(true)
  })

  test('older architectures have none of it', { timeout: 60_000 }, async () => {
    const found = await ptx([scaled], { ...cudaSimt, launchDependents: 'work' }, 'sm_80')
    expect([...found.values()].flat().some((l) => l.includes('griddepcontrol'))).toBe(false)
  })
})
