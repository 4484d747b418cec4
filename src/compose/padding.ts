/** Padding of windows: its names, and the pairs they stand for. */
import { UserError } from '../diagnostics/errors.ts'

/** Elements before and after an axis. */
export type Pair = readonly [number, number]

/**
 * Padding of windows. `valid`: none. `same`: the output's extent is ceil(n / stride), so total = max(0, (ceil(n / stride) - 1) stride
 * + span - n) with span = (kernel - 1) dilation + 1, of which floor(total / 2) come before and the rest after (TensorFlow's and
 * JAX's SAME, ONNX's SAME_UPPER); `same-lower` puts the odd element before. A number pads both sides of every axis, a list has
 * [before, after] for each.
 */
export type Padding =
  | 'valid'
  | 'same'
  | 'same-lower'
  | 'VALID'
  | 'SAME'
  | 'SAME_LOWER'
  | number
  | readonly (readonly [number, number])[]

const paddingNames = {
  valid: 'valid',
  same: 'same',
  'same-lower': 'same-lower',
  VALID: 'valid',
  SAME: 'same',
  SAME_LOWER: 'same-lower',
} as const

const isPair = (x: unknown): x is Pair => Array.isArray(x) && x.length === 2 && x.every(Number.isSafeInteger)

const named = (x: unknown): string => (typeof x === 'number' ? String(x) : typeof x)

/** Padding by one name for each meaning. Throws E_ARGUMENT for what is no padding. */
function namedPadding(padding: Padding | undefined): 'valid' | 'same' | 'same-lower' | number | readonly Pair[] {
  const given: unknown = padding ?? 'valid'
  const help = "use 'SAME', 'VALID', a whole number, or a pair [before, after] for each spatial axis"
  if (typeof given === 'string') {
    if (Object.hasOwn(paddingNames, given)) return paddingNames[given as keyof typeof paddingNames]
    throw new UserError('E_ARGUMENT', `there is no padding "${given}"`, { help })
  }
  if (typeof given === 'number' && Number.isSafeInteger(given)) return given
  if (!Array.isArray(given)) throw new UserError('E_ARGUMENT', `the padding is ${named(given)}`, { help })
  const pairs: readonly unknown[] = given
  const odd = pairs.find((p) => !isPair(p))
  if (odd === undefined) return pairs.filter(isPair)
  throw new UserError(
    'E_ARGUMENT',
    `the padding of one axis is ${Array.isArray(odd) ? `[${odd.map(named).join(', ')}]` : named(odd)}`,
    {
      help: `give a pair [before, after] for each spatial axis, such as [[1, 1], [0, 1]]`,
    },
  )
}

/** Padding as pairs, for windows of the given spans. */
export function paddingPairs(
  given: Padding | undefined,
  extents: readonly number[],
  spans: readonly number[],
  strides: readonly number[],
): Pair[] {
  const padding = namedPadding(given)
  if (padding === 'valid') return extents.map(() => [0, 0])
  if (typeof padding === 'number') return extents.map(() => [padding, padding])
  if (padding === 'same' || padding === 'same-lower')
    return extents.map((n, i) => {
      const stride = strides[i] ?? 1
      const total = Math.max(0, (Math.ceil(n / stride) - 1) * stride + (spans[i] ?? 1) - n)
      const less = Math.floor(total / 2)
      return padding === 'same' ? [less, total - less] : [total - less, less]
    })
  if (padding.length !== extents.length)
    throw new UserError('E_ARGUMENT', `${padding.length} padding pairs for ${extents.length} spatial axes`, {
      help: 'give a pair [before, after] for each spatial axis',
    })
  return [...padding]
}

/**
 * `same` takes total = span + outputPadding - stride elements away, floor(total / 2) of them before, so that the extent is n * stride. Where
 * windows do not meet (total < 0), zeros come after.
 */
export function transposedPadding(
  given: Padding | undefined,
  spans: readonly number[],
  stride: readonly number[],
  extra: readonly number[],
  count: number,
): Pair[] {
  const padding = namedPadding(given)
  if (padding === 'same' || padding === 'same-lower')
    return spans.map((s, i) => {
      const total = s + (extra[i] ?? 0) - (stride[i] ?? 1)
      if (total < 0) return [0, total]
      const less = Math.floor(total / 2)
      return padding === 'same' ? [less, total - less] : [total - less, less]
    })
  return paddingPairs(padding, new Array<number>(count).fill(0), spans, stride)
}
