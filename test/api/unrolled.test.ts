/** A recurrence written out step by step, differentiated: kernels that compute again what others store. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

beforeAll(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const [batch, width, steps] = [2, 32, 6]

/** A long short-term memory over x [steps, batch, width] (Hochreiter and Schmidhuber 1997). */
function lstm(w: s.Tensor, u: s.Tensor, x: s.Tensor): s.Tensor {
  let h = s.zeros([batch, width])
  let c = s.zeros([batch, width])
  const all: s.Tensor[] = []
  for (let t = 0; t < steps; t++) {
    const z = x.slice(t).matmul(w).add(h.matmul(u))
    const gate = (i: number): s.Tensor => z.slice(null, [i * width, (i + 1) * width])
    c = s
      .sigmoid(gate(0))
      .mul(c)
      .add(s.sigmoid(gate(1)).mul(s.tanh(gate(2))))
    h = s.sigmoid(gate(3)).mul(s.tanh(c))
    all.push(h)
  }
  return s.square(s.stack(all)).sum()
}

it('the gradient of a written-out LSTM is that of the reference', () => {
  const draw = (seed: number, shape: number[]): s.Tensor => s.random.normal(s.random.key(seed), shape).mul(0.3)
  const given = [draw(1, [width, 4 * width]), draw(2, [width, 4 * width]), draw(3, [steps, batch, width])] as const
  const gradient = s.jit(s.grad(lstm, { argnums: [0, 1, 2] }))
  const got = gradient(...given).map((g) => g.dataSync())
  s.setDevice('reference')
  const want = s
    .grad(lstm, { argnums: [0, 1, 2] })(...given)
    .map((g) => g.dataSync())
  chooseDevice('wasm', { threads: 1 })
  got.forEach((g, i) => {
    g.forEach((v, j) => {
      expect(Math.abs(Number(v) - Number(want[i]?.[j]))).toBeLessThan(1e-4)
    })
  })
})
