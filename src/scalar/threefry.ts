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

/** Rounds of the generator: 20 leave a wide margin. */
export type Rounds = 13 | 20

/** Masks are drawn at the rate of memory: 13 rounds are the fewest that pass BigCrush in the paper. */
export const maskRounds = 13

/** Neighbours in a mask that share a word of random bits. */
export const sharedByMask = 8

/**
 * Odd numbers: the words w, w m1, w m2 and w m1 m2 (mod 2^32) of all w are spread over four dimensions like a lattice whose least
 * dual vector has a product of coordinates of 10^7 (10^8 in any two dimensions): as good as independent for what masks ask.
 */
export const maskMultipliers = [1709988947, 3969933621] as const

/** Where of all words the second of a pair of a mask's elements begins to hold: both do for exactly chance^2 of the 2^32. */
export const secondFrom = (chance: number): number => chance * (65536 - chance)

/**
 * Element `index` of the mask that holds with a chance in 65536ths. Eight neighbours share a word of the random bits, a pair each
 * multiple of it: the first of a pair holds from 0, the second from `secondFrom` on, for as many of the 2^32 words as the chance says.
 */
export function maskElement(chance: number, k0: number, k1: number, index: number): boolean {
  const place = index % sharedByMask
  const [m1, m2] = maskMultipliers
  const word = randomElement('u32', k0, k1, Math.floor(index / sharedByMask), maskRounds)
  const drawn = Math.imul(Math.imul(word, (place & 2) === 0 ? 1 : m1), (place & 4) === 0 ? 1 : m2)
  const from = (place & 1) === 0 ? 0 : secondFrom(chance)
  return (drawn - from) >>> 0 < chance * 65536
}

/**
 * Element `index` (a non-negative 53-bit number) of the random bits of a key: the words of the calls with counters 0, 1, 2 ...
 * (high 32 bits, low 32 bits) one after the other, cut into elements from the lowest bit of each word up.
 */
export function randomElement(dtype: RandomDType, k0: number, k1: number, index: number, rounds: Rounds = 20): number {
  const width = randomWidth(dtype)
  const each = elementsPerCall(dtype)
  const call = Math.floor(index / each)
  const at = index % each
  const words = threefry2x32(k0, k1, Math.floor(call / 4294967296), call >>> 0, rounds)
  const word = words[at < each / 2 ? 0 : 1]
  return width === 32 ? word : (word >>> (width * (at % (32 / width)))) & (2 ** width - 1)
}
