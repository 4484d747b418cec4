/** `sinter explain` for GPUs: the plan is that of `run` where an adapter opens, and says what it goes by. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { openSoftware } from '../webgpu/software.ts'
import { sinter, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
/** A chain over more tensors than a kernel may bind by WebGPU's default limits. */
const chain = join(folder, 'chain.ts')
writeFileSync(
  chain,
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
    const ran = JSON.parse((await sinter('run', chain, '--device', 'webgpu', '--json')).out)
    const { totals, plannedFor } = JSON.parse((await sinter('explain', chain, '--device', 'webgpu', '--json')).out)
    expect(totals.kernels).toBe(ran.kernels)
    expect(totals.kernels).toBe(1)
    const { devices } = JSON.parse((await sinter('devices', '--json')).out)
    const { detail } = devices.find((d: { name: string }) => d.name === 'webgpu')
    expect(detail).toContain(`${plannedFor.gpu}, ${plannedFor.limits.storageBuffers} buffers a kernel`)
    expect(plannedFor.limits.storageBuffers).toBeGreaterThan(8)
    const { code, out } = await sinter('explain', chain, '--device', 'webgpu')
    expect(code).toBe(0)
    expect(out).toContain(`\nplanned for ${plannedFor.gpu}: ${plannedFor.limits.storageBuffers} buffers a kernel, `)
  })
})

describe('cuda', () => {
  it('without a driver: the plan, and what is missing', async ({ skip }) => {
    const { devices } = JSON.parse((await sinter('devices', '--json')).out)
    const cuda = devices.find((d: { name: string }) => d.name.startsWith('cuda'))
    skip(cuda.works, 'this machine has what is missing elsewhere')
    const { code, out } = await sinter('explain', chain, '--device', 'cuda')
    expect(code).toBe(0)
    expect(out).toContain('in 1 kernel for cuda')
    expect(out).toContain('planned for the default CUDA target: compute capability 9.0, no cuBLASLt')
    expect(out).toContain(`registers, spills and occupancy are missing: ${cuda.detail}`)
    expect(out).toContain(cuda.help)
    const page = join(folder, 'page.html')
    await sinter('explain', chain, '--device', 'cuda', '--html', page)
    expect(readFileSync(page, 'utf8')).toContain(
      'Planned for the default CUDA target: compute capability 9.0, no cuBLASLt',
    )
    const data = JSON.parse((await sinter('explain', chain, '--device', 'cuda', '--json')).out)
    expect(data.target).toBe('cuda')
    expect(data.resources).toBeUndefined()
    expect(data.plannedFor).toMatchObject({ limits: { capability: 90, library: false }, help: cuda.help })
  })
})
