/**
 * Threefry-2x32: the one generator of random bits. J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel Random Numbers: As
 * Easy as 1, 2, 3 (SC 2011). Add, rotate, xor only.
 */

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

/** The two 32-bit words for key (k0, k1) and counter (c0, c1) after some rounds, as unsigned numbers. */
export function threefry2x32(k0: number, k1: number, c0: number, c1: number, rounds = 20): [number, number] {
  const keys = [k0 | 0, k1 | 0, parity ^ k0 ^ k1]
  let x = (c0 + k0) | 0
  let y = (c1 + k1) | 0
  for (let round = 0; round < rounds; round++) {
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

/** Dtypes that random bits are drawn in. */
export type RandomDType = 'u8' | 'u16' | 'u32'

export const randomDTypes: readonly RandomDType[] = ['u8', 'u16', 'u32']

export const isRandomDType = (d: string): d is RandomDType => randomDTypes.some((x) => x === d)

/** Bits of an element. */
export const randomWidth = (d: RandomDType): 8 | 16 | 32 => (({ u8: 8, u16: 16, u32: 32 }) as const)[d]

/** Elements that the 64 bits of one call of the generator make. */
export const elementsPerCall = (d: RandomDType): 2 | 4 | 8 => (({ u8: 8, u16: 4, u32: 2 }) as const)[d]

/**
 * Rounds of the generator. 20 leave a wide margin; sixteen-bit elements, which masks are drawn from at the rate of memory, stop
 * at 13, the fewest that pass BigCrush in the paper.
 */
export const roundsOf = (d: RandomDType): 13 | 20 => (d === 'u16' ? 13 : 20)

/**
 * Two neighbours of a mask share a draw of sixteen bits. For a chance t in 65536ths the first holds for the draws from 0 to t, the
 * second for as many from here on: draws that make both hold are the nearest number to t^2 / 65536, as if they were independent.
 */
export const secondFrom = (chance: number): number => chance - Math.round((chance * chance) / 65536)

/** Element `index` of the mask that holds with a chance in 65536ths, drawn from the sixteen-bit elements of the random bits. */
export function maskElement(chance: number, k0: number, k1: number, index: number): boolean {
  const draw = randomElement('u16', k0, k1, Math.floor(index / 2))
  const from = index % 2 === 0 ? 0 : secondFrom(chance)
  return draw >= from && draw < from + chance
}

/**
 * Element `index` (a non-negative 53-bit number) of the random bits of a key: the words of the calls with counters 0, 1, 2 ...
 * (high 32 bits, low 32 bits) one after the other, cut into elements from the lowest bit of each word up.
 */
export function randomElement(dtype: RandomDType, k0: number, k1: number, index: number): number {
  const width = randomWidth(dtype)
  const each = elementsPerCall(dtype)
  const call = Math.floor(index / each)
  const at = index % each
  const words = threefry2x32(k0, k1, Math.floor(call / 4294967296), call >>> 0, roundsOf(dtype))
  const word = words[at < each / 2 ? 0 : 1]
  return width === 32 ? word : (word >>> (width * (at % (32 / width)))) & (2 ** width - 1)
}
