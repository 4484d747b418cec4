/**
 * Integers of 64 bits that fit 32, and whole numbers in floats that hold them, are compared in 32 bits: positions, as imported models count them. Masks are seen
 * as such then, and threads and vectors do half the work. Where only a comparison with such is asked for, any i64 is as good saturated.
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import { isWithin, narrowRange, type Range, rangeThrough, wholeRange } from '../scalar/narrow.ts'
import { isScalarOp, type Scalar } from '../scalar/ops.ts'
import { type DType, dtypeBytes, isFloat } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { foldLimit, fullOf, fullValue, movesElements } from './facts.ts'
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

const least = -(2 ** 31)
const greatest = 2 ** 31 - 1

/** Elements between two numbers, in their dtype. */
function between(x: Node, lo: Scalar, hi: Scalar): Node {
  const above = makeNode('max', [x, fullOf(x.shape, x.dtype, lo)], {})
  return makeNode('min', [above, fullOf(x.shape, x.dtype, hi)], {})
}

const toShort = (x: Node): Node => (x.dtype === 'i32' ? x : makeNode('cast', [x], { dtype: 'i32' }))

/** Whether i32 has every number of a dtype. */
const isShort = (d: DType): boolean => d === 'i32' || narrowRange(d) !== undefined

/** Views that leave out no element, whatever the extents. */
const keepsAll = ({ op }: Node): boolean => op === 'broadcast' || op === 'reshape' || op === 'permute' || op === 'flip'

/**
 * An i64 in i32: what lies beyond is the least or the greatest of i32. What repeats or reorders elements stands behind that; what is short as it is, or was before
 * it became an i64, is not compared. Undefined for a literal that is not stored anew.
 */
export function saturated(n: Node, steps = mostSteps): Node | undefined {
  const short = shortOf(n)
  if (short !== undefined) return short.node
  const [x] = n.inputs
  if (n.op === 'cast' && x !== undefined) {
    // A float that becomes an integer is the nearest that there is; what else has four bytes is u32.
    if (isShort(x.dtype) || isFloat(x.dtype)) return toShort(x)
    if (dtypeBytes(x.dtype) === 4) return toShort(makeNode('min', [x, fullOf(x.shape, x.dtype, greatest)], {}))
  }
  if (n.op === 'constant' && sizeOf(n.shape) > foldLimit) return undefined
  if (x !== undefined && keepsAll(n) && steps > 0) {
    const inner = saturated(x, steps - 1)
    return inner && withInputs(n, [inner])
  }
  return toShort(between(n, BigInt(least), BigInt(greatest)))
}

/** Whether elements repeat: a broadcast stands behind them. */
function isRepeated(n: Node): boolean {
  let x: Node | undefined = n
  while (x !== undefined && x.op !== 'broadcast' && (movesElements(x) || x.op === 'cast')) x = x.inputs[0]
  return x?.op === 'broadcast'
}

/** Operands of a comparison in i32. Repeated ones that may be any i64 (labels against places) are saturated, where the others lie inside: such are greater or less as before. */
function comparedShort(inputs: readonly Node[]): readonly Node[] | undefined {
  const known = inputs.map((x) => shortOf(x))
  const isInside = known.every((k) => k === undefined || (k.range.lo > least && k.range.hi < greatest))
  const out: Node[] = []
  for (const [i, x] of inputs.entries()) {
    const canSaturate = isInside && known.some((k) => k !== undefined) && x.dtype === 'i64' && isRepeated(x)
    const node = known[i]?.node ?? (canSaturate ? saturated(x) : undefined)
    if (node === undefined) return undefined
    out.push(node)
  }
  return out
}

const comparisons = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const

export const positionRules: readonly Rule[] = comparisons.map((op) =>
  rule(
    op,
    'exact',
    `${op}-of-positions`,
    `${op}(x, y) -> ${op}(i32(x), i32(y)), where what is compared is whole and fits 32 bits, or one is and the other is a repeated i64`,
    (node) => {
      const short = comparedShort(node.inputs)
      return short && withInputs(node, short)
    },
  ),
)
