/**
 * Transposing contractions: the cotangent contracted with the known operand, labels as they were, so nothing is transposed
 * in memory. Permutations and sliding windows between the contraction and what it is linear in are taken in the same step:
 * the gradient of a convolution in its data is one contraction over windows of the cotangent, not a sum of shifted products.
 */
import { contractLabelled } from '../../compose/contract.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { operand } from '../rule.ts'
import { flipAxis } from '../shift.ts'
import type { TransposeRules, Transposition } from './rule.ts'
import { windowsOfPositions } from './window.ts'

/** A tensor whose axes carry labels. */
interface Labelled {
  readonly node: Node
  readonly labels: string
}

/** What a permutation permutes, labels moved along. */
function throughPermutes(x: Labelled): Labelled {
  let { node, labels } = x
  while (node.op === 'permute') {
    const { perm } = node.attrs
    const moved = perm.map((_, i) => labels[perm.indexOf(i)] ?? '').join('')
    labels = moved
    node = operand(node, 0)
  }
  return { node, labels }
}

/** The cotangent of the contraction and its known operand, as they are once the linear operand is `target`. */
interface Problem {
  readonly target: Labelled
  readonly known: Labelled
  readonly cotangent: Labelled
}

/** The same with a window of the target taken away; undefined when its positions or taps do not meet the labels that need. */
function throughWindow({ target, known, cotangent }: Problem): Problem | undefined {
  const { node, labels } = target
  if (node.op !== 'window') return undefined
  const { axis } = node.attrs
  const position = labels[axis] ?? ''
  const tap = labels[axis + 1] ?? ''
  const at = cotangent.labels.indexOf(position)
  const slides = at >= 0 && !known.labels.includes(position)
  if (!slides || cotangent.labels.includes(tap) || !known.labels.includes(tap)) return undefined
  const inner = operand(node, 0)
  return {
    target: { node: inner, labels: labels.slice(0, axis + 1) + labels.slice(axis + 2) },
    known: { node: flipAxis(known.node, known.labels.indexOf(tap)), labels: known.labels },
    cotangent: {
      node: windowsOfPositions(cotangent.node, at, node.attrs, inner.shape[axis] ?? 0),
      labels: cotangent.labels.slice(0, at + 1) + tap + cotangent.labels.slice(at + 1),
    },
  }
}

function reduceProblem(problem: Problem): Problem {
  let p = problem
  for (;;) {
    p = { ...p, target: throughPermutes(p.target) }
    const next = throughWindow(p)
    if (next === undefined) return p
    p = next
  }
}

/** The contraction that gives the target's cotangent, operands in the order the forward pass had them. */
function solve({ target, known, cotangent }: Problem, knownFirst: boolean): Node {
  const present = [...target.labels].filter((l) => known.labels.includes(l) || cotangent.labels.includes(l))
  const c = throughPermutes(cotangent)
  const k = throughPermutes(known)
  const [a, b] = knownFirst ? [k, c] : [c, k]
  const y = contractLabelled(a.node, a.labels, b.node, b.labels, present.join(''))
  if (present.length === target.labels.length) return y
  // A label only the target has was summed alone: every position gets the same cotangent.
  const dims = present.map((l) => target.labels.indexOf(l))
  return makeNode('broadcast', [y], { shape: target.node.shape, dims })
}

function transposeContract({ node, cotangent, isLinear, give }: Transposition<'contract'>): void {
  const { lhs, rhs, out } = (node as NodeOf<'contract'>).attrs
  const left: Labelled = { node: operand(node, 0), labels: lhs }
  const right: Labelled = { node: operand(node, 1), labels: rhs }
  const first = isLinear(left.node)
  const [target, known] = first ? [left, right] : [right, left]
  const problem = reduceProblem({ target, known, cotangent: { node: cotangent, labels: out } })
  give(problem.target.node, solve(problem, !first))
}

export const contractionTranspose: TransposeRules<'contract'> = { contract: transposeContract }
