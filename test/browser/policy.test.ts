/**
 * A page whose policy forbids WebAssembly: the built package in headless Chromium under `script-src` without 'wasm-unsafe-eval' gives a coded
 * error with a remedy, and works on another device. Skipped where there is no Chromium or no build.
 */
import { afterAll, expect, test } from 'vitest'
import { closePage, missing, openPage } from './open.ts'

const seconds = 60

const code = `
import { ones, setDevice } from 'sinter'
const results = []
const note = (name, body) => {
  try {
    results.push({ name, error: String(body()) })
  } catch (e) {
    results.push({ name, error: [e.name, e.code, e.summary, e.help].join(' | ') })
  }
}
note('the policy', () => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])))
note('the first operation', () => ones([2]).add(1).dataSync())
note('setDevice', () => setDevice('wasm'))
setDevice('reference')
note('another device', () => ones([2]).add(1).dataSync())
await fetch('/done', { method: 'POST', body: JSON.stringify({ results }) })
`

afterAll(closePage)

test(
  'WebAssembly that a policy forbids is E_DEVICE',
  async ({ skip }) => {
    const why = missing()
    if (why !== undefined) skip(why)
    const headers = { 'content-security-policy': "script-src 'self' 'unsafe-inline'" }
    const { results } = await openPage({ code, headers, seconds })
    const said = Object.fromEntries(results.map((r) => [r.name, r.error]))
    const forbidden =
      /^UserError \| E_DEVICE \| .*the policy of this page forbids WebAssembly to compile \| add 'wasm-unsafe-eval' to script-src/
    expect(said['the policy']).toMatch(/^CompileError/)
    expect(said['the first operation']).toMatch(forbidden)
    expect(said.setDevice).toMatch(forbidden)
    expect(said['another device']).toBe('2,2')
  },
  (seconds + 20) * 1e3,
)
