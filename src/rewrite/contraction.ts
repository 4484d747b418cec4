/**
 * Contractions: views of operands and results folded into the labels, axes that take no part left out, and contractions
 * that sum nothing (or one operand alone) turned into what they are.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { labelExtents } from '../graph/ops/contraction.ts'
import { isFloat } from '../types/dtype.ts'
import { type Shape, sizeOf } from '../types/shape.ts'
import { broadcastAlong, fullOf, isPlainBroadcast, permuteTo, reshapeTo } from './facts.ts'
import { type Rule, rule } from './rule.ts'

type Contract = NodeOf<'contract'>

/** One operand with a label for each axis. */
interface Labelled {
  readonly node: Node
  readonly labels: string
}

const operands = (node: Contract): readonly [Labelled, Labelled] | undefined => {
  const [a, b] = node.inputs
  if (a === undefined || b === undefined) return undefined
  return [
    { node: a, labels: node.attrs.lhs },
    { node: b, labels: node.attrs.rhs },
  ]
}

/** A contraction of other operands, in the precision of this one. */
const contract = ({ attrs }: Contract, a: Labelled, b: Labelled, out: string): Node =>
  makeNode('contract', [a.node, b.node], { ...attrs, lhs: a.labels, rhs: b.labels, out })

/** The labels that are summed, in the order the sum runs. */
export const summedLabels = (lhs: string, rhs: string, out: string): string => {
  const own = [...lhs].filter((l) => !out.includes(l))
  return [...own, ...[...rhs].filter((l) => !out.includes(l) && !lhs.includes(l))].join('')
}

const without = (labels: string, drop: string): string => [...labels].filter((l) => !drop.includes(l)).join('')

/** Replaces operands one by one: `change` gives the operand read through its view, or undefined. */
function changeOperands(
  node: Contract,
  change: (own: Labelled, other: Labelled) => Labelled | undefined,
): { readonly lhs: Labelled; readonly rhs: Labelled } | undefined {
  const pair = operands(node)
  if (pair === undefined) return undefined
  const [a, b] = pair
  const lhs = change(a, b)
  const rhs = change(b, lhs ?? a)
  return lhs === undefined && rhs === undefined ? undefined : { lhs: lhs ?? a, rhs: rhs ?? b }
}

/** An operand read through a permutation. */
function unpermute(x: Labelled): Labelled | undefined {
  const [source] = x.node.inputs
  if (x.node.op !== 'permute' || source === undefined) return undefined
  const labels = new Array<string>(x.labels.length).fill('')
  x.node.attrs.perm.forEach((p, i) => {
    labels[p] = x.labels[i] ?? ''
  })
  return { node: source, labels: labels.join('') }
}

/** The contraction of what its operands permute; `ordered` when the sum runs in the same order. */
function foldPermutes(node: Contract): { readonly result: Node; readonly ordered: boolean } | undefined {
  const to = changeOperands(node, unpermute)
  if (to === undefined) return undefined
  const { lhs, rhs, out } = node.attrs
  return {
    result: contract(node, to.lhs, to.rhs, out),
    ordered: summedLabels(lhs, rhs, out) === summedLabels(to.lhs.labels, to.rhs.labels, out),
  }
}

const permuted: readonly Rule[] = [
  rule(
    'contract',
    'exact',
    'contract-of-permute',
    'contract(permute(x), y) -> contract(x, y) by other labels, where the order of the sum stays',
    (node) => {
      const to = foldPermutes(node)
      if (to === undefined) return undefined
      return to.ordered || !isFloat(node.dtype) ? to.result : undefined
    },
  ),
  rule(
    'contract',
    'fast',
    'contract-of-permute-reordered',
    'contract(permute(x), y) -> contract(x, y) by other labels',
    (node) => {
      return foldPermutes(node)?.result
    },
  ),
  rule(
    'permute',
    'exact',
    'permute-of-contract',
    'permute(contract(x, y)) -> contract(x, y), when nobody else reads it',
    ({ inputs: [x], attrs }, context) => {
      if (x?.op !== 'contract' || !context.hasOneUse(x)) return undefined
      const out = attrs.perm.map((p) => x.attrs.out[p] ?? '').join('')
      return inOrigin(x.origin, () => makeNode('contract', x.inputs, { ...x.attrs, out }))
    },
  ),
]

const labelAt = (i: number): string =>
  i < 26 ? String.fromCharCode(97 + i) : i < 52 ? String.fromCharCode(39 + i) : String.fromCharCode(0x100 + i)

/** The result without the labels `drop`, put back as axes of `shape`: of extent 1, or repeated. */
function restore(result: Node, out: string, drop: string, shape: Shape): Node {
  const dims = [...out].flatMap((l, i) => (drop.includes(l) ? [] : [i]))
  const repeats = [...out].some((l, i) => drop.includes(l) && shape[i] !== 1)
  return repeats ? broadcastAlong(result, shape, dims) : reshapeTo(result, shape)
}

/** An operand with the axes of extent 1 among its labels left out. */
const dropUnits = (x: Labelled, units: string): Labelled => ({
  node: reshapeTo(
    x.node,
    x.node.shape.filter((_, i) => !units.includes(x.labels[i] ?? '')),
  ),
  labels: without(x.labels, units),
})

/** The labels of extent 1. */
const unitLabels = (a: Labelled, b: Labelled): string =>
  [...labelExtents(a.labels, a.node.shape, b.labels, b.node.shape)].flatMap(([l, d]) => (d === 1 ? [l] : [])).join('')

/** Labels of an operand that only repeat it, and the operand without them. */
function repeatsOf(x: Labelled): { readonly labels: string; readonly source: Labelled } | undefined {
  const { node, labels } = x
  if (node.op === 'full' && labels.length > 0)
    return { labels, source: { node: makeNode('full', [], { ...node.attrs, shape: [] }), labels: '' } }
  const [source] = node.inputs
  if (source === undefined || !isPlainBroadcast(node)) return undefined
  const { dims } = node.attrs
  const kept = dims.map((d) => labels[d] ?? '').join('')
  return { labels: without(labels, kept), source: { node: source, labels: kept } }
}

/**
 * A contraction of a broadcast without the repeated labels: those the other operand has, and those of the result. A label
 * that only this operand has and that is summed must stay: it counts the repeats.
 */
function foldBroadcast(node: Contract, side: 0 | 1): Node | undefined {
  const pair = operands(node)
  if (pair === undefined) return undefined
  const own = pair[side]
  const other = pair[side === 0 ? 1 : 0]
  const repeats = repeatsOf(own)
  if (repeats === undefined) return undefined
  const { out } = node.attrs
  const isBare = [...repeats.labels].every((l) => other.labels.includes(l) || out.includes(l))
  if (!isBare || repeats.labels === '') return undefined
  const fresh = [...repeats.labels].filter((l) => !other.labels.includes(l)).join('')
  const [a, b] = side === 0 ? [repeats.source, other] : [other, repeats.source]
  if (
    summedLabels(a.labels, b.labels, out) !== summedLabels(node.attrs.lhs, node.attrs.rhs, out) &&
    isFloat(node.dtype)
  )
    return undefined
  return restore(contract(node, a, b, without(out, fresh)), out, fresh, node.shape)
}

const fewerLabels: readonly Rule[] = [
  rule('contract', 'exact', 'contract-empty', 'a sum of no products is 0', (node) => {
    const pair = operands(node)
    if (pair === undefined || pair.every((x) => sizeOf(x.node.shape) > 0)) return undefined
    return fullOf(node.shape, node.dtype, 0)
  }),
  rule('contract', 'exact', 'contract-units', 'axes of extent 1 leave the labels', (node) => {
    const pair = operands(node)
    if (pair === undefined) return undefined
    const [a, b] = pair
    const { out } = node.attrs
    const all = unitLabels(a, b)
    // A float sum of one product still starts from +0: where nothing else is summed, one such axis keeps it a sum.
    const summed = summedLabels(a.labels, b.labels, out)
    const keep = isFloat(node.dtype) && summed !== '' && without(summed, all) === '' ? (summed[0] ?? '') : ''
    const units = without(all, keep)
    if (units === '') return undefined
    return restore(
      contract(node, dropUnits(a, units), dropUnits(b, units), without(out, units)),
      out,
      units,
      node.shape,
    )
  }),
  rule(
    'contract',
    'exact',
    'contract-of-broadcast',
    'repeated axes of an operand leave its labels',
    (node) => foldBroadcast(node, 0) ?? foldBroadcast(node, 1),
  ),
]

/** An operand over all labels of the result, as far as it has them. */
function spread(x: Labelled, out: string, shape: Shape): Node {
  const own = [...x.labels].sort((a, b) => out.indexOf(a) - out.indexOf(b))
  const ordered = permuteTo(
    x.node,
    own.map((l) => x.labels.indexOf(l)),
  )
  return broadcastAlong(
    ordered,
    shape,
    own.map((l) => out.indexOf(l)),
  )
}

/** The operand summed over the labels nobody else has; undefined when there are none. */
function sumAlone(own: Labelled, other: Labelled, out: string): Labelled | undefined {
  const alone = [...own.labels].filter((l) => !other.labels.includes(l) && !out.includes(l)).join('')
  if (alone === '') return undefined
  const axes = [...alone].map((l) => own.labels.indexOf(l))
  return { node: makeNode('reduce', [own.node], { combiner: 'sum', axes }), labels: without(own.labels, alone) }
}

function sumOperands(node: Contract): Node | undefined {
  const to = changeOperands(node, (own, other) => sumAlone(own, other, node.attrs.out))
  return to === undefined ? undefined : contract(node, to.lhs, to.rhs, node.attrs.out)
}

/** The product of the operands where no axis longer than 1 is summed. */
function plainProduct(node: Contract): Node | undefined {
  const pair = operands(node)
  if (pair === undefined) return undefined
  const { out } = node.attrs
  const [a, b] = pair
  const summed = summedLabels(a.labels, b.labels, out)
  if (without(summed, unitLabels(a, b)) !== '') return undefined
  const factor = (x: Labelled): Node => spread(dropUnits(x, summed), out, node.shape)
  return makeNode('mul', [factor(a), factor(b)], {})
}

const simpler: readonly Rule[] = [
  rule(
    'contract',
    'exact',
    'contract-nothing-summed',
    'integers: a contraction that sums nothing -> mul(x, y)',
    (node) => (isFloat(node.dtype) ? undefined : plainProduct(node)),
  ),
  // Inexact in the sign of zero: the sum starts from +0.
  rule(
    'contract',
    'fast',
    'contract-nothing-summed-float',
    'a contraction that sums nothing -> mul(x, y)',
    plainProduct,
  ),
  rule('contract', 'exact', 'contract-lone-sum', 'integers: an axis of one operand alone is summed before', (node) =>
    isFloat(node.dtype) ? undefined : sumOperands(node),
  ),
  rule('contract', 'fast', 'contract-lone-sum-float', 'an axis of one operand alone is summed before', (node) =>
    node.dtype === 'f32' || node.dtype === 'f64' ? sumOperands(node) : undefined,
  ),
]

/** Labels a, b, c, ... in the order of the operands' axes, so that equal contractions meet. */
const relabelled = rule(
  'contract',
  'exact',
  'contract-labels',
  'labels a, b, c, ... in order of appearance',
  (node) => {
    const { lhs, rhs, out } = node.attrs
    const names = new Map([...new Set(lhs + rhs)].map((l, i) => [l, labelAt(i)]))
    const rename = (s: string): string => [...s].map((l) => names.get(l) ?? l).join('')
    const to = { lhs: rename(lhs), rhs: rename(rhs), out: rename(out) }
    if (to.lhs === lhs && to.rhs === rhs && to.out === out) return undefined
    return makeNode('contract', node.inputs, { ...node.attrs, ...to })
  },
)

export const contractionRules: readonly Rule[] = [...fewerLabels, ...permuted, ...simpler, relabelled]
