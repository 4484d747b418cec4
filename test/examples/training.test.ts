/** The training runs of examples/training, cut short: shapes, a falling loss, the same from the same seed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { drawCurve } from '../../examples/training/curve.mjs'
import { drawDigits, side } from '../../examples/training/digitImages.mjs'
import * as digits from '../../examples/training/digits.mjs'
import * as pendulum from '../../examples/training/pendulum.mjs'
import * as text from '../../examples/training/text.mjs'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'
import { atNight, nightly } from '../support/nightly.ts'

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

/** Runs a training to its end: the loss of each step, and the lines that sum it up. */
function runAll(run: Generator<{ loss: unknown }, string[]>): { losses: number[]; lines: string[] } {
  const losses: number[] = []
  for (let next = run.next(); ; next = run.next()) {
    if (next.done === true) return { losses, lines: next.value }
    losses.push(Number(next.value.loss))
  }
}
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** The derivative along a random direction, in float64, against differences. */
function expectGradient<P>(loss: (p: P) => s.Tensor, params: P): void {
  const direction = s.tree.map((t) => s.random.normal(s.random.key(t.size), t.shape, 'f64'), params)
  const gradient = s.jit(s.grad(loss))(params)
  const along = s.tree.leaves(s.tree.map((g, d) => g.mul(d ?? 0).sum(), gradient, direction))
  const slope = along.reduce((total, v) => total + Number(v.item()), 0)
  const value = s.jit((h: s.Tensor) => loss(s.tree.map((p, d) => p.add((d ?? p).mul(h)), params, direction)))
  const at = (h: number): number => Number(value(s.tensor(h, { dtype: 'f64' })).item())
  const h = 1e-6
  const measured = (at(h) - at(-h)) / (2 * h)
  expect(Math.abs(slope)).toBeGreaterThan(1e-3)
  expect(Math.abs(measured - slope)).toBeLessThan(1e-5 * Math.max(1, Math.abs(slope)))
}

describe('digits', () => {
  it('draws the same digits from the same seed, all ten of them, and others from another', () => {
    const [a, b, c] = [drawDigits(3, 100), drawDigits(3, 100), drawDigits(4, 100)]
    expect(a.images).toEqual(b.images)
    expect(a.images).not.toEqual(c.images)
    expect(new Set(a.labels).size).toBe(10)
    expect(a.images.every((v) => v >= 0 && v <= 1)).toBe(true)
    // Every image has ink, and paper.
    for (let i = 0; i < 100; i++) {
      const image = a.images.subarray(i * side * side, (i + 1) * side * side)
      const ink = image.reduce((n, v) => n + v, 0) / image.length
      expect(ink).toBeGreaterThan(0.04)
      expect(ink).toBeLessThan(0.5)
    }
  })

  it('learns within a few steps', () => {
    const { losses, lines } = runAll(
      digits.train({ steps: 40, seed: 1, setup: { batch: 48, trained: 1024, unseen: 256 } }),
    )
    expect(losses.length).toBe(40)
    expect(losses[0]).toBeGreaterThan(1.8)
    expect(mean(losses.slice(-5))).toBeLessThan(1.2)
    const percent = Number(/^([\d.]+)% of 256/.exec(lines[0] ?? '')?.[1])
    expect(percent).toBeGreaterThan(60)
  })

  atNight('computes the gradient that differences give', () => {
    const wide = <T>(t: T): T => s.tree.map((x) => x.astype('f64'), t)
    const params = wide(digits.makeParameters(1))
    expect(digits.network(params, s.zeros([2, 1, side, side])).shape).toEqual([2, 10])
    const { images, labels } = drawDigits(5, 2)
    const x = s.tensor(images, { shape: [2, 1, side, side], dtype: 'f64' })
    const loss = (p: typeof params): s.Tensor => digits.loss(p, x, s.tensor(labels))
    expectGradient(loss, params)
  })
})

describe('text', () => {
  const small = { width: 16, heads: 2, layers: 1, context: 12, batch: 4 }
  /** A text that stays what it is. */
  const functions = Array.from(
    { length: 1200 },
    (_, i) => `export function f${i}(x: number): number {\n  return x * ${(i * i) % 97} + 1\n}\n`,
  ).join('')

  it('reads the sources', () => {
    const { alphabet, train, heldOut } = text.readText()
    expect(alphabet).toEqual(expect.arrayContaining(['\n', ' ', '{', 'a', '~']))
    expect(train.length).toBeGreaterThan(8 * heldOut.length)
    expect(heldOut.length).toBeGreaterThan(50_000)
    for (const codes of [train, heldOut]) {
      expect(Math.min(...codes.subarray(0, 4096))).toBeGreaterThanOrEqual(0)
      expect(Math.max(...codes.subarray(0, 4096))).toBeLessThan(alphabet.length)
    }
  })

  it('learns within a few steps, and writes: the same from the same seed', () => {
    const data = text.encode(functions)
    const { alphabet } = data
    const { losses, lines } = runAll(text.train({ steps: 48, seed: 1, setup: small, data }))
    expect(losses.length).toBe(48)
    // The first guess is about uniform.
    expect(Math.abs((losses[0] ?? 0) - Math.log(alphabet.length))).toBeLessThan(0.3)
    expect(mean(losses.slice(-3))).toBeLessThan((losses[0] ?? 0) - 0.4)
    expect(lines[0]).toMatch(/held out \d\.\d{3} nats \(\d\.\d\d bits\)/)
    expect(lines[2]).toMatch(/^export function /)
    expect(lines[2]?.length).toBe(400)
    if (nightly) expect(runAll(text.train({ steps: 48, seed: 1, setup: small, data }))).toEqual({ losses, lines })
  })

  it('sees no letter before its time', () => {
    const params = text.makeParameters(1, 20, small)
    const codes = (last: number): s.Tensor => s.tensor(Int32Array.of(1, 2, 3, 4, 5, last), { shape: [1, 6] })
    const [a, b] = [7, 8].map((last) => text.network(params, codes(last), small))
    expect(a?.shape).toEqual([1, 6, 20])
    expect(a?.slice(null, [0, 5]).tolist()).toEqual(b?.slice(null, [0, 5]).tolist())
    expect(a?.slice(null, 5).tolist()).not.toEqual(b?.slice(null, 5).tolist())
  })

  atNight('computes the gradient that differences give', () => {
    const params = s.tree.map((x) => x.astype('f64'), text.makeParameters(1, 20, small))
    const codes = s.random.integers(s.random.key(2), [2, 9], 0, 20)
    expectGradient((p) => text.loss(p, codes, small), params)
  })
})

describe('pendulum', () => {
  it('finds the laws, and both modes give one Jacobian', () => {
    const { losses, lines } = runAll(
      pendulum.train({ steps: 5, seed: 1, setup: { pendulums: 24, readings: 8, every: 5, seconds: 2 } }),
    )
    expect(losses[0]).toBeGreaterThan(20)
    expect(losses[4]).toBeGreaterThan(0.8)
    expect(losses[4]).toBeLessThan(1.2)
    for (const line of lines.slice(0, 3)) {
      const [, value = '', error = '', truth = ''] = /([-\d.]+) ± ([\d.]+), in truth ([\d.]+)/.exec(line) ?? []
      expect(Math.abs(Number(value) - Number(truth))).toBeLessThan(4 * Number(error))
    }
    expect(lines[3]).toMatch(/^the Jacobian \[192, 3\] takes .* differ by at most \d\.\de-[5-9]$/)
  })

  it('inverts', () => {
    const product = s
      .tensor(
        pendulum.inverse([
          [4, 1, 0],
          [1, 3, 1],
          [0, 1, 2],
        ]),
      )
      .matmul(
        s.tensor([
          [4, 1, 0],
          [1, 3, 1],
          [0, 1, 2],
        ]),
      )
    expect(product.sub(s.eye(3)).abs().max().item()).toBeLessThan(1e-6)
  })
})

it('draws a curve', () => {
  const svg = drawCurve([3, 2, 1.5, Number.NaN, 1.2], { title: 'a < b' })
  expect(svg).toContain('a &lt; b')
  expect(svg).not.toContain('NaN')
  expect(svg.match(/<path /g)?.length).toBe(2)
  expect(drawCurve([Number.NaN], { title: '' })).not.toContain('NaN')
})
