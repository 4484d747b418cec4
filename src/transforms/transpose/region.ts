/** Transposition rules of ops with graphs inside: what is known goes in again, and the graphs inside are transposed. */

import { byRole, condNodes, loopNodes } from '../../compose/control.ts'
import { add } from '../../compose/elementwise.ts'
import { zeros } from '../../compose/source.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { param } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import { graphBetween, inlineOutputs } from '../../graph/subgraph.ts'
import { at, operand, refuse } from '../rule.ts'
import type { RegionTransposeRules, RegionTransposition, TransposedGraph } from './rule.ts'

const isThere = (n: Node | undefined): boolean => n !== undefined
const present = (nodes: readonly (Node | undefined)[]): Node[] => nodes.filter((n) => n !== undefined)
const orZeros = (n: Node | undefined, like: Node): Node => n ?? zeros(like.shape, like.dtype)

/** Linear and known nodes of a list, in order. */
function parted(
  nodes: readonly Node[],
  isLinear: (n: Node) => boolean,
): { readonly linear: Node[]; readonly known: Node[] } {
  return { linear: nodes.filter(isLinear), known: nodes.filter((n) => !isLinear(n)) }
}

function transposeCond({ node, cotangents, isLinear, give, inside }: RegionTransposition<'cond'>): void {
  const test = operand(node, 0)
  invariant(!isLinear(test), 'a condition on a tangent')
  const operands = node.inputs.slice(1)
  const { linear, known } = parted(operands, isLinear)
  const transposed = (g: typeof node.attrs.then): TransposedGraph =>
    inside(g, operands.map(isLinear), cotangents.map(isThere))
  const [then, otherwise] = [transposed(node.attrs.then), transposed(node.attrs.otherwise)]
  const has = linear.map((_, i) => isThere(then.gradients[i]) || isThere(otherwise.gradients[i]))
  const graphOf = (t: TransposedGraph) =>
    graphBetween(
      [...t.known, ...t.cotangents],
      linear.flatMap((x, i) => (has[i] === true ? [orZeros(t.gradients[i], x)] : [])),
    )
  const results = condNodes(test, [...known, ...present(cotangents)], graphOf(then), graphOf(otherwise))
  linear
    .filter((_, i) => has[i])
    .forEach((x, i) => {
      give(x, at(results, i, 'gradient'))
    })
}

/**
 * The steps of a loop from the last to the first: the carries' cotangents are carries, those of constants add up in carries,
 * those of sequences are sequences.
 */
function transposeLoop({ node, cotangents, isLinear, give, inside }: RegionTransposition<'loop'>): void {
  const { body, length, reverse, carries: count } = node.attrs
  const inputs = byRole(node.inputs, node.attrs)
  const linear = {
    consts: inputs.consts.map(isLinear),
    // A carry that starts with a known value, as zeros, carries tangents all the same.
    carries: inputs.carries.map(() => true),
    sequences: inputs.sequences.map(isLinear),
  }
  const flags = [...linear.consts, ...linear.carries, ...linear.sequences]
  const [own, elements] = [cotangents.slice(0, count), cotangents.slice(count)]
  const before = linear.consts.filter(Boolean).length
  let active = own.map(isThere)
  let step = inside(body, flags, [...active, ...elements.map(isThere)])
  for (;;) {
    const next = active.map((a, i) => a || isThere(step.gradients[before + i]))
    if (next.every((a, i) => a === active[i])) break
    active = next
    step = inside(body, flags, [...active, ...elements.map(isThere)])
  }
  const moved = inputs.carries.filter((_, i) => active[i])
  const byConst = step.gradients.slice(0, before)
  const byCarry = step.gradients.slice(before, before + count).filter((_, i) => active[i])
  const bySequence = step.gradients.slice(before + count)
  const sums = present(byConst).map((g, i) => param(i, g.shape, g.dtype))
  const knownConsts = linear.consts.filter((l) => !l).length
  const results = loopNodes(
    graphBetween(
      [
        ...step.known.slice(0, knownConsts),
        ...step.cotangents.slice(0, moved.length),
        ...sums,
        ...step.known.slice(knownConsts),
        ...step.cotangents.slice(moved.length),
      ],
      [
        ...moved.map((x, i) => orZeros(byCarry[i], x)),
        ...present(byConst).map((g, i) => add(at(sums, i, 'sum'), g)),
        ...present(bySequence),
      ],
    ),
    { length, reverse: !reverse },
    inputs.consts.filter((x) => !isLinear(x)),
    [
      ...inputs.carries.flatMap((x, i) => (active[i] === true ? [orZeros(own[i], x)] : [])),
      ...sums.map((s) => zeros(s.shape, s.dtype)),
    ],
    [...inputs.sequences.filter((x) => !isLinear(x)), ...present(elements)],
  )
  const to = (nodes: readonly Node[], found: readonly (Node | undefined)[], values: readonly Node[]): void => {
    const targets = nodes.filter((_, i) => isThere(found[i]))
    targets.forEach((x, i) => {
      give(x, at(values, i, 'gradient'))
    })
  }
  to(inputs.consts.filter(isLinear), byConst, results.carries.slice(moved.length))
  to(moved, moved, results.carries)
  to(inputs.sequences.filter(isLinear), bySequence, results.sequences)
}

export const regionTranspose: RegionTransposeRules = {
  cond: transposeCond,
  while: ({ node }) =>
    refuse(
      node,
      'the gradient',
      'reverse mode keeps the values of every step, and the number of steps is not known',
      'use foriLoop with a fixed count, or scan; forward mode (jvp) goes through a while loop',
    ),
  loop: transposeLoop,
  custom: 'nonlinear',
  customLinear: ({ node, cotangents, give }) => {
    const { backward, residuals, results } = node.attrs
    const given = cotangents.map((ct, i) => {
      const like = at(results, i, 'result')
      return ct ?? zeros(like.shape, like.dtype)
    })
    const gradients = inlineOutputs(backward, [...node.inputs.slice(0, residuals), ...given])
    node.inputs.slice(residuals).forEach((x, i) => {
      give(x, at(gradients, i, 'gradient'))
    })
  },
}
