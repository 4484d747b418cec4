/** Running results of any associative combination, in as many elementwise steps as the logarithm of the length. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { normaliseAxis, sameShape, showShape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { concat, flip, sliceAxis, stack } from './views.ts'

/**
 * Combines what stands earlier with what stands later, element by element along the axis: tuples of tensors of one length in,
 * a tuple of the same types out. It must be associative.
 */
export type Combine = (earlier: readonly Node[], later: readonly Node[]) => readonly Node[]

export interface AssociativeScanOptions {
  /** The axis the elements stand along, in every tensor; 0 unless given. */
  readonly axis?: number
  /** From the last element to the first. */
  readonly reverse?: boolean
}

/** Throws unless the combination gives what it was given. */
function checked(combine: Combine): Combine {
  return (earlier, later) => {
    const made = combine(earlier, later)
    if (made.length !== later.length)
      throw new UserError('E_STRUCTURE', `the combination gives ${made.length} tensors for ${later.length}`)
    made.forEach((y, i) => {
      const x = later[i]
      if (x !== undefined && (y.dtype !== x.dtype || !sameShape(y.shape, x.shape)))
        throw new UserError(
          'E_SHAPE',
          `the combination gives ${y.dtype}${showShape(y.shape)} where it was given ${x.dtype}${showShape(x.shape)}`,
          { help: 'it works element by element along the axis, which has another length at each call' },
        )
    })
    return made
  }
}

/** Elements of `even` and `odd` in turns; `even` has as many or one more. */
function interleave(even: Node, odd: Node, axis: number): Node {
  const m = odd.shape[axis] ?? 0
  const pairs = stack([sliceAxis(even, axis, 0, m), odd], axis + 1)
  const turns = reshape(
    pairs,
    odd.shape.map((d, i) => (i === axis ? 2 * d : d)),
  )
  return even.shape[axis] === m ? turns : concat([turns, sliceAxis(even, axis, m, m + 1)], axis)
}

/** Odd and even prefixes (Ladner and Fischer 1980): pairs combine, their running results are those of every second element. */
function scanPairs(combine: Combine, xs: readonly Node[], axis: number): readonly Node[] {
  const n = xs[0]?.shape[axis] ?? 0
  if (n < 2) return xs
  const m = Math.floor(n / 2)
  const pairs = combine(
    xs.map((x) => sliceAxis(x, axis, 0, 2 * m, 2)),
    xs.map((x) => sliceAxis(x, axis, 1, 2 * m, 2)),
  )
  const odd = scanPairs(combine, pairs, axis)
  const first = xs.map((x) => sliceAxis(x, axis, 0, 1))
  if (n === 2) return first.map((x, i) => concat([x, odd[i] ?? x], axis))
  const before = odd.map((x) => sliceAxis(x, axis, 0, Math.ceil(n / 2) - 1))
  const rest = combine(
    before,
    xs.map((x) => sliceAxis(x, axis, 2, n, 2)),
  )
  return odd.map((x, i) => interleave(concat([first[i] ?? x, rest[i] ?? x], axis), x, axis))
}

/**
 * Running combinations along an axis: element i of the result is elements 0 to i combined, left to right (from the last
 * element down with `reverse`). Takes 2 log2(n) combinations of whole tensors. Throws E_ARGUMENT without elements, E_SHAPE
 * where lengths differ or the combination changes shapes, E_AXIS.
 */
export function associativeScan(
  combine: Combine,
  elements: readonly Node[],
  { axis = 0, reverse = false }: AssociativeScanOptions = {},
): Node[] {
  const [first] = elements
  if (first === undefined) throw new UserError('E_ARGUMENT', 'associativeScan of no tensors')
  const axes = elements.map((x) => normaliseAxis(axis, x.shape.length))
  const [along = 0] = axes
  const n = first.shape[along]
  elements.forEach((x, i) => {
    if (axes[i] !== along || x.shape[along] !== n)
      throw new UserError(
        'E_SHAPE',
        `associativeScan along axis ${axis} of ${showShape(first.shape)} and ${showShape(x.shape)}`,
        {
          help: 'the tensors have the same length along the axis',
        },
      )
  })
  const turned = (xs: readonly Node[]): readonly Node[] => (reverse ? xs.map((x) => flip(x, along)) : xs)
  return [...turned(scanPairs(checked(combine), turned(elements), along))]
}
