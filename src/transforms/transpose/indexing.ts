/**
 * Transposing gathers and scatters. A gather of one element a row transposes to a comparison with the index, one by a known index that does not
 * descend to sums over runs (`knownRuns.ts`), others to a scatter.
 */
import { compare, where } from '../../compose/elementwise.ts'
import { full, iota, zeros } from '../../compose/source.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { sizeOf } from '../../types/shape.ts'
import { clampPoints, inRange, type Points } from '../points.ts'
import { operand } from '../rule.ts'
import { sumOfRuns } from './knownRuns.ts'
import type { TransposeRules } from './rule.ts'
import { permuteTo } from './views.ts'

/** Points that pick one element of each row along one axis: that axis, and the output axis of each other one. */
function rowwise(points: Points, extents: readonly number[]): { axis: number; order: number[] } | undefined {
  const axis = points.sources.findIndex((s) => 'input' in s)
  const rows = points.sources.flatMap((s, i) => {
    if (!('axis' in s)) return []
    return points.shape[s.axis] === extents[i] ? [s.axis] : [-1]
  })
  const wrong =
    axis < 0 || rows.length !== extents.length - 1 || rows.includes(-1) || new Set(rows).size !== rows.length
  if (wrong) return undefined
  const others = points.shape.map((_, i) => i).filter((i) => !rows.includes(i))
  return others.every((i) => points.shape[i] === 1) ? { axis, order: [...rows, ...others] } : undefined
}

function transposeGather(node: NodeOf<'gather'>, ct: Node): Node {
  const x = operand(node, 0)
  const given = { shape: node.shape, indices: node.inputs.slice(1), sources: node.attrs.sources }
  const row = given.indices.length === 1 ? rowwise(given, x.shape) : undefined
  const runs = row === undefined ? sumOfRuns(given, x, ct) : undefined
  if (runs !== undefined) return runs
  const points = clampPoints(given, x.shape)
  const [only] = points.indices
  if (row === undefined || only === undefined) {
    const target = zeros(x.shape, x.dtype)
    return makeNode('scatter', [target, ct, ...points.indices], { sources: points.sources, combiner: 'sum' })
  }
  const unit = x.shape.map((d, i) => (i === row.axis ? 1 : d))
  const spread = (v: Node): Node =>
    makeNode('broadcast', [reshape(permuteTo(v, row.order), unit)], { shape: x.shape, dims: unit.map((_, i) => i) })
  return where(compare('eq', iota(x.shape, row.axis, only.dtype), spread(only)), spread(ct), 0)
}

/** bool over the updates of a 'set': written, and not written over by a later one. */
function survives(node: NodeOf<'scatter'>): Node {
  const updates = operand(node, 1)
  const indices = node.inputs.slice(2)
  const { sources } = node.attrs
  const own = reshape(iota([sizeOf(updates.shape)], 0), updates.shape)
  const nobody = full(operand(node, 0).shape, own.dtype === 'i64' ? -1n : -1, own.dtype)
  const last = makeNode('scatter', [nobody, own, ...indices], { sources, combiner: 'set' })
  return compare('eq', own, makeNode('gather', [last, ...indices], { shape: updates.shape, sources }))
}

export const indexingTranspose: TransposeRules<'gather' | 'scatter'> = {
  gather: ({ node, cotangent, give }) => give(operand(node, 0), transposeGather(node, cotangent)),
  scatter: ({ node, cotangent, give, isLinear }) => {
    const [x, updates] = [operand(node, 0), operand(node, 1)]
    const indices = node.inputs.slice(2)
    const { sources, combiner } = node.attrs
    if (isLinear(x)) {
      const zero = zeros(updates.shape, updates.dtype)
      give(
        x,
        combiner === 'sum'
          ? cotangent
          : makeNode('scatter', [cotangent, zero, ...indices], { sources, combiner: 'set' }),
      )
    }
    if (!isLinear(updates) || sizeOf(updates.shape) === 0) return
    const read = makeNode('gather', [cotangent, ...indices], { shape: updates.shape, sources })
    const counts = combiner === 'set' ? survives(node) : inRange({ shape: updates.shape, indices, sources }, x.shape)
    give(updates, counts === undefined ? read : where(counts, read, 0))
  },
}
