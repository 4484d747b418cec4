/** Slices (as Python defines them), padding and shapes. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { lit, numbers, ramp } from './run.ts'

describe('slices', () => {
  const x = ramp([6])
  // Expected values by Python's list slicing.
  it.each([
    [{ start: 1, stop: 4 }, [1, 2, 3]],
    [{ start: -2 }, [4, 5]],
    [{ stop: -4 }, [0, 1]],
    [{ step: 2 }, [0, 2, 4]],
    [{ step: -1 }, [5, 4, 3, 2, 1, 0]],
    [{ step: -2 }, [5, 3, 1]],
    [{ start: 4, stop: 1, step: -2 }, [4, 2]],
    [{ start: 100, stop: -100, step: -3 }, [5, 2]],
    [{ start: 3, stop: 1 }, []],
    [{ start: 1, stop: 3, step: -1 }, []],
    [{ start: -100, step: -1 }, []],
    [{ start: 0, stop: -100, step: -1 }, [0]],
  ])('%j', (spec, expected) => expect(numbers(c.slice(x, [spec]))).toEqual(expected))
  it('makes no node for the whole', () => expect(c.slice(x, [{}])).toBe(x))
  it('refuses a step of 0', () => expect(() => c.slice(x, [{ step: 0 }])).toThrow(/E_ARGUMENT/))
})

describe('padding', () => {
  const x = lit([1, 2, 3, 4])
  // Expected values by numpy.pad.
  it.each([
    ['constant', 2, 1, [9, 9, 1, 2, 3, 4, 9]],
    ['edge', 2, 1, [1, 1, 1, 2, 3, 4, 4]],
    ['reflect', 2, 1, [3, 2, 1, 2, 3, 4, 3]],
    ['wrap', 2, 1, [3, 4, 1, 2, 3, 4, 1]],
    ['reflect', 8, 7, [3, 2, 1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3]],
    ['wrap', 5, 6, [4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]],
    ['constant', -1, 1, [2, 3, 4, 9]],
    ['constant', -1, -2, [2]],
  ] as const)('%s %i %i', (mode, before, after, expected) => {
    expect(numbers(c.pad(x, [[before, after]], mode, 9))).toEqual(expected)
  })
  it('reflects two elements and one', () => {
    expect(numbers(c.pad(lit([1, 2]), [[3, 2]], 'reflect'))).toEqual([2, 1, 2, 1, 2, 1, 2])
    expect(numbers(c.pad(lit([1]), [[2, 1]], 'reflect'))).toEqual([1, 1, 1, 1])
  })
})

describe('shapes', () => {
  it('reshape with -1, flatten, squeeze, expandDims', () => {
    expect(c.reshape(ramp([2, 6]), [3, -1]).shape).toEqual([3, 4])
    expect(() => c.reshape(ramp([2, 6]), [5, -1])).toThrow(/E_SHAPE/)
    expect(c.flatten(ramp([2, 3, 4]), 1).shape).toEqual([2, 12])
    expect(c.squeeze(ramp([1, 3, 1])).shape).toEqual([3])
    expect(c.squeeze(ramp([1, 3, 1]), -1).shape).toEqual([1, 3])
    expect(() => c.squeeze(ramp([1, 3]), 1)).toThrow(/E_SHAPE/)
    expect(c.expandDims(ramp([2, 3]), [0, -1]).shape).toEqual([1, 2, 3, 1])
  })
  it('permute, swapAxes, moveAxis', () => {
    expect(numbers(c.permute(ramp([2, 3])))).toEqual([0, 3, 1, 4, 2, 5])
    expect(c.swapAxes(ramp([2, 3, 4]), 0, -1).shape).toEqual([4, 3, 2])
    expect(c.moveAxis(ramp([2, 3, 4]), 0, 2).shape).toEqual([3, 4, 2])
    expect(c.moveAxis(ramp([2, 3, 4]), -1, 0).shape).toEqual([4, 2, 3])
  })
  it('concat promotes, stack, split', () => {
    const y = c.concat([ramp([2, 1]), ramp([2, 2], 'i32', 5)], 1)
    expect(y.dtype).toBe('f32')
    expect(numbers(y)).toEqual([0, 5, 6, 1, 7, 8])
    expect(numbers(c.stack([ramp([2]), ramp([2], 'f32', 2)], 1))).toEqual([0, 2, 1, 3])
    expect(c.split(ramp([6]), 3).map(numbers)).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
    ])
    expect(c.split(ramp([6]), [1, 5]).map((p) => p.shape)).toEqual([[1], [5]])
    expect(() => c.split(ramp([6]), 4)).toThrow(/E_SHAPE/)
  })
  it('tile, repeat, roll, flip', () => {
    expect(numbers(c.tile(ramp([2]), [2, 2]))).toEqual([0, 1, 0, 1, 0, 1, 0, 1])
    expect(numbers(c.repeat(ramp([2, 2]), 2, 1))).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
    expect(numbers(c.repeat(ramp([2, 1]), 2))).toEqual([0, 0, 1, 1])
    expect(numbers(c.roll(ramp([5]), 2, 0))).toEqual([3, 4, 0, 1, 2])
    expect(numbers(c.roll(ramp([5]), -1, 0))).toEqual([1, 2, 3, 4, 0])
    expect(numbers(c.flip(ramp([2, 2]), 0))).toEqual([2, 3, 0, 1])
  })
  it('selectAt and sliding windows', () => {
    expect(numbers(c.selectAt(ramp([2, 3]), 1, -1))).toEqual([2, 5])
    expect(() => c.selectAt(ramp([2]), 0, 2)).toThrow(/E_INDEX/)
    expect(numbers(c.slidingWindow(ramp([5]), 0, 2, 2, 1))).toEqual([0, 1, 2, 3])
  })
})
