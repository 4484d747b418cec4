/** Parts of wide ranges: they cover the range, meet at extents that no program has, and are as many as the range is wide. */
import { expect, test } from 'vitest'
import { cutRanges } from '../../src/api/device/cutRanges.ts'

const range = (lo: number, hi: number, name = 'n') => ({ name, lo, hi })

test('a wide range is cut where no extent of the program is', () => {
  const taken = new Set([37, 64, 768])
  const cut = cutRanges([range(2, 11, 'b'), range(8, 521)], taken)
  expect(cut?.range).toBe(1)
  const parts = cut?.parts ?? []
  expect(parts.length).toBe(3)
  expect([parts[0]?.lo, parts.at(-1)?.hi]).toEqual([8, 521])
  parts.forEach((p, i) => {
    expect(p.hi).toBeGreaterThan(p.lo)
    if (i > 0) expect(p.lo).toBe(parts[i - 1]?.hi)
    if (i > 0) expect(taken.has(p.lo)).toBe(false)
  })
  expect(cutRanges([range(2, 4099)], taken)?.parts.length).toBe(4)
})

test('a narrow range is whole', () => {
  expect(cutRanges([range(20, 100), range(2, 8)], new Set())).toBeUndefined()
  expect(cutRanges([], new Set())).toBeUndefined()
})
