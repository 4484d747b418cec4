/** `sinter emit`: kernels as source files, and the plan that launches them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { sinter } from './support.ts'

const example = 'examples/residual.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sinter-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

interface Plan {
  readonly kernels: readonly {
    readonly file: string
    readonly entry: string
    readonly blocks: number
    readonly threads: number
    readonly table?: readonly (string | number)[]
    readonly parameters: readonly { readonly name: string; readonly buffer: number; readonly bytes: number }[]
  }[]
  readonly program: { readonly buffers: readonly unknown[]; readonly steps: readonly { readonly kernel?: number }[] }
}

const plan = (): Plan => JSON.parse(readFileSync(join(folder, 'program.json'), 'utf8')) as Plan

test.each([
  ['cuda', '.cu', '__global__'],
  ['wgsl', '.wgsl', '@compute'],
])('%s: a file a kernel, launched as the plan says', async (target, extension, mark) => {
  const r = await sinter('emit', example, '--target', target, '-o', folder)
  expect(r.code, r.err).toBe(0)
  const { kernels, program } = plan()
  expect(kernels.length).toBeGreaterThan(0)
  expect(readdirSync(folder).filter((f) => f.endsWith(extension)).length).toBe(kernels.length)
  for (const k of kernels) {
    const source = readFileSync(join(folder, k.file), 'utf8')
    expect(source).toContain(mark)
    expect(source).toContain(` ${k.entry}(`)
    expect(source).toContain(target === 'cuda' ? `__launch_bounds__(${k.threads})` : `@workgroup_size(${k.threads})`)
    expect(k.blocks).toBeGreaterThan(0)
    for (const p of k.parameters) {
      expect(source).toContain(p.name)
      expect(program.buffers[p.buffer]).toMatchObject({ bytes: p.bytes })
    }
  }
  expect(program.steps.map((s) => s.kernel).sort()).toEqual(kernels.map((_, i) => i))
})

test('cuda: equal parts read addresses and extents from a table', async () => {
  const module = join(folder, 'step.ts')
  writeFileSync(
    module,
    `import { program, type Tensor } from 'sinter'
const sizes = [4000, 5000, 6000, 7000, 8000]
const inputs = Object.fromEntries(sizes.flatMap((n, i) => [['p' + i, { shape: [n] }], ['g' + i, { shape: [n] }]]))
export default program(
  (x: Record<string, Tensor>) => Object.fromEntries(sizes.map((_, i) => ['q' + i, x['p' + i].sub(x['g' + i].mul(0.1))])),
  inputs,
)
`,
  )
  const r = await sinter('emit', module, '--target', 'cuda', '-o', folder)
  expect(r.code, r.err).toBe(0)
  const { kernels } = plan()
  expect(kernels).toHaveLength(1)
  const [k] = kernels
  const words = k?.table ?? []
  expect(new Set(words.filter((w) => typeof w === 'string'))).toEqual(new Set(k?.parameters.map((p) => p.name)))
  for (const n of [4000, 5000, 6000, 7000, 8000]) expect(words).toContain(n)
  expect(readFileSync(join(folder, k?.file ?? ''), 'utf8').length).toBeLessThan(12_000)
})

test('wgsl: an index beyond 32 bits is named with a remedy that helps', async () => {
  const module = join(folder, 'large.ts')
  writeFileSync(
    module,
    `import { program } from 'sinter'
export default program(({ x }) => x.add(1), { x: { shape: [50000, 50000], dtype: 'u8' } })
`,
  )
  const r = await sinter('emit', module, '--target', 'wgsl', '-o', join(folder, 'out'))
  expect(r.code).toBe(1)
  expect(r.err).toContain('add gives u8[50000, 50000], whose positions do not fit the 32 bits')
  expect(r.err).toContain('work on smaller pieces of the tensor, or run this program on another device')
  expect(r.err).not.toContain('another dtype')
})

test.each(['cuda', 'wgsl', 'wasm'])('%s: the constants of a model stand in a file', async (target) => {
  const r = await sinter('emit', 'examples/digits/digits.onnx', '--target', target, '-o', folder)
  expect(r.code, r.err).toBe(0)
  const { buffers } = plan().program as { buffers: readonly Record<'kind' | 'file' | 'offset' | 'bytes', unknown>[] }
  const constants = buffers.filter((b) => b.kind === 'constant')
  const size = readFileSync(join(folder, 'constants.bin')).length
  let end = 0
  for (const { file, offset, bytes } of constants.sort((a, b) => Number(a.offset) - Number(b.offset))) {
    expect(file).toBe('constants.bin')
    expect(Number(offset)).toBeGreaterThanOrEqual(end)
    end = Number(offset) + Number(bytes)
  }
  expect(constants.length).toBeGreaterThan(20)
  expect(size - end).toBeGreaterThanOrEqual(0)
  expect(size - end).toBeLessThan(16)
})

test('wasm: one valid module with a function a kernel', async () => {
  const r = await sinter('emit', example, '--target', 'wasm', '-o', folder)
  expect(r.code, r.err).toBe(0)
  const module = new WebAssembly.Module(readFileSync(join(folder, 'kernels.wasm')))
  const functions = WebAssembly.Module.exports(module)
    .filter((e) => e.kind === 'function')
    .map((e) => e.name)
  expect(functions).toEqual(expect.arrayContaining(plan().kernels.map((k) => k.entry)))
})

test('a target there is not', async () => {
  const r = await sinter('emit', example, '--target', 'metal', '-o', folder)
  expect(r.code).not.toBe(0)
  expect(r.err).toContain('there is no target "metal"')
})
