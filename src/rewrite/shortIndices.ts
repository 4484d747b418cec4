/**
 * Indices of 64 bits, which imported models have everywhere, are of 32 bits before they are counted from the end and held to their axis: vectors do half of the
 * work. An index beyond 32 bits is the least or the greatest of i32 then, which no axis has either.
 */
import { makeNode } from '../graph/build.ts'
import type { IndexSource, Node, NodeOf } from '../graph/node.ts'
import { withInputs } from '../graph/traverse.ts'
import type { Shape } from '../types/shape.ts'
import { fullOf, fullValue, movesElements } from './facts.ts'
import { saturated } from './positions.ts'
import { type RewriteContext, type Rule, rule } from './rule.ts'

/** Operations that are followed up from an index: more are not looked at. */
const mostSteps = 12

/** Axes have fewer elements, so that no place along one is the greatest i32. */
const mostElements = 2 ** 31 - 1

/** `x` and `n` of `x < 0 ? x + n : x`. */
function fromEnd(node: Node): { readonly x: Node; readonly n: Node } | undefined {
  if (node.op !== 'select') return undefined
  const [isNegative, moved, x] = node.inputs
  const [y, zero] = isNegative?.op === 'lt' ? isNegative.inputs : []
  const [z, n] = moved?.op === 'add' ? moved.inputs : []
  if (x === undefined || n === undefined || y !== x || z !== x) return undefined
  return zero !== undefined && Number(fullValue(zero)) === 0 ? { x, n } : undefined
}

/** Whether a literal is from 0 to the greatest i32, whatever it is at other extents. */
function isExtent(n: Node, { generic }: RewriteContext): boolean {
  const value = Number(fullValue(n) ?? -1)
  const { lo, hi } = generic?.numbers.get(value) ?? { lo: value, hi: value }
  return lo >= 0 && hi <= mostElements
}

/** An index in i32: negative where it was, at least the greatest i32 where it was, between them the same. So are the larger and the smaller of two, and a choice. */
function shortIndex(node: Node, context: RewriteContext, steps = mostSteps): Node | undefined {
  if (node.dtype !== 'i64') return undefined
  const counted = fromEnd(node)
  if (counted !== undefined && isExtent(counted.n, context)) {
    const x = saturated(counted.x)
    if (x === undefined) return undefined
    const literal = (value: number): Node => fullOf(x.shape, 'i32', value)
    const moved = makeNode('add', [x, literal(Number(fullValue(counted.n)))], {})
    return makeNode('select', [makeNode('lt', [x, literal(0)], {}), moved, x], {})
  }
  const isChoice = node.op === 'select' || node.op === 'max' || node.op === 'min'
  if (steps === 0 || !(isChoice || movesElements(node))) return saturated(node)
  const inputs: Node[] = []
  for (const x of node.inputs) {
    const short = x.dtype === 'bool' ? x : shortIndex(x, context, steps - 1)
    if (short === undefined) return undefined
    inputs.push(short)
  }
  return withInputs(node, inputs)
}

/** The node with its indices in i32; undefined where none changes. `first` inputs stand before them. */
function withShortIndices(
  node: NodeOf<'gather'> | NodeOf<'scatter'>,
  first: number,
  extents: Shape,
  sources: readonly IndexSource[],
  context: RewriteContext,
): Node | undefined {
  let isChanged = false
  const inputs = node.inputs.map((x, i) => {
    const fits = sources.every((s, d) => !('input' in s) || s.input !== i - first || (extents[d] ?? 0) <= mostElements)
    const short = i >= first && fits ? shortIndex(x, context) : undefined
    isChanged ||= short !== undefined
    return short ?? x
  })
  return isChanged ? withInputs(node, inputs) : undefined
}

const said = 'whose indices are i64 -> with indices in i32, those beyond it at its ends'

export const shortIndexRules: readonly Rule[] = [
  rule('gather', 'exact', 'gather-at-short-indices', `gather ${said}`, (node, context) =>
    withShortIndices(node, 1, node.inputs[0]?.shape ?? [], node.attrs.sources, context),
  ),
  rule('scatter', 'exact', 'scatter-at-short-indices', `scatter ${said}`, (node, context) =>
    withShortIndices(node, 2, node.shape, node.attrs.sources, context),
  ),
]
