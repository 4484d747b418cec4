/** Reductions, norms and scans: axes, dtypes, infinities. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { lit, numbers, ramp, run, typeOf } from './run.ts'

const inf = Number.POSITIVE_INFINITY

describe('reductions', () => {
  it('axes and keepdims', () => {
    const x = ramp([2, 3])
    expect(numbers(c.sum(x))).toEqual([15])
    expect(numbers(c.sum(x, -1))).toEqual([3, 12])
    expect(c.sum(x, [0], true).shape).toEqual([1, 3])
    expect(numbers(c.prod(c.add(x, 1), 0))).toEqual([4, 10, 18])
    expect(numbers(c.reduceMax(x, 0))).toEqual([3, 4, 5])
    expect(c.sum(x, [])).toBe(x)
  })
  it('dtypes', () => {
    expect(typeOf(c.sum(lit([true, true, false], [3], 'bool')))).toBe('i32[]')
    expect(typeOf(c.mean(ramp([3], 'i32')))).toBe('f32[]')
    expect(typeOf(c.mean(ramp([3], 'f16')))).toBe('f16[]')
    expect(numbers(c.sum(lit(new Array<number>(3000).fill(1), [3000], 'f16')))).toEqual([3000])
    expect(run(c.any(lit([0, 2])))).toEqual([true])
    expect(run(c.all(lit([0, 2])))).toEqual([false])
  })
  it('mean, variance, std', () => {
    const x = lit([1, 2, 3, 4])
    expect(numbers(c.mean(x))).toEqual([2.5])
    expect(numbers(c.variance(x))).toEqual([1.25])
    expect(numbers(c.variance(x, 0, true, 1))[0]).toBeCloseTo(5 / 3, 6)
    expect(numbers(c.std(x))[0]).toBeCloseTo(Math.sqrt(1.25), 6)
    expect(numbers(c.mean(c.full([0], 0, 'f32')))).toEqual([Number.NaN])
  })
  it('argmax and argmin', () => {
    const x = lit([1, 5, 5, 0], [2, 2])
    expect(numbers(c.argmax(x))).toEqual([1])
    expect(numbers(c.argmax(x, 0, false, { last: true }))).toEqual([1, 0])
    expect(numbers(c.argmin(x, 1, true))).toEqual([0, 1])
    expect(c.argmin(x, 1, true).shape).toEqual([2, 1])
    expect(c.argmax(x, undefined, true, { dtype: 'i64' }).shape).toEqual([1, 1])
  })
  it('logSumExp at infinities', () => {
    const y = numbers(c.logSumExp(lit([0, 0, -inf, -inf, inf, 0, 1000, 1000], [4, 2]), 1))
    expect(y[0]).toBeCloseTo(Math.LN2, 6)
    expect(y[1]).toBe(-inf)
    expect(y[2]).toBe(inf)
    expect(y[3]).toBeCloseTo(1000 + Math.LN2, 3)
  })
  it('norms', () => {
    const x = lit([3, -4])
    expect([1, 2, inf, -inf].map((o) => numbers(c.norm(x, o))[0])).toEqual([7, 5, 4, 3])
    expect(() => c.norm(x, 3)).toThrow(/E_ARGUMENT/)
  })
  it('scans', () => {
    expect(numbers(c.cumsum(lit([1, 2, 3]), 0))).toEqual([1, 3, 6])
    expect(numbers(c.cumsum(lit([1, 2, 3]), 0, { reverse: true, exclusive: true }))).toEqual([5, 3, 0])
    expect(numbers(c.cumprod(lit([1, 2, 3]), -1))).toEqual([1, 2, 6])
    expect(typeOf(c.cumsum(lit([true], [1], 'bool'), 0))).toBe('i32[1]')
  })
})
