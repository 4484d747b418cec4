/** Random extents: powers of two and their neighbours, primes, multiples of eight, ones; sizes log-uniform. */
import type { Rng } from '../../test/random/rng.ts'

function isPrime(n: number): boolean {
  for (let d = 2; d * d <= n; d++) if (n % d === 0) return false
  return n > 1
}

/** An extent near a number, of one of the kinds that code treats differently. */
export function extentNear(rng: Rng, about: number): number {
  const n = Math.max(1, Math.round(about))
  if (n < 8) return n
  const power = 2 ** Math.round(Math.log2(n))
  const kind = rng.unit()
  if (kind < 0.25) return power
  if (kind < 0.4) return power + rng.pick([-1, 1])
  if (kind < 0.55) {
    let p = n
    while (!isPrime(p)) p--
    return p
  }
  if (kind < 0.75) return Math.max(8, Math.round(n / 8) * 8)
  return n
}

/** Log-uniform between bounds. */
export const logUniform = (rng: Rng, lo: number, hi: number): number =>
  Math.exp(rng.real(Math.log(lo), Math.log(Math.max(lo, hi))))

/**
 * The number of elements of a program's main tensor: half of the programs log-uniform from 1 to the most, half from a 256th of it, where
 * memory and arithmetic rather than calls take the time.
 */
export const elements = (rng: Rng, most: number): number =>
  logUniform(rng, rng.chance(0.5) ? 1 : Math.max(1, most / 256), most)

/** A shape of about so many elements, at most `most`. */
export function shapeOf(rng: Rng, about: number, rank: number, most: number): number[] {
  const cuts = Array.from({ length: rank }, () => -Math.log(1 - rng.unit()))
  const total = cuts.reduce((a, b) => a + b, 0)
  const shape = cuts.map((c) => extentNear(rng, about ** (c / total)))
  if (rank > 1 && rng.chance(0.12)) shape[rng.int(0, rank - 1)] = 1
  while (shape.reduce((n, d) => n * d, 1) > most) {
    const i = shape.indexOf(Math.max(...shape))
    shape[i] = Math.max(1, Math.floor((shape[i] ?? 1) / 2))
  }
  return shape
}

export const rankOf = (rng: Rng): number => rng.pick([1, 2, 2, 2, 3, 3, 4])
