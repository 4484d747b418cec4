/**
 * Integers of 64 bits that fit 32, and whole numbers in floats that hold them, are compared in 32 bits: positions, as imported models count them. Masks are seen
 * as such then, and threads and vectors do half the work.
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import { isWithin, type Range, rangeThrough, wholeRange } from '../scalar/narrow.ts'
import { isScalarOp } from '../scalar/ops.ts'
import { isFloat } from '../types/dtype.ts'
import { fullOf, fullValue, movesElements } from './facts.ts'
import { type Rule, rule } from './rule.ts'
import { rangeOf } from './shortIntegers.ts'

/** Operations that are followed up from a comparison: more are not looked at. */
const mostSteps = 12

/** A value in i32, and its bounds. */
interface Short {
  readonly node: Node
  readonly range: Range
}

/** A whole number computed in i32, where all on the way fits and floats hold it: places along an axis, numbers, shorter integers, and sums and differences of such. */
function shortOf(n: Node, steps = mostSteps): Short | undefined {
  const { op, shape, inputs } = n
  const bounds = n.dtype === 'i64' || isFloat(n.dtype) ? wholeRange(n.dtype) : undefined
  if (bounds === undefined || steps === 0) return undefined
  const fits = (range: Range): boolean => isWithin(range, bounds)
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
    const range = rangeOf(x, steps - 1) ?? (x.dtype === 'i32' ? wholeRange('i32') : undefined)
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
