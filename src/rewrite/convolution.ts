/**
 * Scales folded into literal operands of contractions: batch normalisation after a convolution (or a matrix product) by
 * constant weights becomes other weights. Inexact: each product rounds elsewhere.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { overElements } from '../host/engine.ts'
import { hostArray } from '../types/host.ts'
import { rowMajorStrides, type Shape, sizeOf } from '../types/shape.ts'
import { coreAxes, isFoldable, isPlainBroadcast, range, reshapeTo } from './facts.ts'
import { type RewriteContext, type Rule, rule } from './rule.ts'

/** A literal scale of a contraction's result: `values` along the result's axes `axes`. */
interface Scale {
  readonly values: Float32Array | Float64Array
  readonly shape: Shape
  readonly axes: readonly number[]
}

/** The scale a literal that varies along some axes is. */
function scaleOf(n: Node): Scale | undefined {
  const leaf = isPlainBroadcast(n) ? n.inputs[0] : n
  if (leaf?.op !== 'constant') return undefined
  const { data } = leaf.attrs
  if (!(data instanceof Float32Array || data instanceof Float64Array)) return undefined
  return { values: data, shape: leaf.shape, axes: n.op === 'broadcast' ? n.attrs.dims : range(n.shape.length) }
}

/**
 * For a reshape, the axes of the source (longer than 1) that make up each axis of the result, where they line up;
 * undefined for an axis whose elements do not fall together.
 */
function axisGroups(from: Shape, to: Shape): (readonly number[] | undefined)[] {
  const groups: (readonly number[] | undefined)[] = to.map((d) => (d === 1 ? [] : undefined))
  const sources = coreAxes(from)
  const targets = coreAxes(to)
  let i = 0
  let j = 0
  while (i < sources.length && j < targets.length) {
    const first = i
    const [target, before] = [targets[j], j]
    let left = from[sources[i++] ?? 0] ?? 1
    let right = to[targets[j++] ?? 0] ?? 1
    while (left !== right && (left < right ? i < sources.length : j < targets.length)) {
      if (left < right) left *= from[sources[i++] ?? 0] ?? 1
      else right *= to[targets[j++] ?? 0] ?? 1
    }
    if (left === right && j === before + 1 && target !== undefined) groups[target] = sources.slice(first, i)
  }
  return groups
}

/** The scale in terms of what a reshape reads. */
function beforeReshape(s: Scale, from: Shape, to: Shape): Scale | undefined {
  const groups = axisGroups(from, to)
  const axes: number[] = []
  for (const a of s.axes) {
    const group = groups[a]
    if (group === undefined) return undefined
    axes.push(...group)
  }
  return { values: s.values, axes, shape: axes.map((a) => from[a] ?? 1) }
}

type Floats = Float32Array | Float64Array

/** Elements [from, end) times a factor. */
function scaleRun(data: Floats, factor: number, out: Floats, from: number, end: number): void {
  for (let i = from; i < end; i++) out[i] = (data[i] ?? 0) * factor
}

/** A literal times a scale along some of its axes. */
function scaleLiteral(w: NodeOf<'constant'>, scale: Scale, axisOf: (scaleAxis: number) => number): Node | undefined {
  const { data, dtype, shape } = w.attrs
  if (!(data instanceof Float32Array || data instanceof Float64Array)) return undefined
  const out = hostArray(dtype, data.length)
  if (!(out instanceof Float32Array || out instanceof Float64Array)) return undefined
  const strides = shape.map(() => 0)
  const own = rowMajorStrides(scale.shape)
  scale.axes.forEach((a, i) => {
    strides[axisOf(a)] = own[i] ?? 0
  })
  // The last axes that no scale varies along are one run of elements.
  const last = strides.findLastIndex((s) => s !== 0)
  const run = sizeOf(shape.slice(last + 1))
  const at = shape.map(() => 0)
  let from = 0
  for (let i = 0; i < data.length; i += run) {
    scaleRun(data, scale.values[from] ?? 0, out, i, i + run)
    for (let d = last; d >= 0; d--) {
      const next = (at[d] ?? 0) + 1
      from += strides[d] ?? 0
      if (next < (shape[d] ?? 1)) {
        at[d] = next
        break
      }
      from -= (strides[d] ?? 0) * next
      at[d] = 0
    }
  }
  return makeNode('constant', [], { data: out, dtype, shape })
}

/** What stands between a scale and its contraction. */
interface Found {
  readonly contraction: NodeOf<'contract'>
  readonly reshaped: Shape | undefined
}

/** A contraction, perhaps reshaped, that nobody else reads. */
function contractionUnder(n: Node, context: RewriteContext): Found | undefined {
  if (n.op === 'contract') return context.hasOneUse(n) ? { contraction: n, reshaped: undefined } : undefined
  const [x] = n.inputs
  if (n.op !== 'reshape' || x?.op !== 'contract') return undefined
  return context.hasOneUse(n) && context.hasOneUse(x) ? { contraction: x, reshaped: n.shape } : undefined
}

/** contract(x, W) * s as contract(x, W * s). */
function scaleWeights(y: Node, s: Node, context: RewriteContext): Node | undefined {
  const outer = scaleOf(s)
  const found = outer === undefined ? undefined : contractionUnder(y, context)
  if (found === undefined || outer === undefined) return undefined
  const { contraction, reshaped } = found
  const scale = reshaped === undefined ? outer : beforeReshape(outer, contraction.shape, reshaped)
  if (scale === undefined) return undefined
  const { lhs, rhs, out } = contraction.attrs
  const [a, b] = contraction.inputs
  if (a === undefined || b === undefined) return undefined
  const sides = [
    { weights: b, labels: rhs, build: (w: Node) => [a, w] },
    { weights: a, labels: lhs, build: (w: Node) => [w, b] },
  ]
  for (const { weights, labels, build } of sides) {
    const places = scale.axes.map((axis) => labels.indexOf(out[axis] ?? ''))
    if (places.some((p) => p < 0)) continue
    if (weights.op !== 'constant') continue
    const place = new Map(scale.axes.map((axis, i) => [axis, places[i] ?? 0]))
    const scaled = overElements(() => scaleLiteral(weights, scale, (axis) => place.get(axis) ?? 0))
    if (scaled === undefined) continue
    const result = inOrigin(contraction.origin, () => makeNode('contract', build(scaled), contraction.attrs))
    return reshaped === undefined ? result : inOrigin(y.origin, () => reshapeTo(result, reshaped))
  }
  return undefined
}

export const convolutionRules: readonly Rule[] = [
  rule(
    'mul',
    'fast',
    'scale-into-weights',
    'mul(contract(x, W), s) by literals, s along axes of W -> contract(x, W * s)',
    ({ inputs: [y, s] }, context) => (y === undefined || s === undefined ? undefined : scaleWeights(y, s, context)),
  ),
  rule(
    'mul',
    'fast',
    'scale-past-shift',
    'mul(add(contract(x, W), t), s) by literals -> add(contract(x, W * s), t * s)',
    ({ inputs: [y, s] }, context) => {
      if (y?.op !== 'add' || s === undefined || scaleOf(s) === undefined) return undefined
      const [x, t] = y.inputs
      if (x === undefined || t === undefined || !isFoldable(t) || !context.hasOneUse(y)) return undefined
      const scaled = scaleWeights(x, s, context)
      return scaled === undefined ? undefined : makeNode('add', [scaled, makeNode('mul', [t, s], {})], {})
    },
  ),
]
