/** Transpose rules of views. A permutation of a contraction's result is the contraction with its labels in the other order. */
import { sum } from '../../compose/reduce.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { operand } from '../rule.ts'
import { sliceOne } from '../shift.ts'
import type { TransposeRules } from './rule.ts'
import { transposeWindow } from './window.ts'

/** Axes in another order; a contraction writes them so at once. */
export function permuteTo(x: Node, perm: readonly number[]): Node {
  if (perm.every((p, i) => p === i)) return x
  if (x.op !== 'contract') return makeNode('permute', [x], { perm })
  const out = perm.map((p) => x.attrs.out[p] ?? '').join('')
  return makeNode('contract', x.inputs, { ...x.attrs, out })
}

/** Sums over the repeated axes, the rest in the order of the input. */
function transposeBroadcast(node: NodeOf<'broadcast'>, ct: Node): Node {
  const { shape, dims } = node.attrs
  const source = operand(node, 0)
  const kept = dims.filter((d, i) => source.shape[i] === shape[d])
  const axes = shape.map((_, i) => i).filter((i) => !kept.includes(i))
  const total = sum(ct, axes)
  const ascending = [...kept].sort((a, b) => a - b)
  return reshape(
    permuteTo(
      total,
      kept.map((d) => ascending.indexOf(d)),
    ),
    source.shape,
  )
}

/** Elements back at their places, zeros between and around. */
function transposeSlice(node: NodeOf<'slice'>, ct: Node): Node {
  const source = operand(node, 0)
  const { start, step } = node.attrs
  const span = ct.shape.map((m, i) => (m - 1) * (step[i] ?? 1) + 1)
  return makeNode('pad', [ct], {
    low: start,
    high: source.shape.map((n, i) => n - (start[i] ?? 0) - (span[i] ?? 0)),
    interior: step.map((s) => s - 1),
    value: 0,
  })
}

function transposePad(node: NodeOf<'pad'>, ct: Node): Node {
  const source = operand(node, 0)
  const { low, interior } = node.attrs
  const step = interior.map((g) => g + 1)
  return makeNode('slice', [ct], {
    start: low,
    limit: source.shape.map((n, i) => (low[i] ?? 0) + (n - 1) * (step[i] ?? 1) + 1),
    step,
  })
}

export const viewTranspose: TransposeRules<
  'reshape' | 'permute' | 'broadcast' | 'slice' | 'flip' | 'pad' | 'concat' | 'window'
> = {
  reshape: ({ node, cotangent, give }) => give(operand(node, 0), reshape(cotangent, operand(node, 0).shape)),
  permute: ({ node, cotangent, give }) => {
    const inverse = node.attrs.perm.map((_, i) => node.attrs.perm.indexOf(i))
    give(operand(node, 0), permuteTo(cotangent, inverse))
  },
  broadcast: ({ node, cotangent, give }) => give(operand(node, 0), transposeBroadcast(node, cotangent)),
  slice: ({ node, cotangent, give }) => give(operand(node, 0), transposeSlice(node, cotangent)),
  flip: ({ node, cotangent, give }) => give(operand(node, 0), makeNode('flip', [cotangent], node.attrs)),
  pad: ({ node, cotangent, give }) => give(operand(node, 0), transposePad(node, cotangent)),
  concat: ({ node, cotangent, give, isLinear }) => {
    const { axis } = node.attrs
    let from = 0
    for (const x of node.inputs) {
      const to = from + (x.shape[axis] ?? 0)
      if (isLinear(x) && to > from) give(x, sliceOne(cotangent, axis, from, to))
      from = to
    }
  },
  window: ({ node, cotangent, give }) => give(operand(node, 0), transposeWindow(node, cotangent)),
}
