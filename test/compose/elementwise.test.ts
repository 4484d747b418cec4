/** Promotion, broadcasting and the functions composed of elementwise primitives. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { lit, numbers, ramp, run, typeOf } from './run.ts'

describe('promotion and weak scalars', () => {
  it.each([
    [c.add(lit([1], [1], 'i32'), lit([1], [1], 'f16')), 'f16[1]'],
    [c.add(lit([1], [1], 'i8'), lit([1], [1], 'u8')), 'i16[1]'],
    [c.add(lit([1], [1], 'f16'), lit([1], [1], 'bf16')), 'f32[1]'],
    [c.add(lit([1], [1], 'i32'), 2), 'i32[1]'],
    [c.add(lit([1], [1], 'i32'), 0.5), 'f32[1]'],
    [c.mul(lit([1], [1], 'f64'), 0.5), 'f64[1]'],
    [c.mul(0.5, lit([1], [1], 'f16')), 'f16[1]'],
    [c.add(lit([1], [1], 'bool'), 1), 'i32[1]'],
    [c.add(lit([1], [1], 'bool'), lit([1], [1], 'bool')), 'i32[1]'],
    [c.add(lit([1n], [1], 'i64'), 3), 'i64[1]'],
    [c.add(lit([1n], [1], 'i64'), 3n), 'i64[1]'],
    [c.exp(lit([1], [1], 'i32')), 'f32[1]'],
    [c.exp(lit([1n], [1], 'i64')), 'f32[1]'],
    [c.trueDivide(lit([1], [1], 'i32'), 2), 'f32[1]'],
    [c.div(lit([1], [1], 'i32'), 2), 'i32[1]'],
    [c.compare('lt', lit([1], [1], 'i32'), 0.5), 'bool[1]'],
    [c.where(lit([1], [1], 'bool'), 1.5, lit([1], [1], 'i32')), 'f32[1]'],
    [c.add(1, 2), 'f32[]'],
  ])('%#', (node, expected) => expect(typeOf(node)).toBe(expected))

  it('refuses numbers an integer dtype cannot hold', () => {
    expect(() => c.add(lit([1], [1], 'u8'), -1)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_OVERFLOW] -1 is no value of u8
        help: cast the tensor to a wider dtype]
    `)
  })
  it('names the dtype of a bad condition', () => {
    expect(() => c.where(lit([1]), 1, 2)).toThrow(/E_DTYPE.*condition of where is f32/)
  })
})

describe('broadcasting', () => {
  it('follows NumPy', () => {
    const y = c.add(ramp([2, 1, 3]), ramp([2, 1], 'f32', 10))
    expect(y.shape).toEqual([2, 2, 3])
    expect(numbers(y)).toEqual([10, 11, 12, 11, 12, 13, 13, 14, 15, 14, 15, 16])
  })
  it('refuses unequal extents', () => {
    expect(() => c.add(ramp([2]), ramp([3]))).toThrow(/E_SHAPE.*do not broadcast/)
  })
  it('broadcasts all three operands of where', () => {
    const y = c.where(lit([1, 0], [2, 1], 'bool'), ramp([3]), -1)
    expect(numbers(y)).toEqual([0, 1, 2, -1, -1, -1])
  })
})

describe('quotients and remainders', () => {
  const a = lit([7, -7, 7, -7, 6], [5], 'i32')
  const b = lit([3, 3, -3, -3, 3], [5], 'i32')
  it('div truncates, rem follows the dividend', () => {
    expect(numbers(c.div(a, b))).toEqual([2, -2, -2, 2, 2])
    expect(numbers(c.rem(a, b)).map((v) => v + 0)).toEqual([1, -1, 1, -1, 0])
  })
  it('floorDivide rounds down, floorMod follows the divisor', () => {
    expect(numbers(c.floorDivide(a, b))).toEqual([2, -3, -3, 2, 2])
    expect(numbers(c.floorMod(a, b)).map((v) => v + 0)).toEqual([1, 2, -2, -1, 0])
    expect(numbers(c.floorMod(lit([5.5, -5.5]), 3)).map((v) => v + 0)).toEqual([2.5, 0.5])
    expect(numbers(c.floorDivide(lit([5.5, -5.5]), 3))).toEqual([1, -2])
  })
})

describe('derived functions', () => {
  it('clip, square, reciprocal, exp2, log2, log10', () => {
    expect(numbers(c.clip(lit([-1, 0.5, 9]), 0, 1))).toEqual([0, 0.5, 1])
    expect(numbers(c.clip(lit([-1, 9], [2], 'i32'), undefined, 3))).toEqual([-1, 3])
    expect(numbers(c.square(lit([3, -2], [2], 'i32')))).toEqual([9, 4])
    expect(numbers(c.reciprocal(lit([4], [1], 'i32')))).toEqual([0.25])
    expect(numbers(c.exp2(lit([3, 100]))).map((v) => Math.log2(v))).toEqual([3, 100])
    expect(numbers(c.log2(lit([8])))[0]).toBeCloseTo(3, 6)
    expect(numbers(c.log10(lit([1000])))[0]).toBeCloseTo(3, 6)
  })
  it('logAddExp keeps infinities', () => {
    const inf = Number.POSITIVE_INFINITY
    const y = numbers(c.logAddExp(lit([0, -inf, inf, -inf, 1000]), lit([0, -inf, inf, 2, 1000])))
    expect(y[0]).toBeCloseTo(Math.LN2, 6)
    expect(y.slice(1, 4)).toEqual([-inf, inf, 2])
    expect(y[4]).toBeCloseTo(1000 + Math.LN2, 3)
  })
  it('logical operations read truth', () => {
    expect(run(c.logicalAnd(lit([0, 1, 2]), lit([1, 1, 0])))).toEqual([false, true, false])
    expect(run(c.logicalNot(lit([0, 1, 2], [3], 'i32')))).toEqual([true, false, false])
    expect(run(c.isfinite(lit([1, Number.NaN, Number.POSITIVE_INFINITY])))).toEqual([true, false, false])
  })
  it('cast and bitcast', () => {
    expect(typeOf(c.cast(ramp([2]), 'f32'))).toBe('f32[2]')
    expect(numbers(c.bitcast(lit([1]), 'u32'))).toEqual([0x3f800000])
    expect(() => c.bitcast(lit([1]), 'f64')).toThrow(/E_DTYPE/)
  })
})
