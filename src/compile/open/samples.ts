/**
 * Samples of dimensions: the corners of a range, and some places inside. Corners are primes where they can be, unlike each other and the
 * extents of the program, so that nothing is equal by chance. Where extents are quotients of dimensions, those inside are multiples of small
 * numbers, and what lies between such: of odd numbers alone half of one that is rounded up is (n + 1) / 2, and no quotient. Of what they are
 * divided by each remainder is sampled, so that what is added before a division shows, and a mask that holds at some remainders alone.
 */

import type { Dimension, Extents } from '../../runtime/extents.ts'

/** The range of a dimension whose corners are to be sampled, inclusive. */
export interface SampleRange {
  readonly name: string
  readonly lo: number
  readonly hi: number
}

/** Dimensions whose corners are all sampled. */
const mostCorners = 3

/** Whether all corners of a range of so many dimensions are sampled. */
export const hasAllCorners = (dimensions: number): boolean => dimensions <= mostCorners

function isPrime(n: number): boolean {
  for (let p = 2; p * p <= n; p++) if (n % p === 0) return false
  return n > 1
}

/** The prime nearest to a number that is not taken, at first among those inside a range. */
function primeNear(at: number, lo: number, hi: number, taken: ReadonlySet<number>): number {
  const free = (n: number): boolean => n >= 2 && isPrime(n) && !taken.has(n)
  for (let d = 0; d <= hi - lo; d++) {
    if (at - d >= lo && free(at - d)) return at - d
    if (at + d <= hi && free(at + d)) return at + d
  }
  return Math.min(hi, Math.max(lo, at))
}

/** What the samples inside are multiples of, the first of which a range has room for, and what is left over. */
const divisors = [60, 24, 12, 4, 2]
const remainders = [0, 2]

/** The number nearest to another that leaves a remainder on division by as many small numbers as a range has room for. */
function compositeNear(at: number, lo: number, hi: number, remainder: number, taken: ReadonlySet<number>): number {
  for (const by of divisors) {
    const rest = remainder % by
    for (let d = 0; d <= Math.floor((hi - lo) / 2); d++)
      for (const n of [at - d, at + d]) if (n > Math.max(1, lo) && n < hi && n % by === rest && !taken.has(n)) return n
  }
  return primeNear(at, lo, hi, taken)
}

/** The greatest prime below a number that is not taken; the number itself where there is none. */
export function primeBelow(most: number, taken: ReadonlySet<number>): number {
  let n = most - 1
  while (n > 1 && (!isPrime(n) || taken.has(n))) n--
  return n > 1 ? n : most
}

/** A prime of at least a number that is not taken. */
export function primeAbove(least: number, taken: ReadonlySet<number>): number {
  let n = least
  while (!isPrime(n) || taken.has(n)) n++
  return n
}

/** Which samples stand inside a range: those of traces are both. */
export type Inside = 'primes' | 'multiples' | 'both'

/** Remainders that are sampled, at most. */
const mostRemainders = 64

/** Remainders to sample of a division: all; of many those around 0, and some between. */
function remaindersOf(divisor: number): readonly number[] {
  if (divisor <= mostRemainders) return Array.from({ length: divisor }, (_, r) => r)
  const between = Array.from({ length: mostRemainders - 3 }, (_, i) => Math.floor(((i + 1) * divisor) / mostRemainders))
  return [...new Set([0, 1, divisor - 1, ...between])]
}

/** Samples that leave the remainders on division by a number that others do not, as far as ranges have room for them. */
function withRemainders(
  samples: readonly Extents[],
  ranges: readonly SampleRange[],
  divisor: number,
): readonly Extents[] {
  const missing = ranges.map((_, i) => {
    const have = new Set(samples.map((s) => (s[i] ?? 0) % divisor))
    return remaindersOf(divisor).filter((r) => !have.has(r))
  })
  const most = missing.reduce((n, list) => Math.max(n, list.length), 0)
  return Array.from({ length: most }, (_, k) =>
    ranges.map(({ lo, hi }, i) => {
      // Places apart, and of each dimension in another order.
      const at = Math.round(lo + (((k + 1 + i * 0.37) * 0.618) % 1) * (hi - lo))
      const remainder = missing[i]?.[k]
      if (remainder === undefined) return at
      const below = at - ((at - remainder + divisor) % divisor)
      return [below, below + divisor].find((n) => n >= lo && n <= hi) ?? at
    }),
  )
}

/** What the samples of some ranges are, the one to plan at first. `taken` are extents of the program, `divisor` is what some are quotients by. */
export function samplesOf(
  ranges: readonly SampleRange[],
  taken: ReadonlySet<number>,
  kind: Inside = 'primes',
  divisor = 1,
): { readonly samples: readonly Extents[]; readonly dimensions: readonly Dimension[] } {
  const used = new Set(taken)
  const near = (share: number, remainder?: number): number[] =>
    ranges.map(({ lo, hi }) => {
      const at = Math.round(lo + share * (hi - lo))
      const n = remainder === undefined ? primeNear(at, lo, hi, used) : compositeNear(at, lo, hi, remainder, used)
      used.add(n)
      return n
    })
  for (const { lo, hi } of ranges) for (const n of [lo, hi]) used.add(n)
  const planned = near(0.95)
  // The ends of all dimensions first: what fails, fails there.
  const corners: number[][] = [ranges.map(({ hi }) => hi), ranges.map(({ lo }) => lo)]
  const all = 2 ** ranges.length
  for (let c = 0; c < all; c++) {
    const bits = ranges.map((_, i) => (c >> i) & 1)
    const ones = bits.reduce((n, b) => n + b, 0)
    if (!hasAllCorners(ranges.length) && ones > 1 && ones < ranges.length - 1) continue
    corners.push(ranges.map(({ lo, hi }, i) => (bits[i] === 1 ? hi : lo)))
  }
  // More samples than the longest formula has unknowns.
  const primes = kind === 'multiples' ? [] : [near(0.5), ...(ranges.length === 1 ? [near(0.3)] : [])]
  const multiples = kind === 'primes' ? [] : remainders.map((r, i) => near(0.5 - 0.2 * i, r))
  const inside = [...primes, ...multiples]
  const generic = [planned, ...corners, ...inside]
  const samples = [...generic, ...withRemainders(generic, ranges, divisor)]
  const distinct = samples.filter((s, i) => samples.findIndex((t) => t.join() === s.join()) === i)
  return { samples: distinct, dimensions: ranges.map(({ name, lo, hi }) => ({ name, least: lo, most: hi })) }
}
