/** A lazy step of an optimiser over thousands of small tensors: one program, compiled in time near-linear in their number. */
import * as s from '../../dist/index.js'

/** Seconds of one lazy AdamW step over so many tensors and of disposing what it made. */
function step(count) {
  const params = Array.from({ length: count }, (_, i) => s.tensor([i, 1, 2]))
  const { init, update } = s.optim.adamw({ learningRate: 0.01 })
  const gradients = params.map((p) => p.mul(0.5))
  const start = performance.now()
  const next = update(gradients, init(params), params)
  s.evaluate(next)
  for (const t of [params, gradients, next.params].flat()) t.dispose()
  return (performance.now() - start) / 1e3
}

function growth() {
  s.setDevice('wasm', { threads: 1 })
  step(300)
  const few = step(1250)
  return step(5000) / few
}

export const items = [
  {
    id: 'lazy-adamw-5000',
    what: 'a lazy AdamW step over 5,000 tensors, of the time over 1,250 (4 is linear)',
    unit: 'x',
    bound: 7,
    seconds: 120,
    measure: growth,
  },
]
