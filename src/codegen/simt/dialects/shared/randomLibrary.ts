/** Elements of random bits cut out of a call of the generator: what is the same in every dialect. */
import { randomDTypes, randomWidth } from '../../../../scalar/threefry.ts'
import type { Library } from './print.ts'

/** How a dtype's element number `at` stands in the two words of a call. */
export interface RandomElement {
  readonly name: string
  /** Name of the generator. */
  readonly generator: string
  /** Bit of `at` that chooses the word. */
  readonly wordBit: string
  /** The element in `word`. */
  readonly field: string
}

/** Element `at` of a call of the generator, by the bits of an element, as a dialect writes the function. */
export const randomLibrary = (write: (e: RandomElement) => Library[string]): Library =>
  Object.fromEntries(
    randomDTypes.flatMap((dtype) => {
      const width = randomWidth(dtype)
      const inWord = 32 / width
      const field = width === 32 ? 'word' : `(word >> ((at & ${inWord - 1}u) * ${width}u)) & ${2 ** width - 1}u`
      return ([13, 20] as const).map((rounds) => {
        const name = `random_${dtype}_${rounds}`
        return [name, write({ name, generator: `threefry_${rounds}`, wordBit: `${inWord}u`, field })]
      })
    }),
  )
