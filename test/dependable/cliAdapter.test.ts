/**
 * `sinter explain --device webgpu` plans within what the adapter binds and holds, as `run` does and `sinter devices` says.
 *
 * Sites looked at: cli/planned.ts (all six limits), cli/devices.ts, cli/session.ts (openDevice's target), api's device (webgpu.ts),
 * planForCuda (library, clusters).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { sinter, temporaryFolder } from '../cli/support.ts'
import { openSoftware } from '../webgpu/software.ts'

let missing: string | undefined
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
})

const folder = temporaryFolder()

test('a value beyond what the adapter binds is refused by explain', async ({ skip }) => {
  skip(missing !== undefined, missing)
  const file = join(folder, 'large.ts')
  const write = (n: number): void =>
    writeFileSync(
      file,
      `import { program } from 'sinter'\nexport default program(({ x }) => x.tanh(), { x: { shape: [${n}] } })\n`,
    )
  write(1024)
  const { plannedFor } = JSON.parse((await sinter('explain', file, '--device', 'webgpu', '--json')).out)
  const { valueBytes } = plannedFor.limits
  const { devices } = JSON.parse((await sinter('devices', '--json')).out)
  const { detail } = devices.find((d: { name: string }) => d.name === 'webgpu')
  expect(detail).toContain(`${(valueBytes / 2 ** 20).toFixed(0)} MiB a buffer`)
  expect(plannedFor.text).toContain(`; ${valueBytes} B a value`)
  write(valueBytes / 4 + 1)
  const { code, err } = await sinter('explain', file, '--device', 'webgpu')
  expect(code).toBe(1)
  expect(err).toContain('[E_OVERFLOW]')
  expect(err).toContain(`the target webgpu has at most ${valueBytes} bytes for a value`)
})
