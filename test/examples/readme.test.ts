/** The README's training example is a file that runs. */
import { readFileSync } from 'node:fs'
import { afterAll, expect, it, vi } from 'vitest'
import * as s from '../../src/index.ts'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

afterAll(() => s.setDevice('reference'))

it('fits, as the README shows it', async () => {
  expect(read('README.md')).toContain(`\`\`\`js\n${read('examples/fit.mjs')}\`\`\`\n`)
  s.setDevice('wasm', { threads: 1 })
  const printed = vi.spyOn(console, 'log').mockImplementation(() => {})
  await import('../../examples/fit.mjs')
  const [[line] = []] = printed.mock.calls
  printed.mockRestore()
  expect(Number(/^loss ([\d.e-]+)$/.exec(String(line))?.[1])).toBeLessThan(1e-3)
})
