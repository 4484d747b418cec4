/** `sinter emit --target wgsl`: what it writes, run by plain WebGPU calls that know nothing of Sinter. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import { sinter } from '../cli/support.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
let folder = ''
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
  folder = mkdtempSync(join(tmpdir(), 'sinter-'))
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => rmSync(folder, { recursive: true }))

/** Where values stand in a file. */
interface Kept {
  readonly offset?: number
  readonly file?: string
}

interface Plan {
  readonly inputs: readonly Kept[]
  readonly kernels: readonly {
    readonly file: string
    readonly entry: string
    readonly dispatch: readonly [number, number]
    readonly parameters: readonly { readonly binding: number; readonly buffer: number }[]
  }[]
  readonly program: {
    readonly arenaBytes: number
    readonly outputs: readonly number[]
    readonly buffers: readonly (Kept & {
      readonly kind: 'input' | 'output' | 'constant' | 'intermediate'
      readonly index?: number
      readonly bytes: number
    })[]
    readonly steps: readonly { readonly kernel: number }[]
  }
}

const padded = (n: number): number => Math.max(16, Math.ceil(n / 16) * 16)

/** The outputs of an emitted program on one input. */
async function launch(input: Float32Array): Promise<Float32Array[]> {
  const read = (file: string): Uint8Array => readFileSync(join(folder, file))
  const { kernels, program, inputs } = JSON.parse(read('program.json').toString()) as Plan
  const device = await (await openAdapter(await openGpu())).requestDevice()
  const made = (bytes: number, data?: Uint8Array): GPUBuffer => {
    const buffer = device.createBuffer({ size: padded(bytes), usage: 0x80 | 4 | 8 })
    const whole = new Uint8Array(padded(bytes))
    whole.set(data ?? [])
    device.queue.writeBuffer(buffer, 0, whole)
    return buffer
  }
  const arena = made(program.arenaBytes)
  const kept = ({ file, offset = 0 }: Kept, bytes: number): Uint8Array =>
    file === undefined ? new Uint8Array(input.buffer) : read(file).subarray(offset, offset + bytes)
  const places = program.buffers.map((b) => {
    const { kind, bytes, index = -1, offset = 0 } = b
    if (kind === 'intermediate') return { buffer: arena, offset, size: padded(bytes) }
    const data = kind === 'output' ? undefined : kept(kind === 'input' ? (inputs[index] ?? {}) : b, bytes)
    return { buffer: made(bytes, data), offset: 0, size: padded(bytes) }
  })
  const place = (i: number): (typeof places)[number] => {
    const p = places[i]
    if (p === undefined) throw new Error(`no buffer ${i}`)
    return p
  }
  for (const step of program.steps) {
    const k = kernels[step.kernel]
    if (k === undefined) throw new Error(`no kernel ${step.kernel}`)
    const module = device.createShaderModule({ code: read(k.file).toString() })
    const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: k.entry } })
    const entries = k.parameters.map(({ binding, buffer }) => ({ binding, resource: place(buffer) }))
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
    pass.dispatchWorkgroups(...k.dispatch)
    pass.end()
    device.queue.submit([encoder.finish()])
  }
  const results = await Promise.all(
    program.outputs.map(async (o) => {
      const { buffer, offset, size } = place(o)
      const to = device.createBuffer({ size, usage: 1 | 8 })
      const encoder = device.createCommandEncoder()
      encoder.copyBufferToBuffer(buffer, offset, to, 0, size)
      device.queue.submit([encoder.finish()])
      await to.mapAsync(1)
      return new Float32Array(to.getMappedRange().slice(0, program.buffers[o]?.bytes ?? 0))
    }),
  )
  device.destroy()
  return results
}

test('values that are closed over, and intermediates in one arena', async () => {
  const n = 7_003
  const model = join(folder, 'model.ts')
  writeFileSync(
    model,
    `import { program, tensor } from 'sinter'
const [w, v] = [tensor([1.5, -2, 3]), tensor([[0.5, 1], [2, -1], [0.25, 4]])]
export default program(({ x }) => {
  const y = x.mul(w)
  return { y: y.matmul(v), m: y.sub(y.max(0)).exp().sum(1).sum().reshape([1]) }
}, { x: { shape: [${n}, 3] } })
`,
  )
  const r = await sinter('emit', model, '--target', 'wgsl', '-o', folder)
  expect(r.code, r.err).toBe(0)
  const x = Float32Array.from({ length: 3 * n }, (_, i) => Math.sin(i * 12.9898))
  const [y, m] = await launch(x)
  const row = (i: number): number[] => [1.5, -2, 3].map((w, j) => w * (x[3 * i + j] ?? 0))
  const v = [0.5, 1, 2, -1, 0.25, 4]
  const most = [0, 1, 2].map((j) =>
    Array.from({ length: n }, (_, i) => row(i)[j] ?? 0).reduce((p, q) => Math.max(p, q)),
  )
  let total = 0
  for (let i = 0; i < n; i++) {
    const r = row(i)
    total += r.reduce((s, a, j) => s + Math.exp(a - (most[j] ?? 0)), 0)
    for (let k = 0; k < 2; k++) {
      const want = r.reduce((s, a, j) => s + a * (v[2 * j + k] ?? 0), 0)
      expect(Math.abs((y?.[2 * i + k] ?? Number.NaN) - want)).toBeLessThan(1e-4)
    }
  }
  expect(Math.abs((m?.[0] ?? Number.NaN) / total - 1)).toBeLessThan(1e-4)
})
