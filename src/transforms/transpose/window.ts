/**
 * Transposing sliding windows: element i collects the cotangents of all (o, k) with o*stride + k*dilation = i. All forms are
 * views and sums, so that the planner sees through them.
 */
import { add } from '../../compose/elementwise.ts'
import { sum } from '../../compose/reduce.ts'
import { reshape } from '../../compose/views.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { operand } from '../rule.ts'
import { padAxis, sliceOne } from '../shift.ts'

/** Windows with more taps than this sum in one reduction instead of a chain of additions. */
const mostTaps = 16

const replaced = (shape: readonly number[], axis: number, by: readonly number[], count = 1): number[] => [
  ...shape.slice(0, axis),
  ...by,
  ...shape.slice(axis + count),
]

/** One axis cut or filled up with zeros to an extent. */
function fitAxis(x: Node, axis: number, extent: number): Node {
  const n = x.shape[axis] ?? 0
  return n > extent ? sliceOne(x, axis, 0, extent) : padAxis(x, axis, { low: 0, high: extent - n })
}

/** Windows side by side: rows of `stride` elements, one after the other. */
function disjoint(ct: Node, axis: number, stride: number, n: number): Node {
  const rows = fitAxis(ct, axis + 1, stride)
  const count = (ct.shape[axis] ?? 0) * stride
  return fitAxis(reshape(rows, replaced(ct.shape, axis, [count], 2)), axis, n)
}

/** A sum over the taps of each tap's cotangents spread by the stride and shifted by the tap. */
function byTaps(ct: Node, { axis, size, stride, dilation }: NodeOf<'window'>['attrs'], n: number): Node {
  const count = ct.shape[axis] ?? 0
  const span = (count - 1) * stride + 1
  let total: Node | undefined
  for (let k = 0; k < size; k++) {
    const tap = reshape(sliceOne(ct, axis + 1, k, k + 1), replaced(ct.shape, axis, [count], 2))
    const low = k * dilation
    const part = padAxis(tap, axis, { low, high: n - low - span, interior: stride - 1 })
    total = total === undefined ? part : add(total, part)
  }
  invariant(total !== undefined, 'a window without taps')
  return total
}

/**
 * The same sum as one reduction: rows of taps [k, o], each filled up to n + dilation elements and read again as rows of n,
 * stand shifted by k * dilation.
 */
function bySkew(ct: Node, { axis, size, stride, dilation }: NodeOf<'window'>['attrs'], n: number): Node {
  const rank = ct.shape.length
  const perm = Array.from({ length: rank }, (_, i) => (i === axis ? axis + 1 : i === axis + 1 ? axis : i))
  const rows = makeNode('permute', [ct], { perm })
  const span = ((ct.shape[axis] ?? 0) - 1) * stride + 1
  const wide = padAxis(rows, axis + 1, { low: 0, high: n + dilation - span, interior: stride - 1 })
  const flat = reshape(wide, replaced(ct.shape, axis, [size * (n + dilation)], 2))
  const skewed = reshape(sliceOne(flat, axis, 0, size * n), replaced(ct.shape, axis, [size, n], 2))
  return sum(skewed, [axis])
}

/** The cotangent of a window's input. */
export function transposeWindow(node: NodeOf<'window'>, ct: Node): Node {
  const { axis, size, stride, dilation } = node.attrs
  const n = operand(node, 0).shape[axis] ?? 0
  if (dilation === 1 && size <= stride) return disjoint(ct, axis, stride, n)
  return size <= mostTaps ? byTaps(ct, node.attrs, n) : bySkew(ct, node.attrs, n)
}

/**
 * What a transposed convolution slides over: cotangents of window positions spread by the stride, with room on both sides,
 * so that windows of stride 1 over them have one position for each element of the windows' input, taps in reverse order.
 */
export function windowsOfPositions(
  positions: Node,
  axis: number,
  { size, stride, dilation }: NodeOf<'window'>['attrs'],
  n: number,
): Node {
  const reach = (size - 1) * dilation
  const span = ((positions.shape[axis] ?? 0) - 1) * stride + 1
  const room = padAxis(positions, axis, { low: reach, high: n - span, interior: stride - 1 })
  return makeNode('window', [room], { axis, size, stride: 1, dilation })
}
