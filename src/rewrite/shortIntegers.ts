/**
 * Operands of contractions of integers that fit 16 bits pass through 16 bits: what stands in memory between the kernels is half as long,
 * and the product knows what it multiplies (bytes less their zero points, as quantised models have them).
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { opTable } from '../graph/table.ts'
import { withInputs } from '../graph/traverse.ts'
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

/** The value in 16 bits that an operand is made of, seen as the operand sees it: where it is computed in 32 bits, and fits. */
function shortOf(x: Node, steps = mostSteps): Node | undefined {
  const [of] = x.inputs
  if (x.dtype !== 'i32' || x.op === 'cast' || of === undefined || steps === 0) return undefined
  if (movesElements(x)) {
    const short = shortOf(of, steps - 1)
    return short && withInputs(x, [short])
  }
  return isScalarOp(x.op) && fits16(rangeOf(x)) ? makeNode('cast', [x], { dtype: 'i16' }) : undefined
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
