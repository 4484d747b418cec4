/**
 * Contractions of f32 whose operands are integers of 16 bits times steps (as quantised models write them: DequantizeLinear in front of an operator of floats) are those of the
 * integers, exactly, times the product of the steps. In fast mode, on machines that multiply short integers faster than floats: sums of integers err by
 * nothing, so the result is rounded three times instead of once a term.
 */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { labelExtents } from '../graph/ops/contraction.ts'
import { opTable } from '../graph/table.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import { narrowed, rangeOf } from '../rewrite/shortIntegers.ts'
import { fits16, type Range } from '../scalar/narrow.ts'
import type { Machine } from '../target/machine.ts'
import { type Shape, sizeOf } from '../types/shape.ts'

type Contraction = NodeOf<'contract'>

/** Views between an operand and what is multiplied with a step: more are not looked through. */
const mostViews = 12

/** An operand as integers times a step. */
interface Stepped {
  /** The integers in the fewest bytes, seen as the operand sees them. */
  readonly integers: Node
  readonly range: Range
  /** One element, or a line of them along an axis of the operand; undefined: 1. */
  readonly step: { readonly node: Node; readonly axis: number | undefined } | undefined
}

/** Whether a view only moves, repeats or leaves out elements, or adds zeros. */
const keepsSteps = (n: Node): boolean => {
  if (n.inputs.length !== 1 || opTable[n.op].family !== 'view') return false
  return n.op !== 'pad' || n.attrs.value === 0
}

/** What a node repeats: one element, or a line of them along an axis. */
function repeated(n: Node): Stepped['step'] {
  const [of] = n.inputs
  if (n.op === 'full') return { node: makeNode('full', [], { ...n.attrs, shape: [] }), axis: undefined }
  if (n.op !== 'broadcast' || of === undefined) return undefined
  if (sizeOf(of.shape) === 1) return { node: reshaped(of, []), axis: undefined }
  const axes = of.shape.flatMap((d, i) => (d === 1 ? [] : [n.attrs.dims[i] ?? 0]))
  const [axis] = axes
  return axes.length === 1 && axis !== undefined ? { node: reshaped(of, [n.shape[axis] ?? 1]), axis } : undefined
}

const reshaped = (x: Node, shape: Shape): Node =>
  x.shape.length === shape.length ? x : makeNode('reshape', [x], { shape })

/** An operand of f32 as integers that 16 bits hold, times a step. */
function stepped(x: Node, views = mostViews): Stepped | undefined {
  const [of, second] = x.inputs
  if (x.dtype !== 'f32') return undefined
  if (of !== undefined && keepsSteps(x)) {
    const inner = views === 0 ? undefined : stepped(of, views - 1)
    if (inner === undefined || inner.step?.axis !== undefined) return undefined
    const { lo, hi } = inner.range
    return {
      ...inner,
      integers: withInputs(x, [inner.integers]),
      range: { lo: Math.min(lo, 0), hi: Math.max(hi, 0) },
    }
  }
  if (x.op === 'mul' && of !== undefined && second !== undefined)
    for (const [integers, factor] of [
      [of, second],
      [second, of],
    ] as const) {
      const range = rangeOf(integers)
      const step = repeated(factor)
      if (range !== undefined && fits16(range) && step !== undefined)
        return { integers: narrowed(integers), range, step }
    }
  const range = x.op === 'full' ? undefined : rangeOf(x)
  return range !== undefined && fits16(range) ? { integers: narrowed(x), range, step: undefined } : undefined
}

const greatest = ({ lo, hi }: Range): number => Math.max(-lo, hi)

/** Whether a contraction multiplies rows by columns, several of each, and no sum of its terms leaves 32 bits. */
function isProduct({ attrs: { lhs, rhs, out }, inputs }: Contraction, a: Stepped, b: Stepped): boolean {
  const [x, y] = inputs
  if (x === undefined || y === undefined) return false
  const extents = labelExtents(lhs, x.shape, rhs, y.shape)
  const size = (labels: readonly string[]): number => labels.reduce((n, l) => n * (extents.get(l) ?? 1), 1)
  const own = (of: string, other: string): number => size([...of].filter((l) => out.includes(l) && !other.includes(l)))
  const depth = size([...extents.keys()].filter((l) => !out.includes(l)))
  return own(lhs, rhs) > 1 && own(rhs, lhs) > 1 && depth * greatest(a.range) * greatest(b.range) < 2 ** 31
}

/** The contraction of the integers times the steps; undefined where operands are none, or their steps vary along what is summed. */
function ofIntegers(node: Contraction): Node | undefined {
  const [x, y] = node.inputs
  if (node.dtype !== 'f32' || x === undefined || y === undefined) return undefined
  const [a, b] = [stepped(x), stepped(y)]
  if (a === undefined || b === undefined || !isProduct(node, a, b)) return undefined
  const { lhs, rhs, out } = node.attrs
  const wide = ({ integers }: Stepped): Node => makeNode('cast', [integers], { dtype: 'i32' })
  const sums = makeNode('contract', [wide(a), wide(b)], { lhs, rhs, out })
  let result: Node = makeNode('cast', [sums], { dtype: 'f32' })
  for (const [{ step }, labels] of [
    [a, lhs],
    [b, rhs],
  ] as const) {
    if (step === undefined) continue
    const dims = step.axis === undefined ? [] : [out.indexOf(labels[step.axis] ?? '')]
    if (dims.includes(-1)) return undefined
    result = makeNode('mul', [result, makeNode('broadcast', [step.node], { shape: node.shape, dims })], {})
  }
  return result
}

const isOfIntegers = (n: Node): boolean => n.op === 'contract' && n.inputs.every((x) => stepped(x) !== undefined)

/** A graph whose contractions of integers times steps are those of the integers, where the machine has a rate for these. */
export function multiplyIntegers(graph: Graph, { matrixRate, integerMatrixRate = 0 }: Machine): Graph {
  if (integerMatrixRate <= matrixRate || !nodesOf(graph).some(isOfIntegers)) return graph
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    return (same.op === 'contract' ? ofIntegers(same) : undefined) ?? same
  })
}
