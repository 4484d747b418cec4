/** Gradients of loops in several constants of one type: each has a sum of its own. */
import { expect, it } from 'vitest'
import * as s from '../../src/index.ts'

it('keeps the sums of constants of one type apart', () => {
  s.setDevice('reference')
  const scalar = (x: number): s.Tensor => s.tensor(x, { dtype: 'f64' })
  type P = readonly [s.Tensor, s.Tensor, s.Tensor]
  const step = ([g, f, d]: P, [a, v]: readonly [s.Tensor, s.Tensor]): [s.Tensor, s.Tensor] => {
    const next = a.mul(g).add(v.mul(f)).add(v.square().mul(d))
    return [a.sub(next), next]
  }
  const start = (): [s.Tensor, s.Tensor] => [scalar(1), scalar(0.5)]
  const looped = (p: P): s.Tensor => s.foriLoop(0, 4, (_, c) => step(p, c), start())[1]
  const unrolled = (p: P): s.Tensor => [0, 1, 2, 3].reduce((c) => step(p, c), start())[1]
  const at: P = [scalar(2), scalar(0.3), scalar(-0.1)]
  const [got, want] = [s.grad(looped)(at), s.grad(unrolled)(at)].map((g) => g.map((x) => Number(x.item())))
  expect(got).toEqual((want ?? []).map((v) => expect.closeTo(v, 10)))
  expect(new Set(want).size).toBe(3)
})
