/** Batching rules of views, indexing, folds and contractions: the op itself with its axes moved past the batch. */
import { invariant } from '../../diagnostics/errors.ts'
import { makeNode } from '../../graph/build.ts'
import type { IndexSource, Node } from '../../graph/node.ts'
import { operand } from '../rule.ts'
import { allBatched, repeatBatch } from './operand.ts'
import type { BatchRules } from './rule.ts'

const past = (axes: readonly number[]): number[] => axes.map((a) => a + 1)

const moveSource = (s: IndexSource): IndexSource => ('axis' in s ? { axis: s.axis + 1 } : s)

export const viewBatching: BatchRules<
  'reshape' | 'permute' | 'broadcast' | 'slice' | 'flip' | 'pad' | 'concat' | 'window'
> = {
  reshape: ({ node, inputs, size }) => makeNode('reshape', inputs, { shape: [size, ...node.attrs.shape] }),
  permute: ({ node, inputs }) => makeNode('permute', inputs, { perm: [0, ...past(node.attrs.perm)] }),
  broadcast: ({ node, inputs, size }) =>
    makeNode('broadcast', inputs, { shape: [size, ...node.attrs.shape], dims: [0, ...past(node.attrs.dims)] }),
  slice: ({ node, inputs, size }) => {
    const { start, limit, step } = node.attrs
    return makeNode('slice', inputs, { start: [0, ...start], limit: [size, ...limit], step: [1, ...step] })
  },
  flip: ({ node, inputs }) => makeNode('flip', inputs, { axes: past(node.attrs.axes) }),
  pad: ({ node, inputs }) => {
    const { low, high, interior, value } = node.attrs
    return makeNode('pad', inputs, { low: [0, ...low], high: [0, ...high], interior: [0, ...interior], value })
  },
  concat: (b) => makeNode('concat', allBatched(b), { axis: b.node.attrs.axis + 1 }),
  window: ({ node, inputs }) => makeNode('window', inputs, { ...node.attrs, axis: node.attrs.axis + 1 }),
}

export const indexingBatching: BatchRules<'gather' | 'scatter'> = {
  gather: ({ node, inputs, batched, size }) => {
    const indices = inputs.slice(1).map((x, i) => (batched[i + 1] === true ? x : repeatBatch(x, size)))
    const moved = node.attrs.sources.map(moveSource)
    const sources = batched[0] === true ? [{ axis: 0 }, ...moved] : moved
    return makeNode('gather', [operand({ op: 'gather', inputs }, 0), ...indices], {
      shape: [size, ...node.attrs.shape],
      sources,
    })
  },
  scatter: (b) =>
    makeNode('scatter', allBatched(b), {
      ...b.node.attrs,
      sources: [{ axis: 0 }, ...b.node.attrs.sources.map(moveSource)],
    }),
}

export const foldBatching: BatchRules<'reduce' | 'scan'> = {
  reduce: ({ node, inputs }) => makeNode('reduce', inputs, { ...node.attrs, axes: past(node.attrs.axes) }),
  scan: ({ node, inputs }) => makeNode('scan', inputs, { ...node.attrs, axis: node.attrs.axis + 1 }),
}

/** A label none of the others is. */
function freshLabel(used: string): string {
  for (const l of 'zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA') if (!used.includes(l)) return l
  let code = 0x100
  while (used.includes(String.fromCharCode(code))) code++
  return String.fromCharCode(code)
}

export const contractionBatching: BatchRules<'contract'> = {
  contract: ({ node, inputs, batched }): Node => {
    const { lhs, rhs, out } = node.attrs
    const label = freshLabel(lhs + rhs)
    invariant(batched.includes(true), 'a batch of nothing')
    return makeNode('contract', inputs, {
      ...node.attrs,
      lhs: batched[0] === true ? label + lhs : lhs,
      rhs: batched[1] === true ? label + rhs : rhs,
      out: label + out,
    })
  },
}
