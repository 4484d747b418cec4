/** How accumulators of fast mode fold (src/scalar/summation.ts, `levelsOf`): no sum of n terms takes more than 4 log2(n) additions one upon another. */
import { expect, test } from 'vitest'
import { levelsOf, mostAdditions } from '../../src/scalar/summation.ts'

/** Additions one upon another in a sum; what is empty adds nothing. */
type Depth = number | undefined

const joined = (a: Depth, b: Depth): Depth => (a === undefined ? b : b === undefined ? a : Math.max(a, b) + 1)

function inPairs(of: readonly Depth[]): Depth {
  let left = of
  while (left.length > 1)
    left = left.flatMap((a, i) => (i % 2 === 1 ? [] : [i + 1 < left.length ? joined(a, left[i + 1]) : a]))
  return left[0]
}

/** What folding `each` terms in each of `rounds` rounds comes to, step by step. */
function depthOf(each: number, rounds: number, most: number): number {
  const { copies, closes } = levelsOf(each, rounds, most)
  const terms = new Array<Depth>(copies).fill(undefined)
  const totals = new Array<Depth>(closes.length).fill(undefined)
  for (let count = 1; count <= rounds; count++) {
    for (let t = 0; t < each; t++) terms[t % copies] = joined(terms[t % copies], 0)
    for (let level = 0; level < closes.length && count % 2 ** (closes[level] ?? 0) === 0; level++) {
      totals[level] = joined(totals[level], level === 0 ? inPairs(terms) : totals[level - 1])
      if (level === 0) terms.fill(undefined)
      else totals[level - 1] = undefined
    }
  }
  return totals.reduce((low, t) => joined(t, low), inPairs(terms)) ?? 0
}

const rounds = [...Array.from({ length: 300 }, (_, i) => i + 1), 511, 512, 513, 1000, 1024, 4095, 4096, 5000, 20_000]

test.each([1, 2, 3, 4, 7, 8, 12, 16, 17, 18, 24, 31, 32, 64])('%i terms a round', (each) => {
  for (const n of rounds) {
    const most = mostAdditions(each * n)
    expect([n, depthOf(each, n, most) <= most]).toEqual([n, true])
  }
})

test('in as few accumulators as it takes', () => {
  const count = (each: number, n: number): number => {
    const { copies, closes } = levelsOf(each, n, mostAdditions(each * n))
    return copies + closes.length
  }
  expect([17, 18, 32].map((each) => count(each, 1))).toEqual([1, 2, 2])
  expect([16, 17, 64, 256, 4096].map((n) => count(1, n))).toEqual([1, 1, 2, 2, 3])
})
