/** Bad input on the device: indices out of range, shapes that overflow; the library works on afterwards. */
import { expect, test } from 'vitest'
import { jit, ones, type Tensor, take, tensor, zeros } from '../../src/index.ts'

const codeOf = (f: () => unknown): string => {
  try {
    f()
  } catch (e) {
    return e instanceof Error && 'code' in e ? String(e.code) : String(e)
  }
  return 'no error'
}

test('gathered indices out of range clamp, also fused and inside jit', () => {
  const table = tensor([10, 20, 30], { dtype: 'f32' })
  const indices = tensor([0, 2, 3, 1000000, -1, -4, -2000000], { dtype: 'i32' })
  const expected = [10, 30, 30, 30, 30, 10, 10]
  expect([...take(table, indices, 0).dataSync()]).toEqual(expected)
  const f = jit((t: Tensor, i: Tensor) => take(t.mul(2), i.add(0), 0).sub(0))
  expect([...f(table, indices).dataSync()]).toEqual(expected.map((x) => 2 * x))
})

test('shapes that overflow, and what follows them', () => {
  expect(codeOf(() => zeros([1_000_000, 1_000_000]))).toBe('E_OVERFLOW')
  expect(codeOf(() => zeros([65536, 65536, 2]).add(1).dataSync())).toBe('E_OVERFLOW')
  expect(codeOf(() => zeros([2, -1]))).toBe('E_SHAPE')
  expect(codeOf(() => ones([60000, 60000]).add(1).dataSync())).toBe('E_OUT_OF_MEMORY')
  expect([...ones([3]).add(1).dataSync()]).toEqual([2, 2, 2])
})

test('slices, axes and reshapes out of range', () => {
  const x = ones([4, 5])
  expect(codeOf(() => x.sum(2))).toBe('E_AXIS')
  expect(codeOf(() => x.reshape([3, 7]))).toBe('E_SHAPE')
  expect(codeOf(() => x.matmul(ones([4, 5])))).toBe('E_SHAPE')
})
