/**
 * Operands of contractions of integers that fit 16 bits pass through 16 bits: what stands in memory between the kernels is half as long,
 * and the product knows what it multiplies (bytes less their zero points, as quantised models have them).
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { opTable } from '../graph/table.ts'
import { fits16, narrowRange, type Range, rangeThrough } from '../scalar/narrow.ts'
import { isScalarOp } from '../scalar/ops.ts'
import { fullValue } from './facts.ts'
import { type Rule, rule } from './rule.ts'

/** Operations that are followed up from a contraction: more are not looked at. */
const mostSteps = 12

/** Operations that move elements, or repeat them. */
const movesElements = (n: Node): boolean => opTable[n.op].family === 'view' && n.inputs.length === 1 && n.op !== 'pad'

/** Bounds of an i32, where few operations make it of narrow numbers. */
function rangeOf(n: Node, steps = mostSteps): Range | undefined {
  const byType = narrowRange(n.dtype)
  if (byType !== undefined) return byType
  if (n.dtype !== 'i32' || steps === 0) return undefined
  const value = fullValue(n)
  if (typeof value === 'number') return { lo: value, hi: value }
  const args = n.inputs.map((x) => rangeOf(x, steps - 1))
  const known = args.filter((r) => r !== undefined)
  if (known.length < args.length) return undefined
  if (movesElements(n)) return known[0]
  return isScalarOp(n.op) && n.op !== 'select' ? rangeThrough(n.op, known) : undefined
}

/** Whether an operand is computed in 32 bits, and fits 16. */
function isShort(x: Node): boolean {
  if (x.dtype !== 'i32' || x.op === 'cast' || !isScalarOp(x.op)) return false
  return fits16(rangeOf(x))
}

export const shortIntegerRules: readonly Rule[] = [
  rule(
    'contract',
    'exact',
    'contract-of-short-integers',
    'contract(x, y) -> contract(i32(i16(x)), y), where the i32 that x computes fit 16 bits',
    (node) => {
      if (node.dtype !== 'i32' || !node.inputs.some(isShort)) return undefined
      const through = (x: Node): Node =>
        isShort(x) ? makeNode('cast', [makeNode('cast', [x], { dtype: 'i16' })], { dtype: 'i32' }) : x
      return makeNode('contract', node.inputs.map(through), node.attrs)
    },
  ),
]
