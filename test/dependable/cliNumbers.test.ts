/**
 * What is printed of a number reads back to the digits that are printed. Sites: `showNumber` (run, verify), `formatElements` (tensors as
 * text, `inspect`), `showBytes` and `showMs` (reports as text, page and picture; bench, demo).
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatElements } from '../../src/api/tensor/print.ts'
import { showHead, showNumber, showStatistics } from '../../src/cli/values.ts'
import { showBytes, showMs } from '../../src/report/format.ts'

const any = fc.double({ noDefaultInfinity: true, noNaN: true })
/** Numbers of every magnitude, those with few digits among them. */
const number = fc.oneof(
  any,
  fc.integer({ min: -1e9, max: 1e9 }),
  fc.tuple(fc.integer({ min: -99999, max: 99999 }), fc.integer({ min: -300, max: 300 })).map(([m, e]) => m * 10 ** e),
)
const holds = (property: fc.IProperty<[number]>): void => fc.assert(property, { numRuns: 2000, seed: 1 })

const units: Readonly<Record<string, number>> = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 }

describe('printed numbers', () => {
  it('of run and verify read back to four digits, or whole', () => {
    expect([2.064e-10, 1200.4, 1e21, 1000.04, -0, 100000.5].map(showNumber)).toEqual([
      '2.064e-10',
      '1200',
      '1e+21',
      '1000',
      '-0',
      '1e+5',
    ])
    holds(
      fc.property(number, (v) => {
        const whole = Number.isInteger(v) && Math.abs(v) < 1e6
        expect(Number(showNumber(v))).toBe(whole ? v : Number(v.toPrecision(4)))
      }),
    )
  })

  it('stand so in the lines of a result', () => {
    const t = { data: Float64Array.of(2.064e-10, 1200.4, -3e30), shape: [3], dtype: 'f64' as const }
    expect(showHead(t)).toBe('[2.064e-10, 1200, -3e+30]')
    expect(showStatistics(t)).toContain('min -3e+30')
  })

  it('of tensors read back to six digits (f32) or twelve (f64)', () => {
    holds(
      fc.property(number, (v) => {
        for (const [dtype, digits] of [
          ['f32', 6],
          ['f64', 12],
        ] as const) {
          const held = dtype === 'f32' ? Math.fround(v) : v
          const data = dtype === 'f32' ? Float32Array.of(held) : Float64Array.of(held)
          const shown = Number(formatElements(data, dtype, []))
          const whole = Number.isInteger(held) && Math.abs(held) < 1e7
          expect(shown).toBe(whole || !Number.isFinite(held) ? held : Number(held.toPrecision(digits)))
        }
      }),
    )
  })

  it('of bytes and milliseconds have two digits at least, and a unit that fits', () => {
    expect([999, 1000, 999_950, 999_499, 99_960, -2_500_000, 1e15].map(showBytes)).toEqual([
      '999 B',
      '1.0 KB',
      '1.0 MB',
      '999 KB',
      '100 KB',
      '-2.5 MB',
      '1000 TB',
    ])
    holds(
      fc.property(fc.integer({ min: -1e14, max: 1e14 }), (n) => {
        const [value = '', unit = ''] = showBytes(n).split(' ')
        expect(Math.abs(Number(value))).toBeLessThan(1000)
        expect(Math.abs(Number(value) * (units[unit] ?? Number.NaN) - n)).toBeLessThanOrEqual(0.0501 * Math.abs(n))
      }),
    )
    expect([0, 1e-7, 0.0512, 12.345, 1234.5].map(showMs)).toEqual(['0', '1.0e-7', '0.0512', '12.35', '1235'])
    holds(
      fc.property(fc.double({ min: -1e9, max: 1e9, noNaN: true }), (ms) => {
        expect(Math.abs(Number(showMs(ms)) - ms)).toBeLessThanOrEqual(0.0501 * Math.abs(ms))
      }),
    )
  })
})
