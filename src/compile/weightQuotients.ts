/**
 * Weights of products as quotients. exp(x - (m + log S)), of which nothing is known before S is, is exp(x - m) / S: terms that stream against the greatest x met so far,
 * and a number a row behind the product. So weights by log-sum-exp, and exponentials of log-softmax, are planned as those of softmax. m is the greatest of x, so the
 * exponential stays at one at most. Where a backward pass makes weights again, normalisedWeights.ts takes the other form.
 */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { ofRows } from './normalisedWeights.ts'

/** What a node is the logarithm of. */
const logOf = (n: Node | undefined): Node | undefined => (n?.op === 'log' ? n.inputs[0] : undefined)

/** An exponent x - m - log S: x - m, S, and the axes of rows. */
interface Exponent {
  readonly difference: Node
  readonly sum: Node
  readonly dims: readonly number[]
}

/** Whether a node is a value less the greatest along some of its axes. */
const isAnchored = (x: Node | undefined, m: Node | undefined): boolean =>
  m?.op === 'reduce' && m.attrs.combiner === 'max' && m.inputs[0] === x

function exponentOf(n: Node | undefined): Exponent | undefined {
  if (n?.op !== 'sub') return undefined
  const [first, second] = n.inputs
  const row = ofRows(second)
  if (first === undefined || row === undefined) return undefined
  const { value, dims } = row
  const sum = logOf(value)
  if (sum !== undefined)
    return first.op === 'sub' && isAnchored(first.inputs[0], ofRows(first.inputs[1])?.value)
      ? { difference: first, sum, dims }
      : undefined
  if (value.op !== 'add') return undefined
  for (const [m, log] of [value.inputs, [...value.inputs].reverse()]) {
    const of = logOf(log)
    if (m === undefined || of === undefined || !isAnchored(first, m)) continue
    const rows = makeNode('broadcast', [m], { shape: n.shape, dims })
    return { difference: makeNode('sub', [first, rows], {}), sum: of, dims }
  }
  return undefined
}

/** The graph with such exponentials that products multiply as quotients; itself where there are none. For fast mode. */
export function takeWeightQuotients(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  if (!nodes.some((n) => n.op === 'log')) return graph
  const users = usersOf(nodes)
  const isProduct = (u: Node): boolean => familyOf(u) === 'contraction'
  const usersAs = (n: Node): readonly Node[] => users.get(n) ?? []
  const isMultiplied = (n: Node): boolean =>
    usersAs(n).some((u) => isProduct(u) || (u.op === 'cast' && usersAs(u).some(isProduct)))
  const weights = new Set(nodes.filter((n) => n.op === 'exp' && isMultiplied(n)))
  if (weights.size === 0) return graph
  let isFound = false
  const made = mapGraph(graph, (node, inputs) => {
    const exponent = weights.has(node) ? exponentOf(inputs[0]) : undefined
    if (exponent === undefined) return withInputs(node, inputs)
    isFound = true
    const { difference, sum, dims } = exponent
    const rows = makeNode('broadcast', [sum], { shape: node.shape, dims })
    return makeNode('div', [makeNode('exp', [difference], {}), rows], {})
  })
  return isFound ? made : graph
}
