/** The demonstration and the examples: results agree, and what the pages claim is so. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { consoleOn } from '../../src/cli/console.ts'
import { demoCommand } from '../../src/cli/demo.ts'
import { readNpy } from '../../src/cli/npy.ts'
import { some } from '../support/nightly.ts'
import { sinter } from './support.ts'

const examples = fileURLToPath(new URL('../../examples/', import.meta.url))

describe('demo', () => {
  it('reads digits, agrees with the reference and measures', async () => {
    const lines: string[] = []
    const sink = (to: string[]) => ({ write: (t: string) => void to.push(t), colour: false })
    const console = consoleOn(sink(lines), sink([]))
    expect(await demoCommand({ device: 'wasm', seconds: 0.05 }, console)).toBe(0)
    const text = lines.join('')
    const [, right, all] = /(\d+) of (\d+) digits it has never seen/.exec(text) ?? []
    expect(Number(all)).toBe(256)
    expect(Number(right)).toBeGreaterThanOrEqual(250)
    expect(text.match(/equal/g)).toHaveLength(2)
    expect(text.match(/as fast/g)).toHaveLength(3)
  })
})

describe('examples', () => {
  it('the images and labels beside the model fit it', () => {
    const images = readNpy(readFileSync(`${examples}digits/images.npy`), 'images.npy')
    const labels = readNpy(readFileSync(`${examples}digits/labels.npy`), 'labels.npy')
    expect(images.shape).toEqual([256, 1, 16, 16])
    expect(labels.shape).toEqual([256])
  })
  it.each(
    some(
      readdirSync(examples)
        .filter((f) => f.endsWith('.ts'))
        .toReversed(),
      6,
    ),
  )('%s agrees with the reference', async (name) => {
    const outputs = async (device: string): Promise<{ statistics: { mean: number; std: number } }[]> =>
      JSON.parse((await sinter('run', examples + name, '--device', device, '--json')).out).outputs
    const [wasm, reference] = [await outputs('wasm'), await outputs('reference')]
    expect(wasm.length).toBe(reference.length)
    wasm.forEach((o, i) => {
      expect(o.statistics.mean).toBeCloseTo(reference[i]?.statistics.mean ?? Number.NaN, 4)
      expect(o.statistics.std).toBeCloseTo(reference[i]?.statistics.std ?? Number.NaN, 4)
    })
  })
  it('a layer and what stands between layers are one kernel each', async () => {
    for (const name of ['layer.ts', 'residual.ts'])
      expect(JSON.parse((await sinter('explain', examples + name, '--json')).out).totals.kernels).toBe(1)
  })
})
