/**
 * Open extents that vary: by their names in the model a number, or the least and the most they may be. A name that is a sum of others
 * (`past_sequence_length + sequence_length`, as exporters of decoders write it) is no extent of its own.
 */
import { UserError } from '../diagnostics/errors.ts'
import { shown } from '../diagnostics/shown.ts'

/** An extent, or the least and the most it may be. */
export type Length = number | readonly [least: number, most: number]

/** An extent that varies. */
export interface LengthRange {
  readonly name: string
  readonly least: number
  readonly most: number
}

/** Lengths by name, those that are one number apart from ranges. Throws E_ONNX_INPUT for a range that is none. */
export function splitLengths(lengths: Readonly<Record<string, Length>>): {
  readonly fixed: Readonly<Record<string, number>>
  readonly ranges: readonly LengthRange[]
} {
  const fixed: [string, number][] = []
  const ranges: LengthRange[] = []
  for (const [name, x] of Object.entries(lengths)) {
    const given: unknown = x
    if (!Array.isArray(given)) {
      fixed.push([name, x as number])
      continue
    }
    const [least, most]: unknown[] = given
    const isExtent = (n: unknown): n is number => Number.isSafeInteger(n) && Number(n) >= 0
    if (given.length !== 2 || !isExtent(least) || !isExtent(most) || most < least)
      throw new UserError('E_ONNX_INPUT', `the range of the extent "${name}" is ${shown(given)}`, {
        help: `give the least and the most that it may be: { ${JSON.stringify(name)}: [1, 512] }`,
      })
    ranges.push({ name, least, most })
  }
  return { fixed: Object.fromEntries(fixed), ranges }
}

/** A name as a sum: of names that are known, and of a number. */
export interface NamedSum {
  readonly names: readonly string[]
  readonly plus: number
}

/** The sum that a name is written as; undefined for a name of its own. `known`: the names that stand for extents. */
export function sumOfNames(name: string, known: ReadonlySet<string>): NamedSum | undefined {
  const terms = name.split('+').map((t) => t.trim())
  if (terms.length < 2) return undefined
  const isNumber = (t: string): boolean => /^\d+$/.test(t)
  if (!terms.every((t) => isNumber(t) || (t !== name && known.has(t)))) return undefined
  return {
    names: terms.filter((t) => !isNumber(t)),
    plus: terms.reduce((n, t) => (isNumber(t) ? n + Number(t) : n), 0),
  }
}
