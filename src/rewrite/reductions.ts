/** Reductions: axes that need no folding, reductions of views, reductions of reductions. */
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { evalScalar, roundTo } from '../scalar/eval.ts'
import { type Combiner, combinerIdentity, isArgCombiner } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { type Shape, sizeOf } from '../types/shape.ts'
import {
  broadcastAlong,
  coreAxisMap,
  fullOf,
  isPlainBroadcast,
  isUnitReshape,
  permuteTo,
  range,
  reshapeTo,
} from './facts.ts'
import { type Rule, rule } from './rule.ts'

type Reduce = NodeOf<'reduce'>

/** Folding in another grouping or order gives the same bits. */
const reassociates = (c: Combiner, dtype: DType): boolean =>
  !isFloat(dtype) || c === 'max' || c === 'min' || isArgCombiner(c)

/** The same reduction of another tensor over other axes; over none, what folding one element gives. */
function reduceOver(node: Reduce, x: Node, axes: readonly number[]): Node {
  if (axes.length > 0) return makeNode('reduce', [x], { ...node.attrs, axes })
  // A float sum starts from +0, and +0 + -0 is +0.
  if (node.attrs.combiner === 'sum' && isFloat(x.dtype)) return makeNode('add', [x, fullOf(x.shape, x.dtype, 0)], {})
  return x
}

const extents = (shape: Shape, axes: readonly number[]): number => axes.reduce((n, a) => n * (shape[a] ?? 1), 1)

const trivial: readonly Rule[] = [
  rule(
    'reduce',
    'exact',
    'reduce-empty',
    'a reduction of no elements is its identity',
    ({ inputs: [x], attrs, shape, dtype }) => {
      const { combiner } = attrs
      if (x === undefined || isArgCombiner(combiner) || sizeOf(x.shape) > 0) return undefined
      return makeNode('full', [], { shape, dtype, value: combinerIdentity(combiner, dtype) })
    },
  ),
  rule('reduce', 'exact', 'reduce-units', 'axes of extent 1 need no folding', (node) => {
    const [x] = node.inputs
    const { axes, combiner } = node.attrs
    if (x === undefined) return undefined
    const units = axes.filter((a) => x.shape[a] === 1)
    if (units.length === 0 && axes.length > 0) return undefined
    if (isArgCombiner(combiner)) return fullOf(node.shape, node.dtype, 0)
    const kept = range(x.shape.length).filter((i) => !units.includes(i))
    const squeezed = reshapeTo(
      x,
      kept.map((i) => x.shape[i] ?? 1),
    )
    return reduceOver(
      node,
      squeezed,
      axes.filter((a) => !units.includes(a)).map((a) => kept.indexOf(a)),
    )
  }),
  rule('reduce', 'exact', 'reduce-axes-ascending', 'axes in ascending order', ({ inputs: [x], attrs }) => {
    if (x === undefined) return undefined
    if (attrs.axes.every((a, i) => i === 0 || a > (attrs.axes[i - 1] ?? 0))) return undefined
    return makeNode('reduce', [x], { ...attrs, axes: [...attrs.axes].sort((a, b) => a - b) })
  }),
]

/** reduce(broadcast(x)): fold x over the axes it has; `repeated` is how often each value was folded again. */
function reduceBroadcast(node: Reduce): { readonly folded: Node; readonly repeated: number } | undefined {
  const [x] = node.inputs
  const y = x?.inputs[0]
  if (x === undefined || y === undefined || !isPlainBroadcast(x)) return undefined
  const { dims } = x.attrs
  const { axes } = node.attrs
  const fresh = axes.filter((a) => !dims.includes(a))
  const inner = dims.flatMap((d, i) => (axes.includes(d) ? [i] : []))
  const kept = range(x.shape.length).filter((i) => !axes.includes(i))
  if (isArgCombiner(node.attrs.combiner) && fresh.length > 0) {
    const last = (x.shape[fresh[0] ?? 0] ?? 1) - 1
    return { folded: fullOf(node.shape, node.dtype, node.attrs.last === true ? last : 0), repeated: 1 }
  }
  const source = inner.length === 0 && fresh.length > 0 ? y : reduceOver(node, y, inner)
  const left = dims.flatMap((d) => (axes.includes(d) ? [] : [kept.indexOf(d)]))
  return { folded: broadcastAlong(source, node.shape, left), repeated: extents(x.shape, fresh) }
}

const ofBroadcast: readonly Rule[] = [
  rule(
    'reduce',
    'exact',
    'reduce-of-broadcast',
    'reduce(broadcast(x)) -> broadcast(reduce(x)), repeats counted',
    (node) => {
      const { combiner } = node.attrs
      if (combiner === 'prod' || (combiner === 'sum' && isFloat(node.dtype) && !foldsOnlyOwnAxes(node)))
        return undefined
      const r = reduceBroadcast(node)
      if (r === undefined) return undefined
      if (combiner !== 'sum' || r.repeated === 1) return r.folded
      const times = roundTo(node.dtype, r.repeated)
      return makeNode(
        'mul',
        [r.folded, makeNode('full', [], { shape: node.shape, dtype: node.dtype, value: times })],
        {},
      )
    },
  ),
  rule(
    'reduce',
    'fast',
    'sum-of-broadcast',
    'a float sum over repeated values -> the value times the count',
    (node) => {
      if (node.attrs.combiner !== 'sum' || !(node.dtype === 'f32' || node.dtype === 'f64')) return undefined
      const r = reduceBroadcast(node)
      if (r === undefined) return undefined
      return makeNode('mul', [r.folded, fullOf(node.shape, node.dtype, r.repeated)], {})
    },
  ),
]

/** Whether a reduction of a broadcast folds none of the axes that only repeat. */
function foldsOnlyOwnAxes(node: Reduce): boolean {
  const [x] = node.inputs
  return x?.op === 'broadcast' && node.attrs.axes.every((a) => x.attrs.dims.includes(a))
}

/** reduce(permute(x)) as a reduction of x; `ordered` when folded elements keep their order. */
function reducePermuted(node: Reduce): { readonly result: Node; readonly ordered: boolean } | undefined {
  const [x] = node.inputs
  const y = x?.op === 'permute' ? x.inputs[0] : undefined
  if (x?.op !== 'permute' || y === undefined) return undefined
  const { perm } = x.attrs
  const axes = [...node.attrs.axes].sort((a, b) => a - b).map((a) => perm[a] ?? 0)
  const sorted = [...axes].sort((a, b) => a - b)
  // Axis i of the result is axis `to[i]` of y; the new reduction leaves y's axes in their own order.
  const to = perm.filter((_, i) => !node.attrs.axes.includes(i))
  const ascending = [...to].sort((a, b) => a - b)
  const reduced = reduceOver(node, y, sorted)
  return {
    result: permuteTo(
      reduced,
      to.map((t) => ascending.indexOf(t)),
    ),
    ordered: axes.every((a, i) => a === sorted[i]),
  }
}

const ofViews: readonly Rule[] = [
  rule(
    'reduce',
    'exact',
    'reduce-of-permute',
    'reduce(permute(x)) -> permute(reduce(x)), where the order of folding stays',
    (node) => {
      const r = reducePermuted(node)
      if (r === undefined) return undefined
      return r.ordered || reassociates(node.attrs.combiner, node.dtype) ? r.result : undefined
    },
  ),
  rule('reduce', 'fast', 'reduce-of-permute-reordered', 'reduce(permute(x)) -> permute(reduce(x))', (node) => {
    return reducePermuted(node)?.result
  }),
  rule(
    'reduce',
    'exact',
    'reduce-of-unit-reshape',
    'reduce(reshape(x)) that adds or drops axes of extent 1 -> reshape(reduce(x))',
    (node) => {
      const [x] = node.inputs
      const y = x?.inputs[0]
      if (x === undefined || y === undefined || !isUnitReshape(x)) return undefined
      const from = coreAxisMap(x.shape, y.shape)
      const axes = node.attrs.axes.map((a) => from[a] ?? -1)
      return axes.includes(-1) || axes.length === 0 ? undefined : reshapeTo(reduceOver(node, y, axes), node.shape)
    },
  ),
]

/** reduce(reduce(x)) as one reduction, when nobody else reads the inner one. */
function reduceTwice(node: Reduce, hasOneUse: (n: Node) => boolean): Node | undefined {
  const [x] = node.inputs
  const y = x?.op === 'reduce' ? x.inputs[0] : undefined
  if (x?.op !== 'reduce' || y === undefined) return undefined
  const { combiner } = node.attrs
  if (combiner !== x.attrs.combiner || isArgCombiner(combiner) || !hasOneUse(x)) return undefined
  const inner = x.attrs.axes
  const left = range(y.shape.length).filter((i) => !inner.includes(i))
  const axes = [...inner, ...node.attrs.axes.map((a) => left[a] ?? 0)].sort((a, b) => a - b)
  return makeNode('reduce', [y], { ...node.attrs, axes })
}

const nested: readonly Rule[] = [
  rule('reduce', 'exact', 'reduce-of-reduce', 'reduce(reduce(x)) by one combiner -> reduce(x)', (node, context) =>
    reassociates(node.attrs.combiner, node.dtype) ? reduceTwice(node, context.hasOneUse) : undefined,
  ),
  rule('reduce', 'fast', 'reduce-of-reduce-float', 'sum(sum(x)) -> sum(x), prod(prod(x)) -> prod(x)', (node, context) =>
    reduceTwice(node, context.hasOneUse),
  ),
]

const ofLiterals: readonly Rule[] = [
  rule(
    'reduce',
    'exact',
    'extreme-of-full',
    'the largest (least) of one repeated value is that value',
    ({ inputs: [x], attrs, shape, dtype }) => {
      if (x?.op !== 'full' || (attrs.combiner !== 'max' && attrs.combiner !== 'min')) return undefined
      return makeNode('full', [], { shape, dtype, value: x.attrs.value })
    },
  ),
  rule(
    'reduce',
    'exact',
    'sum-of-full',
    'the sum of n equal integers is n times their value',
    ({ inputs: [x], attrs, shape, dtype }) => {
      if (x?.op !== 'full' || attrs.combiner !== 'sum' || isFloat(dtype)) return undefined
      const n = roundTo(dtype, extents(x.shape, attrs.axes))
      return makeNode('full', [], { shape, dtype, value: evalScalar('mul', dtype, dtype, [x.attrs.value, n]) })
    },
  ),
  rule(
    'reduce',
    'fast',
    'sum-of-full-float',
    'the sum of n equal floats is n times their value',
    ({ inputs: [x], attrs, shape, dtype }) => {
      if (x?.op !== 'full' || attrs.combiner !== 'sum' || !isFloat(dtype)) return undefined
      const n = extents(x.shape, attrs.axes)
      return makeNode('full', [], { shape, dtype, value: roundTo(dtype, Number(x.attrs.value) * n) })
    },
  ),
]

export const reductionRules: readonly Rule[] = [...trivial, ...ofLiterals, ...ofBroadcast, ...ofViews, ...nested]
