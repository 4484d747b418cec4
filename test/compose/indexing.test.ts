/** Gathers, scatters and masks, with indices from the end and out of range. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { lit, numbers, ramp } from './run.ts'

describe('gathers', () => {
  it('take replaces the axis by the axes of the indices', () => {
    const y = c.take(ramp([2, 3]), lit([2, -1, 0, -3], [2, 2], 'i32'), 1)
    expect(y.shape).toEqual([2, 2, 2])
    expect(numbers(y)).toEqual([2, 2, 0, 0, 5, 5, 3, 3])
  })
  it('take clamps, and takes by a scalar index', () => {
    expect(numbers(c.take(ramp([3]), lit([9, -9], [2], 'i32')))).toEqual([2, 0])
    expect(numbers(c.take(ramp([2, 2]), lit([1n], [], 'i64')))).toEqual([2, 3])
    expect(() => c.take(ramp([3]), lit([1]))).toThrow(/E_DTYPE/)
  })
  it('takeAlongAxis broadcasts the other axes', () => {
    expect(numbers(c.takeAlongAxis(ramp([2, 3]), lit([2, 0], [2, 1], 'i32'), 1))).toEqual([2, 3])
    expect(numbers(c.takeAlongAxis(ramp([2, 3]), lit([1, 0], [1, 2], 'i32'), 1))).toEqual([1, 0, 4, 3])
  })
  it('gatherND with and without batch axes', () => {
    const x = ramp([2, 2, 2])
    expect(numbers(c.gatherND(x, lit([0, 1, 1, 0], [2, 2], 'i32')))).toEqual([2, 3, 4, 5])
    expect(numbers(c.gatherND(x, lit([0, 1, 1], [1, 3], 'i32')))).toEqual([3])
    expect(numbers(c.gatherND(x, lit([1, 0], [2, 1], 'i32'), 1))).toEqual([2, 3, 4, 5])
  })
  it('diagonal', () => {
    expect(numbers(c.diagonal(ramp([2, 3])))).toEqual([0, 4])
    expect(numbers(c.diagonal(ramp([2, 3]), 1))).toEqual([1, 5])
    expect(numbers(c.diagonal(ramp([3, 2]), -1))).toEqual([2, 5])
  })
})

describe('scatters', () => {
  it('scatterElements combines and drops', () => {
    const zero = c.zeros([2, 3])
    const y = c.scatterElements(zero, lit([0, 2, 0, 7], [2, 2], 'i32'), ramp([2, 2], 'f32', 1), 1, 'sum')
    expect(numbers(y)).toEqual([1, 0, 2, 3, 0, 0])
    expect(numbers(c.scatterElements(ramp([3]), lit([-1, -1], [2], 'i32'), lit([8, 9]), 0))).toEqual([0, 1, 9])
  })
  it('scatterND writes rows', () => {
    expect(numbers(c.scatterND(ramp([3, 2]), lit([2, 0], [2, 1], 'i32'), lit([9, 9, 8, 8], [2, 2])))).toEqual([
      8, 8, 2, 3, 9, 9,
    ])
    expect(numbers(c.scatterND(ramp([3]), lit([1, 1], [2, 1], 'i32'), lit([5, 6]), 'max'))).toEqual([0, 6, 2])
  })
})

describe('masks', () => {
  it('oneHot', () => {
    expect(numbers(c.oneHot(lit([1, 3], [2], 'i32'), 3))).toEqual([0, 1, 0, 0, 0, 0])
    const y = c.oneHot(lit([1, 0], [2], 'i32'), 2, { axis: 0, on: 5, off: -1, dtype: 'i32' })
    expect([y.dtype, numbers(y)]).toEqual(['i32', [-1, 5, 5, -1]])
  })
  it('tril, triu, eye', () => {
    expect(numbers(c.tril(ramp([2, 3], 'f32', 1)))).toEqual([1, 0, 0, 4, 5, 0])
    expect(numbers(c.triu(ramp([2, 3], 'f32', 1), 1))).toEqual([0, 2, 3, 0, 0, 6])
    expect(numbers(c.eye(2, 3, 1))).toEqual([0, 1, 0, 0, 0, 1])
    expect(() => c.tril(ramp([3]))).toThrow(/E_SHAPE/)
  })
})
