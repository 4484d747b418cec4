/** Jitted functions whose extents vary: one program serves a range, results are those of the static program, and what cannot be open says so. */

import { expect, test } from 'vitest'
import {
  arange,
  concat,
  dim,
  grad,
  jit,
  memory,
  ones,
  relu,
  setDevice,
  softmax,
  spec,
  type Tensor,
  tensor,
} from '../../src/index.ts'
import { uniform } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const programs = (): number => memory().programs

test('one program serves a range of batches and lengths', () => {
  const f = (x: Tensor, w: Tensor): Tensor => softmax(relu(x.matmul(w)), -1).mean(1)
  const [batch, length] = [dim('batch', 1, 8), dim('length', 1, 100)]
  const w = uniform(1, [24, 36])
  for (const mode of ['fast', 'strict'] as const) {
    const open = jit(f, { mode, dynamic: [spec([batch, length, 24])] })
    const closed = jit(f, { mode })
    // Parts of a range have programs of their own, all made by the second call.
    open(uniform(2, [3, 17, 24]), w)
    open(uniform(2, [4, 19, 24]), w)
    const before = programs()
    for (const [b, n] of [
      [7, 61],
      [8, 100],
      [3, 64],
      [5, 99],
    ]) {
      const x = uniform(3, [b ?? 1, n ?? 1, 24])
      const [got, want] = [open(x, w).dataSync(), closed(x, w).dataSync()]
      if (mode === 'strict') expect(got).toEqual(want)
      else for (const [i, v] of got.entries()) expect(Number(v)).toBeCloseTo(Number(want[i]), 5)
    }
    expect(programs() - before, 'the static programs alone').toBe(4)
    expect(open.explain(spec([6, 50, 24]), w).open?.map((d) => d.name)).toEqual(['batch', 'length'])
    open.dispose()
    closed.dispose()
  }
})

test('a dimension that is 1 is closed in a program of its own, which is open in the others', () => {
  const f = jit((x: Tensor, past: Tensor) => concat([past, x], 0).mean(0), {
    dynamic: [spec([dim('new', 1, 64), 8]), spec([dim('past', 0, 64), 8])],
  })
  const one = tensor(new Float32Array(8).fill(1), { shape: [1, 8] })
  for (const n of [5, 6]) f(one, uniform(1, [n, 8]))
  const before = programs()
  for (let n = 7; n < 30; n++) {
    const past = uniform(n, [n, 8])
    const rows = past.dataSync()
    const got = f(one, past).dataSync()
    got.forEach((v, i) => {
      let sum = 1
      for (let r = 0; r < n; r++) sum += Number(rows[8 * r + i])
      expect(Number(v)).toBeCloseTo(sum / (n + 1), 5)
    })
  }
  expect(programs()).toBe(before)
  f.dispose()
})

test('a branch on a length has a program of its own, which says why', () => {
  const f = jit((x: Tensor) => (x.shape[0] === 12 ? x.mul(3) : x.mul(2)), { dynamic: [spec([dim('length', 1, 64)])] })
  expect(f(ones([20])).dataSync()[0]).toBe(2)
  expect(f(ones([12])).dataSync()[0]).toBe(3)
  expect(f.explain(spec([20])).open?.[0]?.name).toBe('length')
  expect(f.explain(spec([12])).closed).toMatch(/mul/)
  f.dispose()
})

test('a length that decides structure is refused by its name and operation', () => {
  const f = jit((x: Tensor) => concat(Array.from({ length: x.shape[0] ?? 0 }, () => x)), {
    dynamic: [spec([dim('length', 1, 64)])],
  })
  expect(f(arange(3, undefined, 1, 'f32')).shape).toEqual([9])
  expect(f.explain(spec([3])).closed).toMatch(/length cannot be open here: concat/)
  f.dispose()
})

test('derivatives inside a function, and tensors it closes over', () => {
  const w = uniform(7, [12, 5])
  const loss = (x: Tensor): Tensor => relu(x.matmul(w)).square().mean()
  const f = jit((x: Tensor) => grad(loss)(x), { mode: 'strict', dynamic: [spec([dim('batch', 1), 12])] })
  for (const n of [31, 16, 200, 77]) {
    const x = uniform(n, [n, 12])
    expect(f(x).dataSync()).toEqual(jit((y: Tensor) => grad(loss)(y), { mode: 'strict' })(x).dataSync())
  }
  expect(f.explain(spec([50, 12])).open?.[0]?.name).toBe('batch')
  f.dispose()
})

test('donated arguments of varying shape', () => {
  const f = jit((x: Tensor) => x.mul(2), { donate: [0], dynamic: [spec([dim('length', 1, 64)])] })
  for (const n of [40, 9, 40, 63]) {
    const x = ones([n])
    expect([...f(x).dataSync()]).toEqual(new Array(n).fill(2))
    expect(() => x.dataSync()).toThrow(/E_DISPOSED/)
  }
  f.dispose()
})

test('what is not declared so, or is beyond its bounds, is refused', () => {
  const n = dim('n', 2, 8)
  const f = jit((x: Tensor, y: Tensor) => x.add(y), { dynamic: [spec([n, 3]), spec([n, 3])] })
  expect(() => f(ones([9, 3]), ones([9, 3]))).toThrow(/E_SHAPE.*n is from 2 to 8/)
  expect(() => f(ones([4, 3]), ones([5, 3]))).toThrow(/E_SHAPE.*n is 4 elsewhere/)
  expect(() => f(ones([4, 2]), ones([4, 2]))).toThrow(/E_SHAPE.*argument 0 is declared as f32\[n, 3\]/)
  expect(() => jit((x: Tensor) => x, { dynamic: [spec([3])] })).toThrow(/E_ARGUMENT.*declares no dimension/)
  expect(() => jit((x: Tensor) => x, { dynamic: [spec([n])], savedBudget: 100 })).toThrow(/E_ARGUMENT.*savedBudget/)
  expect(() => dim('n', 3, 2)).toThrow(/E_ARGUMENT/)
  expect(f(ones([4, 3]), tensor([[1, 2, 3]]).broadcastTo([4, 3])).shape).toEqual([4, 3])
})
