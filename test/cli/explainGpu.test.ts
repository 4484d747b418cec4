/** `sinter explain` for GPUs: the plan is that of `run` where an adapter opens, and says what it goes by. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { openSoftware } from '../webgpu/software.ts'
import { sinter, temporaryFolder } from './support.ts'

/** A sum of more tensors than a kernel may bind by WebGPU's default limits. */
const sum = join(temporaryFolder(), 'sum.ts')
writeFileSync(
  sum,
  `import { program, type Tensor } from 'sinter'
export default program(
  (x: Record<string, Tensor>) => Object.values(x).reduce((a, b) => a.mul(b).tanh()),
  Object.fromEntries(Array.from({ length: 10 }, (_, i) => ['x' + i, { shape: [300] }])),
)
`,
)

let missing: string | undefined
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
})

describe('webgpu', () => {
  it('plans for the limits of the adapter, as run does', async ({ skip }) => {
    skip(missing !== undefined, missing)
    const ran = JSON.parse((await sinter('run', sum, '--device', 'webgpu', '--json')).out)
    const { totals, plannedFor } = JSON.parse((await sinter('explain', sum, '--device', 'webgpu', '--json')).out)
    expect(totals.kernels).toBe(ran.kernels)
    expect(totals.kernels).toBe(1)
    expect(plannedFor.gpu).toContain('SwiftShader')
    expect(plannedFor.limits.storageBuffers).toBeGreaterThan(8)
    const { code, out } = await sinter('explain', sum, '--device', 'webgpu')
    expect(code).toBe(0)
    expect(out).toMatch(/\nplanned for SwiftShader.*: \d+ buffers a kernel, aligned to \d+ B; 256 threads a workgroup/)
  })
})

describe('cuda', () => {
  it('without a driver: the plan, and what is missing', async ({ skip }) => {
    const { devices } = JSON.parse((await sinter('devices', '--json')).out)
    const cuda = devices.find((d: { name: string }) => d.name.startsWith('cuda'))
    skip(cuda.works, 'this machine has what is missing elsewhere')
    const { code, out } = await sinter('explain', sum, '--device', 'cuda')
    expect(code).toBe(0)
    expect(out).toContain('in 1 kernel for cuda')
    expect(out).toContain('planned for the default CUDA target: compute capability 9.0, no cuBLASLt')
    expect(out).toContain(`registers, spills and occupancy are missing: ${cuda.detail}`)
    expect(out).toContain(cuda.help)
    const data = JSON.parse((await sinter('explain', sum, '--device', 'cuda', '--json')).out)
    expect(data.target).toBe('cuda')
    expect(data.resources).toBeUndefined()
    expect(data.plannedFor).toMatchObject({ limits: { capability: 90, library: false }, help: cuda.help })
  })
})
