/** Python's slicing of a tensor's axes; and the lists that calls on its axes take. */
import type { PadMode, SliceSpec } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { Node } from '../../graph/node.ts'
import { checkChoice, checkList, show, whole } from './options.ts'

/** One axis of `slice`: [start, stop, step], an index, or null for the whole. */
export type SliceArgument = number | null | readonly [start?: number | null, stop?: number | null, step?: number | null]

const showBound = (bound: unknown): string => (typeof bound === 'number' ? String(bound) : kindOf(bound))

function checkedBounds(s: readonly unknown[]): readonly unknown[] {
  checkList(s, 'one axis of the slice', '[start, stop], or an index, or null for the whole axis')
  return s
}

/** Python's slicing of the leading axes. */
export function sliceNode(x: Node, specs: readonly SliceArgument[]): Node {
  for (const s of specs)
    if (typeof s !== 'number' && s !== null)
      for (const bound of checkedBounds(s))
        if (bound !== null && bound !== undefined && !Number.isInteger(bound))
          throw new UserError('E_ARGUMENT', `a slice from, to or by ${showBound(bound)}`, {
            help: 'bounds are whole numbers, or null for the end of the axis',
          })
  const whole = c.slice(
    x,
    specs.map((s): SliceSpec | undefined => {
      if (typeof s === 'number' || s === null) return undefined
      return { start: s[0] ?? undefined, stop: s[1] ?? undefined, step: s[2] ?? undefined }
    }),
  )
  return specs.reduceRight<Node>((y, s, i) => (typeof s === 'number' ? c.selectAt(y, i, s) : y), whole)
}

/** Arguments after those a call takes: nobody gives them on purpose, so types have none. */
export type Excess = readonly never[]

/** A list as an example: the numbers that were given one by one, if they were. */
const listOf = (first: unknown, rest: readonly unknown[], other: string): string => {
  const numbers = [first, ...rest].filter((x) => typeof x === 'number')
  return numbers.length > 0 ? `[${numbers.join(', ')}]` : other
}

/** The axes of a transposition. Throws E_ARGUMENT for what is no list. */
export function axesList(axes: readonly number[] | undefined, rest: Excess): readonly number[] | undefined {
  if (axes !== undefined) checkList(axes, 'the axes', listOf(axes, rest, '[1, 0]'))
  return axes
}

/** How often each axis is repeated. Throws E_ARGUMENT for what is no list. */
export function repetitions(reps: readonly number[], rest: Excess): readonly number[] {
  checkList(reps, 'the repetitions', listOf(reps, rest, '[2, 1]'))
  return reps
}

/** An axis or a list of axes. Throws E_ARGUMENT for axes given one by one, of which all but the first would be left out. */
export function axesOnce<T>(axes: T, rest: Excess): T {
  if (rest.length === 0) return axes
  throw new UserError('E_ARGUMENT', 'axes are given one by one', {
    help: `give a list such as ${listOf(axes, rest, '[0, 1]')}`,
  })
}

/** A number of equal parts, or their sizes. Throws E_ARGUMENT for what is neither. */
export function partsOf(parts: number | readonly number[]): number | readonly number[] {
  if (typeof parts !== 'number') {
    checkList(parts, 'the parts', '[1, 2], their sizes, or a number of equal parts')
    return Array.from(parts)
  }
  return whole(parts, 'the number of parts')
}

/** The widths of padding. Throws E_ARGUMENT for what are no pairs, and for a mode there is not. */
export function checkedWidths(
  widths: readonly (readonly [number, number])[],
  mode: PadMode,
): readonly (readonly [number, number])[] {
  checkList(widths, 'the padding', '[[1, 1], [0, 0]], a pair for each axis')
  for (const pair of widths) {
    checkList(pair, 'the padding of one axis', '[1, 1]: before and after')
    const given: readonly unknown[] = pair
    if (given.length !== 2 || !given.every((w) => Number.isSafeInteger(w)))
      throw new UserError('E_ARGUMENT', `the padding of one axis is [${given.map(show).join(', ')}]`, {
        help: 'give a pair of whole numbers, [before, after]; negative ones crop',
      })
  }
  checkChoice(mode, ['constant', 'edge', 'reflect', 'wrap'], 'mode of padding')
  return widths
}
