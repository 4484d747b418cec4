/** Programs compiled for a device: what they give, report, donate and keep in order. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { useDevice } from '../../src/api/device/session.ts'
import * as s from '../../src/index.ts'
import { chooseDevice, onGpu } from '../support/device.ts'
import { interpretedDevice } from './interpreted.ts'

const { jit, spec, tensor } = s

const devices = {
  interpreted: () => useDevice(interpretedDevice()),
  'wasm, one thread': () => chooseDevice('wasm', { threads: 1 }),
  'wasm, two threads': () => s.setDevice('wasm', { threads: 2 }),
}

describe.each(Object.entries(devices))('compiled programs: %s', (_, choose) => {
  beforeAll(choose)
  afterAll(() => s.setDevice('reference'))
  it('run what was traced', () => {
    const layer = jit((x: s.Tensor, w: s.Tensor, b: s.Tensor) => s.relu(s.matmul(x, w).add(b)))
    const [x, w, b] = [
      tensor([[1, 2]]),
      tensor([
        [1, -1, 0],
        [0, 1, -5],
      ]),
      tensor([1, 1, 1]),
    ]
    expect(layer(x, w, b).tolist()).toEqual([[2, 2, 0]])
    const report = layer.explain(x, w, b)
    expect(report.totals.kernels).toBe(1)
    expect(report.kernels[0]?.operations.map((o) => o.name).sort()).toEqual(['add', 'matmul', 'relu'])
    expect(report.kernels[0]?.operations[0]?.where).toMatch(/compiled\.test\.ts:\d+:\d+$/)
    expect(String(report)).toContain('matmul')
    expect(Object.keys(report)).not.toContain('toString')
  })
  // Planned for a GPU the product may be a library's, with its result between.
  it.skipIf(onGpu)('explain from specs, without memory', () => {
    const f = jit((x: s.Tensor, w: s.Tensor, b: s.Tensor) => s.gelu(s.matmul(x, w).add(b)))
    const before = s.memory().used
    const r = f.explain(spec([4096, 4096]), spec([4096, 4096]), spec([4096]))
    // A program may hold packing panels, but nothing the size of an argument.
    expect(s.memory().used - before).toBeLessThan(8 << 20)
    const n = 4096
    expect(r.totals.bytes).toBe((3 * n * n + n) * 4)
    expect(r.totals.bytesOpByOp).toBe((3 * n * n + (2 * n * n + n) + 2 * n * n) * 4)
  })
  it('are lazy outside jit, and fused', () => {
    const x = tensor([
      [1, 2, 3],
      [1, 1, 1],
    ])
    const y = s.softmax(x.mul(2).sub(1))
    const total = y.sum(-1).tolist()
    expect(total).toEqual([expect.closeTo(1, 6), expect.closeTo(1, 6)])
  })
  it('donate, hand over and take back memory', () => {
    const step = jit((x: s.Tensor) => x.mul(0.5).add(1), { donate: [0] })
    let x = step(s.zeros([100]))
    const before = s.memory().used
    for (let i = 0; i < 20; i++) x = step(x)
    expect(s.memory().used).toBe(before)
    expect(x.slice(0).item()).toBeCloseTo(2, 4)
  })
  it('pass inputs through as copies', () => {
    const f = jit((x: s.Tensor) => [x, x.add(1)] as const)
    const x = tensor([1, 2])
    const [same, more] = f(x)
    x.dispose()
    expect([same.tolist(), more.tolist()]).toEqual([
      [1, 2],
      [2, 3],
    ])
  })
  it('keep effects in order', () => {
    const seen: number[] = []
    const f = jit((x: s.Tensor) => {
      s.inspect(x.sum(), (d) => seen.push(Number(d[0])))
      s.inspect(x.max(), (d) => seen.push(Number(d[0])))
      return x.neg()
    })
    f(tensor([1, 2]))
    expect(seen).toEqual([3, 2])
  })
})
