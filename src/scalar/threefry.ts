/**
 * Threefry-2x32 with 20 rounds: the one generator of random bits. J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw:
 * Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011). Add, rotate, xor only.
 */

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

/** The two 32-bit words for key (k0, k1) and counter (c0, c1), as unsigned numbers. */
export function threefry2x32(k0: number, k1: number, c0: number, c1: number): [number, number] {
  const keys = [k0 | 0, k1 | 0, parity ^ k0 ^ k1]
  let x = (c0 + k0) | 0
  let y = (c1 + k1) | 0
  for (let round = 0; round < 20; round++) {
    const r = rotations[round & 7] ?? 0
    x = (x + y) | 0
    y = ((y << r) | (y >>> (32 - r))) ^ x
    if ((round & 3) === 3) {
      const s = (round >> 2) + 1
      x = (x + (keys[s % 3] ?? 0)) | 0
      y = (y + (keys[(s + 1) % 3] ?? 0) + s) | 0
    }
  }
  return [x >>> 0, y >>> 0]
}

/** Random bits of a non-negative 53-bit index: word 0 of Threefry with counter (high 32 bits, low 32 bits). */
export const randomWord = (k0: number, k1: number, index: number): number =>
  threefry2x32(k0, k1, Math.floor(index / 4294967296), index >>> 0)[0]
