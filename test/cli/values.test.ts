/** Host tensors of the command line: random draws, statistics, differences; and option parsing. */
import { describe, expect, it } from 'vitest'
import { launchTimes, median } from '../../src/cli/bench.ts'
import { UsageError } from '../../src/cli/console.ts'
import { parseAmount, parseInputs, parseShape, parseWhole } from '../../src/cli/options.ts'
import { difference, drawTensor, largestDifference, showNumber, statisticsOf } from '../../src/cli/values.ts'
import type { Program } from '../../src/runtime/program.ts'

const f32 = (...values: number[]) => ({
  data: Float32Array.from(values),
  shape: [values.length],
  dtype: 'f32' as const,
})

describe('random tensors', () => {
  it('are a function of seed and stream', () => {
    const draw = (seed: number, stream: number) => drawTensor([64], 'f32', seed, stream).data
    expect(draw(1, 2)).toEqual(draw(1, 2))
    expect(draw(1, 2)).not.toEqual(draw(2, 2))
    expect(draw(1, 2)).not.toEqual(draw(1, 3))
  })
  it('are standard normal, small whole numbers, or fair', () => {
    const s = statisticsOf(drawTensor([20000], 'f32', 0, 0))
    expect(s?.mean).toBeCloseTo(0, 1)
    expect(s?.std).toBeCloseTo(1, 1)
    const i = statisticsOf(drawTensor([2000], 'i64', 0, 0))
    expect([i?.min, i?.max]).toEqual([0, 7])
    expect(statisticsOf(drawTensor([2000], 'bool', 0, 0))?.mean).toBeCloseTo(0.5, 1)
  })
})

describe('statistics', () => {
  it('leave NaN and infinities out and count them', () => {
    expect(statisticsOf(f32(1, 3, Number.NaN, Number.POSITIVE_INFINITY))).toEqual({
      min: 1,
      max: 3,
      mean: 2,
      std: 1,
      nan: 1,
      infinite: 1,
    })
    expect(statisticsOf(f32())).toBeUndefined()
  })
  it('numbers are short', () => {
    expect([1, 0.5, 123456789, 1 / 3, Number.NaN].map(showNumber)).toEqual(['1', '0.5', '1.235e+8', '0.3333', 'NaN'])
  })
})

describe('difference', () => {
  const tolerance = { rtol: 1e-3, atol: 1e-4 }
  it('is none within tolerance, and NaN equals NaN', () => {
    expect(difference(f32(1.0005, Number.NaN, -0), f32(1, Number.NaN, 0), tolerance)).toBeUndefined()
    expect(difference(f32(Number.POSITIVE_INFINITY), f32(Number.POSITIVE_INFINITY), tolerance)).toBeUndefined()
  })
  it('names the first element, the number and the largest difference', () => {
    expect(difference(f32(1, 5, 9), f32(1, 4, 7), tolerance)).toBe(
      '2 of 3 elements differ: element 1 is 5 where 4 is expected, largest difference 2',
    )
    expect(difference(f32(1), f32(Number.NaN), tolerance)).toContain('1 of 1')
    expect(difference(f32(Number.NEGATIVE_INFINITY), f32(Number.POSITIVE_INFINITY), tolerance)).toContain('1 of 1')
  })
  it('sees shapes and dtypes', () => {
    expect(difference(f32(1), f32(1, 2), tolerance)).toContain('shape [1] where [2]')
    expect(difference({ ...f32(1), dtype: 'i32' }, f32(1), tolerance)).toContain('dtype i32 where f32')
  })
  it('compares 64-bit integers exactly', () => {
    const i64 = (v: bigint) => ({ data: BigInt64Array.of(v), shape: [1], dtype: 'i64' as const })
    expect(difference(i64(2n ** 53n + 1n), i64(2n ** 53n), tolerance)).toContain('element 0')
  })
  it('the largest difference of two results', () => {
    expect(largestDifference(f32(1, 2), f32(1, 2.5))).toBe(0.5)
    expect(largestDifference(f32(Number.NaN), f32(1))).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('options', () => {
  it('shapes', () => {
    expect(parseShape('1,3,224,224')).toEqual([1, 3, 224, 224])
    expect(parseShape('2x4')).toEqual([2, 4])
    expect(parseShape('scalar')).toEqual([])
    for (const bad of ['', '1,,2', '-1', 'a', '1.5']) expect(() => parseShape(bad)).toThrow(UsageError)
  })
  it('numbers', () => {
    expect(parseWhole('3', '--jobs', 1)).toBe(3)
    expect(parseAmount('1e-3', '--rtol')).toBe(1e-3)
    for (const bad of ['0', '1.5', 'x', '']) expect(() => parseWhole(bad, '--jobs', 1)).toThrow(UsageError)
    for (const bad of ['-1', 'x', '', 'Infinity']) expect(() => parseAmount(bad, '--rtol')).toThrow(UsageError)
  })
  it('inputs name a file', () => {
    expect(() => parseInputs({ input: ['x'], shape: [], length: [], bound: [] })).toThrow('NAME=FILE.npy')
    expect(() => parseInputs({ input: ['x=nowhere.npy'], shape: [], length: [], bound: [] })).toThrow('E_FILE')
    expect(parseInputs({ input: [], shape: ['x=2,3'], length: [], bound: [] }).shapes.get('x')).toEqual([2, 3])
  })
})

describe('measurements', () => {
  it('median', () => {
    expect([median([3, 1, 2]), median([4, 1, 2, 3]), median([])]).toEqual([2, 2.5, Number.NaN])
  })
  it('times of a launch include its stages; other steps are apart', () => {
    const kernel = (name: string) => ({ name, params: [], mode: 'fast', parts: [] })
    const program = {
      steps: [
        { kind: 'kernel', stage: 'main', launch: 0, kernel: kernel('a'), buffers: [] },
        { kind: 'kernel', stage: 'finishing', launch: 0, kernel: kernel('a_finish'), buffers: [] },
        { kind: 'copy', from: 0, to: 1 },
      ],
    } as unknown as Program
    const times = [
      { step: 0, ms: 1 },
      { step: 1, ms: 0.5 },
      { step: 2, ms: 0.25 },
    ]
    const { byKernel, other } = launchTimes(program, times)
    expect([...byKernel]).toEqual([['a', 1.5]])
    expect(other).toBe(0.25)
  })
})
