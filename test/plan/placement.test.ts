/** Offsets of intermediates: what lives at once stands apart, with room behind it, in no more than all of it needs. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Interval, placeBuffers } from '../../src/plan/memory/placement.ts'

const offset = (plan: ReturnType<typeof placeBuffers>, buffer: number): number => {
  const o = plan.offsets.get(buffer)
  if (o === undefined) throw new Error(`buffer ${buffer} has no place`)
  return o
}

/** Lifetimes; some name a buffer that dies where they begin and has their size, each at most once. */
const lifetimes = fc
  .array(
    fc.record({
      bytes: fc.constantFrom(0, 1, 4, 60, 64, 65, 200, 4096),
      from: fc.nat(12),
      length: fc.nat(6),
      heir: fc.boolean(),
    }),
    {
      maxLength: 24,
    },
  )
  .map((items) => {
    const plain = items.map((x, buffer): Interval => ({ buffer, bytes: x.bytes, from: x.from, to: x.from + x.length }))
    const taken = new Set<number>()
    return plain.map((i, n): Interval => {
      const host = plain.find(
        (h) =>
          h.buffer !== i.buffer && h.to === i.from && h.from < i.from && h.bytes === i.bytes && !taken.has(h.buffer),
      )
      if (host === undefined || items[n]?.heir !== true) return i
      taken.add(host.buffer)
      return { ...i, donor: host.buffer }
    })
  })

const isHeir = (a: Interval, b: Interval): boolean => a.donor === b.buffer || b.donor === a.buffer

describe('placeBuffers', () => {
  test('buffers that live at once keep 64 bytes between them, heirs apart', () => {
    fc.assert(
      fc.property(lifetimes, (intervals) => {
        const plan = placeBuffers(intervals)
        for (const a of intervals) {
          const start = offset(plan, a.buffer)
          expect(start % 64).toBe(0)
          expect(start + a.bytes + 64).toBeLessThanOrEqual(plan.arenaBytes)
          for (const b of intervals) {
            if (a.buffer >= b.buffer || a.from > b.to || b.from > a.to) continue
            const other = offset(plan, b.buffer)
            if (isHeir(a, b)) expect(start).toBe(other)
            else expect(start + a.bytes + 64 <= other || other + b.bytes + 64 <= start).toBe(true)
          }
        }
      }),
      { numRuns: 300 },
    )
  })

  test('the arena holds at least what lives at once and at most everything', () => {
    fc.assert(
      fc.property(lifetimes, (intervals) => {
        const plan = placeBuffers(intervals)
        for (let step = 0; step <= 20; step++) {
          const live = intervals.filter((i) => i.from <= step && i.to >= step)
          // A buffer and its heir at the step where one takes over the other count once.
          const bytes = live.filter((i) => i.from < step || i.donor === undefined).reduce((n, i) => n + i.bytes, 0)
          expect(plan.arenaBytes).toBeGreaterThanOrEqual(bytes)
        }
        expect(plan.arenaBytes).toBeLessThanOrEqual(intervals.reduce((n, i) => n + i.bytes + 128, 0))
        expect(plan.inPlace).toBe(intervals.filter((i) => i.donor !== undefined).length)
      }),
      { numRuns: 300 },
    )
  })

  test('a chain of intermediates needs the space of two', () => {
    const chain = Array.from({ length: 50 }, (_, i): Interval => ({ buffer: i, bytes: 1024, from: i, to: i + 1 }))
    expect(placeBuffers(chain).arenaBytes).toBe(2 * (1024 + 64))
  })

  test('within the bytes that may stand apart, places rest for some steps; beyond them they are used at once', () => {
    const size = 1024 + 64
    const steps = Array.from(
      { length: 9 },
      (_, i): Interval => ({ buffer: i, bytes: 1024, from: 2 * i, to: 2 * i + 1 }),
    )
    const places = (apart: number): number[] => steps.map((_, i) => offset(placeBuffers(steps, 64, apart), i) / size)
    expect(places(0)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0])
    expect(places(2 * size - 1)).toEqual(places(0))
    expect(places(2 * size)).toEqual([0, 1, 0, 1, 0, 1, 0, 1, 0])
    expect(places(64 * size)).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2])
    fc.assert(
      fc.property(lifetimes, fc.nat(20_000), (intervals, apart) => {
        const [least, plan] = [placeBuffers(intervals), placeBuffers(intervals, 64, apart)]
        expect(plan.arenaBytes).toBeLessThanOrEqual(Math.max(least.arenaBytes, apart))
        expect(plan.inPlace).toBe(least.inPlace)
        for (const a of intervals)
          for (const b of intervals) {
            if (a.buffer >= b.buffer || a.from > b.to || b.from > a.to || isHeir(a, b)) continue
            const [x, y] = [offset(plan, a.buffer), offset(plan, b.buffer)]
            expect(x + a.bytes + 64 <= y || y + b.bytes + 64 <= x).toBe(true)
          }
      }),
      { numRuns: 200 },
    )
  })

  test('a chain in place needs the space of one', () => {
    const chain = Array.from(
      { length: 50 },
      (_, i): Interval => ({ buffer: i, bytes: 1024, from: i, to: i + 1, ...(i === 0 ? {} : { donor: i - 1 }) }),
    )
    expect(placeBuffers(chain)).toMatchObject({ arenaBytes: 1024 + 64, inPlace: 49 })
  })

  test('no heir of another size, and none of a buffer that lives on', () => {
    const plan = placeBuffers([
      { buffer: 0, bytes: 64, from: 0, to: 2 },
      { buffer: 1, bytes: 64, from: 1, to: 3, donor: 0 },
      { buffer: 2, bytes: 128, from: 2, to: 3, donor: 0 },
    ])
    expect(plan.inPlace).toBe(0)
    expect(offset(plan, 1)).not.toBe(offset(plan, 0))
  })
})
