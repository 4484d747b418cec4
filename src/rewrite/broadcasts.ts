/**
 * Broadcasts in one form (the operand has no axes of extent 1, its axes ascend in the result) and as late as they can be:
 * work on a repeated value is done once, before it is repeated.
 */
import { makeNode } from '../graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../graph/node.ts'
import { type ScalarOp, scalarOps } from '../scalar/ops.ts'
import { type Shape, sameShape } from '../types/shape.ts'
import {
  broadcastAlong,
  coreAxes,
  coreAxisMap,
  coreShape,
  isPlainBroadcast,
  isUnitReshape,
  mayTakeLess,
  permuteTo,
  range,
  reshapeTo,
} from './facts.ts'
import { type Rule, rule, ruleOn } from './rule.ts'

const elementwise = Object.keys(scalarOps) as readonly ScalarOp[]

const isAscending = (v: readonly number[]): boolean => v.every((d, i) => i === 0 || d > (v[i - 1] ?? 0))

const forms: readonly Rule[] = [
  rule(
    'broadcast',
    'exact',
    'broadcast-squeeze',
    'axes of extent 1 leave the operand',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined || !x.shape.includes(1)) return undefined
      const core = coreAxes(x.shape)
      const dims = core.map((i) => attrs.dims[i] ?? 0)
      return broadcastAlong(reshapeTo(x, coreShape(x.shape)), shape, dims)
    },
  ),
  rule('broadcast', 'exact', 'broadcast-identity', 'a broadcast that repeats nothing -> reshape', (node) => {
    const [x] = node.inputs
    if (x === undefined || !isPlainBroadcast(node) || !isAscending(node.attrs.dims)) return undefined
    return sameShape(coreShape(x.shape), coreShape(node.shape)) ? reshapeTo(x, node.shape) : undefined
  }),
  rule(
    'broadcast',
    'exact',
    'broadcast-broadcast',
    'broadcast(broadcast(x)) -> broadcast(x)',
    ({ inputs: [x], attrs, shape }) => {
      const y = x?.op === 'broadcast' ? x.inputs[0] : undefined
      if (x?.op !== 'broadcast' || y === undefined) return undefined
      const dims = x.attrs.dims.map((d) => attrs.dims[d] ?? 0)
      return broadcastAlong(y, shape, dims)
    },
  ),
  rule(
    'broadcast',
    'exact',
    'broadcast-ascending',
    'broadcast(x) that also reorders axes -> broadcast(permute(x))',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined || isAscending(attrs.dims)) return undefined
      const perm = range(attrs.dims.length).sort((a, b) => (attrs.dims[a] ?? 0) - (attrs.dims[b] ?? 0))
      return broadcastAlong(
        permuteTo(x, perm),
        shape,
        perm.map((p) => attrs.dims[p] ?? 0),
      )
    },
  ),
]

const underViews: readonly Rule[] = [
  rule(
    'reshape',
    'exact',
    'unit-reshape-of-broadcast',
    'reshape(broadcast(x)) that adds or drops axes of extent 1 -> broadcast(x)',
    (node) => {
      const [x] = node.inputs
      const y = x?.inputs[0]
      if (x === undefined || y === undefined || !isPlainBroadcast(x) || !isUnitReshape(node)) return undefined
      if (y.shape.includes(1)) return undefined
      const to = coreAxisMap(x.shape, node.shape)
      return broadcastAlong(
        y,
        node.shape,
        x.attrs.dims.map((d) => to[d] ?? 0),
      )
    },
  ),
  rule(
    'permute',
    'exact',
    'permute-of-broadcast',
    'permute(broadcast(x)) -> broadcast(x)',
    ({ inputs: [x], attrs, shape }) => {
      const y = x?.op === 'broadcast' ? x.inputs[0] : undefined
      if (x?.op !== 'broadcast' || y === undefined) return undefined
      return broadcastAlong(
        y,
        shape,
        x.attrs.dims.map((d) => attrs.perm.indexOf(d)),
      )
    },
  ),
  rule(
    'slice',
    'exact',
    'slice-of-broadcast',
    'slice(broadcast(x)) -> broadcast(slice(x))',
    ({ inputs: [x], attrs, shape }, context) => {
      const y = x?.inputs[0]
      if (x === undefined || y === undefined || !isPlainBroadcast(x)) return undefined
      const { dims } = x.attrs
      const pick = (v: readonly number[]): number[] => dims.map((d) => v[d] ?? 0)
      const start = pick(attrs.start)
      const limit = pick(attrs.limit)
      const step = pick(attrs.step)
      const whole = y.shape.every((n, i) => start[i] === 0 && limit[i] === n && step[i] === 1)
      return broadcastAlong(
        whole && !mayTakeLess(y.shape, context) ? y : makeNode('slice', [y], { start, limit, step }),
        shape,
        dims,
      )
    },
  ),
  rule(
    'flip',
    'exact',
    'flip-of-broadcast',
    'flip(broadcast(x)) -> broadcast(flip(x))',
    ({ inputs: [x], attrs, shape }) => {
      const y = x?.inputs[0]
      if (x === undefined || y === undefined || !isPlainBroadcast(x)) return undefined
      const { dims } = x.attrs
      const axes = range(dims.length).filter((i) => attrs.axes.includes(dims[i] ?? -1))
      return broadcastAlong(axes.length === 0 ? y : makeNode('flip', [y], { axes }), shape, dims)
    },
  ),
]

/** The one broadcast pattern that all operands share, repeated literals aside. */
function commonBroadcast(node: Node): { readonly inner: Shape; readonly dims: readonly number[] } | undefined {
  let found: { readonly inner: Shape; readonly dims: readonly number[] } | undefined
  for (const x of node.inputs) {
    if (x.op === 'full') continue
    const inner = x.inputs[0]?.shape
    if (x.op !== 'broadcast' || inner === undefined) return undefined
    if (found === undefined) found = { inner, dims: x.attrs.dims }
    else if (!sameShape(found.inner, inner) || !sameShape(found.dims, x.attrs.dims)) return undefined
  }
  return found
}

/**
 * The source shape that operands were reshaped from by adding or dropping axes of extent 1; literals and broadcasts fit
 * any such shape.
 */
function commonUnitReshape(node: Node): Shape | undefined {
  let found: Shape | undefined
  for (const x of node.inputs) {
    const inner = x.inputs[0]?.shape
    if (x.op === 'full' || (isPlainBroadcast(x) && inner?.includes(1) === false)) continue
    if (inner === undefined || !isUnitReshape(x)) return undefined
    if (found === undefined) found = inner
    else if (!sameShape(found, inner)) return undefined
  }
  return found
}

const onInputs = (node: Node, inputs: readonly Node[]): Node =>
  makeNode<OpName>(node.op, inputs, node.attrs as AttrsByOp[OpName]) as Node

/** An operand in a shape that differs from its own in axes of extent 1. */
function inShape(x: Node, shape: Shape): Node {
  const [source] = x.inputs
  if (x.op === 'full') return makeNode('full', [], { ...x.attrs, shape })
  if (source === undefined || !isPlainBroadcast(x)) return source ?? x
  const to = coreAxisMap(x.shape, shape)
  return broadcastAlong(
    source,
    shape,
    x.attrs.dims.map((d) => to[d] ?? 0),
  )
}

const past: readonly Rule[] = [
  ruleOn(
    elementwise,
    'exact',
    'broadcast-past-elementwise',
    'f(broadcast(x), broadcast(y)) with one pattern -> broadcast(f(x, y))',
    (node) => {
      const common = commonBroadcast(node)
      if (common === undefined) return undefined
      const { inner, dims } = common
      const inputs = node.inputs.map((x) => (x.op === 'full' ? inShape(x, inner) : (x.inputs[0] ?? x)))
      return broadcastAlong(onInputs(node, inputs), node.shape, dims)
    },
  ),
  ruleOn(
    elementwise,
    'exact',
    'unit-reshape-past-elementwise',
    'f(reshape(x), reshape(y)) where the reshapes only add or drop axes of extent 1 -> reshape(f(x, y))',
    (node) => {
      const inner = commonUnitReshape(node)
      if (inner === undefined) return undefined
      const inputs = node.inputs.map((x) => inShape(x, inner))
      return reshapeTo(onInputs(node, inputs), node.shape)
    },
  ),
]

const reciprocals: readonly Rule[] = [
  rule(
    'div',
    'fast',
    'div-by-broadcast',
    'div(x, broadcast(y)) -> mul(x, broadcast(1 / y)): one division for each value of y',
    ({ inputs: [x, y], dtype, shape }) => {
      const z = y?.inputs[0]
      if (x === undefined || y?.op !== 'broadcast' || z === undefined || (dtype !== 'f32' && dtype !== 'f64'))
        return undefined
      const one = makeNode('full', [], { value: 1, dtype, shape: z.shape })
      return makeNode('mul', [x, broadcastAlong(makeNode('div', [one, z], {}), shape, y.attrs.dims)], {})
    },
  ),
]

/** Tried before literals fold, so that a repeated literal stays small. */
export const pastRules: readonly Rule[] = past
export const broadcastRules: readonly Rule[] = [...forms, ...underViews, ...reciprocals]
