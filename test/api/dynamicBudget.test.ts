/** A budget of memory over extents that vary: it holds at the greatest of each program's range; what no such range holds has a program of its own. */
import { expect, test } from 'vitest'
import { dim, grad, jit, relu, setDevice, spec, type Tensor } from '../../src/index.ts'
import { uniform } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [w, v] = [uniform(1, [48, 160]), uniform(2, [160, 24])]
/** 160 numbers a row stand between two products: what is subtracted is known when all rows are. */
const f = (x: Tensor): Tensor => {
  const y = relu(x.matmul(w))
  return y.sub(y.max(0)).matmul(v)
}
const rows = (n: number): Tensor => uniform(n, [n, 48])
const budget = 160 * 4 * 300

test('ranges end where the greatest extents fit a budget, and longer calls keep to it too', () => {
  const [within, free] = [jit(f, { dynamic: [spec([dim('rows', 2, 2048), 48])], memoryBudget: budget }), jit(f)]
  const ends = new Map<number, number>()
  for (const n of [40, 1000, 200, 100, 64, 290]) {
    const x = rows(n)
    const [got, want] = [within(x), free(x)].map((t) => t.dataSync() as Float32Array) as [Float32Array, Float32Array]
    const most = want.reduce((m, y) => Math.max(m, Math.abs(y)), 0)
    const worst = got.reduce((m, y, i) => Math.max(m, Math.abs(y - (want[i] ?? Number.NaN))), 0)
    expect(worst / most, `at ${n}`).toBeLessThan(1e-5)
    const { open, closed, memory } = within.explain(x)
    expect(memory.arenaBytes, `at ${n}`).toBeLessThanOrEqual(budget)
    if (open === undefined)
      expect(closed, `at ${n}`).toMatch(/intermediate values at once take \d+ bytes where rows is \d+/)
    else ends.set(n, open[0]?.most ?? 0)
  }
  // A range of up to 300 rows fits; parts are cut in two until they do.
  expect([...ends.keys()].sort((a, b) => a - b)).toEqual(expect.arrayContaining([40, 64, 100, 200]))
  expect(ends.has(1000)).toBe(false)
  within.dispose()
  free.dispose()
})

test('a budget that holds the greatest extents changes nothing, and one that holds no call is an error of it', () => {
  const ample = jit(f, { dynamic: [spec([dim('rows', 2, 64), 48])], memoryBudget: '1MB' })
  const plain = jit(f, { dynamic: [spec([dim('rows', 2, 64), 48])] })
  for (const n of [40, 7]) expect(ample(rows(n)).dataSync()).toEqual(plain(rows(n)).dataSync())
  expect(ample.explain(rows(40)).open).toEqual(plain.explain(rows(40)).open)
  const none = jit(
    (x: Tensor) =>
      grad((y: Tensor) => f(y).square().sum())(x)
        .cumsum(0)
        .cumsum(1),
    {
      dynamic: [spec([dim('rows', 2, 64), 48])],
      memoryBudget: 64,
    },
  )
  expect(() => none(rows(40))).toThrow(/E_OUT_OF_MEMORY.*more than the budget of 64/)
  for (const g of [ample, plain, none]) g.dispose()
})

test('a budget of what is saved for a backward pass beside extents that vary is refused', () => {
  expect(() => jit(f, { dynamic: [spec([dim('rows'), 48])], savedBudget: 1000 })).toThrow(/E_ARGUMENT.*savedBudget/)
})
