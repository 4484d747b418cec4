/**
 * Integers of 64 bits that fit 32, and whole numbers in floats that hold them, are compared in 32 bits: positions, as imported models count them. Masks are seen
 * as such then, and threads and vectors do half the work.
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import { narrowRange, type Range, rangeThrough, wholeRange } from '../scalar/narrow.ts'
import { isScalarOp } from '../scalar/ops.ts'
import { integerRange, isFloat } from '../types/dtype.ts'
import { fullOf, fullValue, movesElements } from './facts.ts'
import { type Rule, rule } from './rule.ts'

/** Operations that are followed up from a comparison: more are not looked at. */
const mostSteps = 12

/** A value in i32, and its bounds. */
interface Short {
  readonly node: Node
  readonly range: Range
}

const { lo: least, end } = integerRange('i32')
const i32: Range = { lo: least, hi: end - 1 }
const within = ({ lo, hi }: Range, bounds: Range): boolean => lo >= bounds.lo && hi <= bounds.hi

/** Bounds of an i32, by places along axes, numbers, shorter integers, and sums and differences of such. */
function rangeOf(n: Node, steps: number): Range | undefined {
  const { op, shape, inputs, dtype } = n
  if (dtype !== 'i32') return narrowRange(dtype)
  const value = fullValue(n)
  if (value !== undefined) return { lo: Number(value), hi: Number(value) }
  if (op === 'iota') return { lo: 0, hi: (shape[n.attrs.axis] ?? 1) - 1 }
  if (steps === 0 || !(op === 'cast' || movesElements(n) || isScalarOp(op))) return undefined
  const ranges: Range[] = []
  for (const x of op === 'select' ? inputs.slice(1) : inputs) {
    const range = rangeOf(x, steps - 1)
    if (range === undefined) return undefined
    ranges.push(range)
  }
  const range = isScalarOp(op) ? rangeThrough(op, ranges) : ranges[0]
  return range !== undefined && within(range, i32) ? range : undefined
}

/** A whole number computed in i32, where all on the way fits and floats hold it: places along an axis, numbers, shorter integers, and sums and differences of such. */
function shortOf(n: Node, steps = mostSteps): Short | undefined {
  const { op, shape, inputs } = n
  const bounds = n.dtype === 'i64' ? i32 : isFloat(n.dtype) ? wholeRange(n.dtype) : undefined
  if (bounds === undefined || steps === 0) return undefined
  const fits = (range: Range): boolean => within(range, bounds)
  const value = fullValue(n)
  if (value !== undefined) {
    const number = Number(value)
    const range = { lo: number, hi: number }
    return Number.isInteger(number) && fits(range) ? { node: fullOf(shape, 'i32', number), range } : undefined
  }
  if (op === 'iota') {
    const range = { lo: 0, hi: (shape[n.attrs.axis] ?? 1) - 1 }
    return fits(range) ? { node: makeNode('iota', [], { ...n.attrs, dtype: 'i32' }), range } : undefined
  }
  const [x] = inputs
  if (x === undefined) return undefined
  if (op === 'cast') {
    const range = x.dtype === 'i32' ? (rangeOf(x, steps - 1) ?? i32) : narrowRange(x.dtype)
    if (range === undefined || !fits(range)) return undefined
    return { node: x.dtype === 'i32' ? x : makeNode('cast', [x], { dtype: 'i32' }), range }
  }
  if (!movesElements(n) && !isScalarOp(op)) return undefined
  const known: Short[] = []
  for (const input of inputs) {
    const short = shortOf(input, steps - 1)
    if (short === undefined) return undefined
    known.push(short)
  }
  const ranges = known.map((k) => k.range)
  const range = isScalarOp(op) ? rangeThrough(op, ranges) : ranges[0]
  const made = known.map((k) => k.node)
  return range === undefined || !fits(range) ? undefined : { node: withInputs(n, made), range }
}

const comparisons = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const

export const positionRules: readonly Rule[] = comparisons.map((op) =>
  rule(
    op,
    'exact',
    `${op}-of-positions`,
    `${op}(x, y) -> ${op}(i32(x), i32(y)), where what is compared is whole and fits 32 bits`,
    (node) => {
      const short = node.inputs.flatMap((x) => shortOf(x)?.node ?? [])
      return short.length < node.inputs.length ? undefined : withInputs(node, short)
    },
  ),
)
