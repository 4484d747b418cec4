/**
 * Products of sums of rows that are normalised one by one, as sums of products. Of (e / sum e - c f / sum f) v no factor is common to all terms of a row, so the sum over a row waits
 * for both normalisers, and a chain of products would go through the scores twice. Of each term its own is a factor, which stands behind the product:
 * e v / sum e - c (f v / sum f) streams, for one more product. Sums with what is not normalised (the gradient of a loss) stay, since what is stored anyway would be multiplied twice.
 */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { familyOf, scalarOf } from '../graph/table.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import { isFloat } from '../types/dtype.ts'
import { ofRows } from './normalisedWeights.ts'

type Contraction = NodeOf<'contract'>

/** Values that are looked at in one operand. */
const mostLooked = 64

/** The axis of an operand that a product sums along, if it is one. */
function summedAxis({ attrs }: Contraction, operand: 0 | 1): number | undefined {
  const own = operand === 0 ? attrs.lhs : attrs.rhs
  const axes = [...own].flatMap((label, axis) => (attrs.out.includes(label) ? [] : [axis]))
  return axes.length === 1 ? axes[0] : undefined
}

/** Whether a value of rows is made of a fold along an axis of what is made of products. */
function isFoldOfProducts(root: Node, axis: number): boolean {
  const seen = new Set([root])
  for (const n of seen) {
    if (n.op === 'reduce' && `${n.attrs.axes}` === `${axis}`) return reachesProduct(n)
    if (seen.size > mostLooked) return false
    if (familyOf(n) === 'elementwise') for (const x of n.inputs) seen.add(x)
  }
  return false
}

/** Whether what a fold is of is made of products, element by element. */
function reachesProduct(fold: Node): boolean {
  const seen = new Set(fold.inputs)
  for (const n of seen) {
    if (n.op === 'contract') return true
    if (seen.size > mostLooked) return false
    if (familyOf(n) === 'elementwise') for (const x of n.inputs) seen.add(x)
  }
  return false
}

/** The folds of rows that are factors of a value, beside an exponential: weights that stream without them. */
function normalisersOf(root: Node, axis: number): ReadonlySet<Node> {
  const found = new Set<Node>()
  const seen = new Set([root])
  let isWeight = false
  for (const n of seen) {
    const row = ofRows(n)
    const scalar = scalarOf(n)
    isWeight ||= scalar?.exponentialIn !== undefined
    if (row !== undefined && !row.dims.includes(axis)) {
      if (isFoldOfProducts(row.value, axis)) found.add(row.value)
    } else if (n.op === 'cast' || n.op === 'select' || scalar?.factors !== undefined)
      for (const x of n.inputs) seen.add(x)
    if (seen.size > mostLooked) return new Set()
  }
  return isWeight ? found : new Set()
}

/** The terms of an operand, each with its sign, if each has a normaliser that the others lack; undefined otherwise. */
function termsOf(operand: Node, axis: number): readonly { readonly of: Node; readonly sign: 1 | -1 }[] | undefined {
  let sum = operand
  while (sum.op === 'cast' && sum.inputs[0] !== undefined && isFloat(sum.inputs[0].dtype)) sum = sum.inputs[0]
  const { terms: signs } = scalarOf(sum) ?? {}
  if (signs === undefined || signs.length !== 2 || sum.inputs.length !== 2) return undefined
  const all = sum.inputs.map((x) => normalisersOf(x, axis))
  const isApart = all.every((own, i) => [...own].some((n) => all.every((o, j) => i === j || !o.has(n))))
  return isApart ? sum.inputs.map((of, i) => ({ of, sign: signs[i] ?? 1 })) : undefined
}

/** The graph with such products term by term; itself where there are none. For fast mode: sums have another order. */
export function distributeSums(graph: Graph): Graph {
  if (!nodesOf(graph).some((n) => n.op === 'contract')) return graph
  let isFound = false
  const made = mapGraph(graph, (node, inputs) => {
    if (node.op !== 'contract') return withInputs(node, inputs)
    for (const operand of [0, 1] as const) {
      const [x, y] = [inputs[operand], inputs[1 - operand]]
      const axis = summedAxis(node, operand)
      const terms = x === undefined || axis === undefined ? undefined : termsOf(x, axis)
      if (x === undefined || y === undefined || terms === undefined) continue
      const [first, second] = terms.map(({ of }): Node => {
        const own = of.dtype === x.dtype ? of : makeNode('cast', [of], { dtype: x.dtype, loose: true })
        return makeNode('contract', operand === 0 ? [own, y] : [y, own], node.attrs)
      })
      const [plus, minus] = [terms[0]?.sign ?? 1, terms[1]?.sign ?? 1]
      if (first === undefined || second === undefined || plus < 0) continue
      isFound = true
      return makeNode(minus < 0 ? 'sub' : 'add', [first, second], {})
    }
    return withInputs(node, inputs)
  })
  return isFound ? made : graph
}
