/** Integers of 64 bits that fit 32 are compared in 32: positions, as imported models count them. Masks are seen as such then, and threads and vectors do half the work. */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import { narrowRange, type Range, rangeThrough } from '../scalar/narrow.ts'
import { isScalarOp } from '../scalar/ops.ts'
import { integerRange } from '../types/dtype.ts'
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
const fits = ({ lo, hi }: Range): boolean => lo >= i32.lo && hi <= i32.hi

/** An i64 computed in i32, where all on the way fits: places along an axis, numbers, shorter integers, and sums and differences of such. */
function shortOf(n: Node, steps = mostSteps): Short | undefined {
  const { op, shape, inputs } = n
  if (n.dtype !== 'i64' || steps === 0) return undefined
  const value = fullValue(n)
  if (value !== undefined) {
    const number = Number(value)
    const range = { lo: number, hi: number }
    return fits(range) ? { node: fullOf(shape, 'i32', number), range } : undefined
  }
  if (op === 'iota') {
    const range = { lo: 0, hi: (shape[n.attrs.axis] ?? 1) - 1 }
    return fits(range) ? { node: makeNode('iota', [], { ...n.attrs, dtype: 'i32' }), range } : undefined
  }
  const [x] = inputs
  if (x === undefined) return undefined
  if (op === 'cast') {
    const range = x.dtype === 'i32' ? i32 : narrowRange(x.dtype)
    if (range === undefined) return undefined
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
    `${op}(x, y) -> ${op}(i32(x), i32(y)), where the i64 that are compared fit 32 bits`,
    (node) => {
      const short = node.inputs.flatMap((x) => shortOf(x)?.node ?? [])
      return short.length < node.inputs.length ? undefined : withInputs(node, short)
    },
  ),
)
