/**
 * Operands of contractions of integers that fit 16 bits pass through 16 bits: what stands in memory between the kernels is half as long,
 * and the product knows what it multiplies (bytes less their zero points, as quantised models have them).
 */
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import { fits16, isWithin, narrowRange, type Range, rangeThrough, wholeRange } from '../scalar/narrow.ts'
import { isScalarOp } from '../scalar/ops.ts'
import type { HostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import { foldLimit, fullValue, movesElements, storedAsItIs } from './facts.ts'
import { type Rule, rule } from './rule.ts'

/** Operations that are followed up from a contraction: more are not looked at. */
const mostSteps = 12

/** Bounds of the integers of an i32 or f32, where few operations make it of narrow ones and of places, and all on the way are what they are: none wraps or is rounded. */
export function rangeOf(n: Node, steps = mostSteps): Range | undefined {
  const byType = narrowRange(n.dtype)
  if (byType !== undefined) return byType
  if ((n.dtype !== 'i32' && n.dtype !== 'f32') || steps === 0) return undefined
  const value = fullValue(n)
  if (typeof value === 'number') return Number.isInteger(value) ? { lo: value, hi: value } : undefined
  if (n.op === 'iota') return exact(n, { lo: 0, hi: (n.shape[n.attrs.axis] ?? 1) - 1 })
  if (n.op === 'constant') return n.dtype === 'i32' && sizeOf(n.shape) <= foldLimit ? rangeOfStored(n) : undefined
  const known: Range[] = []
  for (const x of n.inputs) {
    const range = rangeOf(x, steps - 1)
    if (range === undefined) return undefined
    known.push(range)
  }
  if (known.length === 0) return undefined
  if (movesElements(n)) return known[0]
  if (n.op === 'pad') return paddedRange(n, known[0])
  if (n.op === 'div' || n.op === 'rem') return n.dtype === 'i32' ? exact(n, rangeOfQuotient(n.op, known)) : undefined
  return exact(n, isScalarOp(n.op) && n.op !== 'select' ? rangeThrough(n.op, known) : undefined)
}

/** Bounds of a quotient of integers, rounded to zero, or of its remainder, by positive ones. */
function rangeOfQuotient(op: 'div' | 'rem', [a, b]: readonly Range[]): Range | undefined {
  if (a === undefined || b === undefined || b.lo <= 0) return undefined
  const least = (x: number): number => Math.trunc(x / (x < 0 ? b.lo : b.hi))
  const greatest = (x: number): number => Math.trunc(x / (x < 0 ? b.hi : b.lo))
  if (op === 'div') return { lo: least(a.lo), hi: greatest(a.hi) }
  return { lo: Math.max(Math.min(a.lo, 0), 1 - b.hi), hi: Math.min(Math.max(a.hi, 0), b.hi - 1) }
}

/** Bounds that a node's dtype holds. */
const exact = ({ dtype }: Node, range: Range | undefined): Range | undefined =>
  range !== undefined && isWithin(range, wholeRange(dtype)) ? range : undefined

/** Bounds of what is padded, and of the padding. */
function paddedRange({ attrs: { value } }: NodeOf<'pad'>, inside: Range | undefined): Range | undefined {
  if (typeof value !== 'number' || !Number.isInteger(value)) return undefined
  return inside && { lo: Math.min(inside.lo, value), hi: Math.max(inside.hi, value) }
}

/** Bounds of stored integers, by their data: contractions ask for them again and again. */
const stored = new WeakMap<HostArray, Range>()

function rangeOfStored({ attrs: { data } }: NodeOf<'constant'>): Range | undefined {
  const have = stored.get(data)
  if (have !== undefined) return have
  let [lo, hi] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const x of data) {
    lo = Math.min(lo, Number(x))
    hi = Math.max(hi, Number(x))
  }
  const range = { lo, hi }
  stored.set(data, range)
  return lo <= hi ? range : undefined
}

/** Integers in the fewest bytes: those they were made of, or 16 bits. They fit. */
export function narrowed(x: Node): Node {
  const [of] = x.inputs
  return x.op === 'cast' && of !== undefined && fits16(narrowRange(of.dtype))
    ? of
    : makeNode('cast', [x], { dtype: 'i16' })
}

/** The value in 16 bits that an operand is made of, seen as the operand sees it: where it is computed in 32 bits, and fits. */
function shortOf(x: Node, steps = mostSteps): Node | undefined {
  const [of] = x.inputs
  if (x.dtype !== 'i32' || x.op === 'cast' || steps === 0) return undefined
  if (of !== undefined && (movesElements(x) || (x.op === 'pad' && fits16(rangeOf(x))))) {
    const short = shortOf(of, steps - 1)
    return short && withInputs(x, [short])
  }
  const isMade = x.op === 'constant' ? sizeOf(x.shape) > storedAsItIs : of !== undefined && isScalarOp(x.op)
  return isMade && fits16(rangeOf(x)) ? makeNode('cast', [x], { dtype: 'i16' }) : undefined
}

export const shortIntegerRules: readonly Rule[] = [
  rule(
    'contract',
    'exact',
    'contract-of-short-integers',
    'contract(view(x), y) -> contract(i32(view(i16(x))), y), where the i32 that x computes fit 16 bits',
    (node) => {
      if (node.dtype !== 'i32') return undefined
      const short = node.inputs.map((x) => shortOf(x))
      if (short.every((x) => x === undefined)) return undefined
      const inputs = node.inputs.map((x, i) => {
        const found = short[i]
        return found === undefined ? x : makeNode('cast', [found], { dtype: 'i32' })
      })
      return makeNode('contract', inputs, node.attrs)
    },
  ),
]
