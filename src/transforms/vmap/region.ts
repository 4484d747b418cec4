/**
 * Batching rules of ops with graphs inside. A condition that differs within the batch runs both branches and selects; a while
 * loop whose test does runs as long as any element's test holds, and elements that are done keep their carry.
 */
import {
  byRole,
  condNodes,
  customLinearNodes,
  customNodes,
  deferredRule,
  loopNodes,
  whileNodes,
} from '../../compose/control.ts'
import { sum } from '../../compose/reduce.ts'
import { moveAxis } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { CustomRule, Graph, Node, RuleGraphs } from '../../graph/node.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { isFloat } from '../../types/dtype.ts'
import { at } from '../rule.ts'
import { repeatBatch } from './operand.ts'
import type { BatchedNode, RegionBatching, RegionBatchRules } from './rule.ts'

const asBatched = ({ node, batched }: BatchedNode, size: number): Node => (batched ? node : repeatBatch(node, size))

/** The node with the batch if `want`; what has it already keeps it. */
const placed = (v: BatchedNode, want: boolean | undefined, size: number): Node =>
  want === true ? asBatched(v, size) : v.node

const withFlags = (nodes: readonly Node[], batched: readonly boolean[]): BatchedNode[] =>
  nodes.map((node, i) => ({ node, batched: batched[i] === true }))

/** A bool for each element of the batch over values of a shape. */
const spreadTest = (test: Node, like: Node): Node =>
  test.shape.length === like.shape.length ? test : makeNode('broadcast', [test], { shape: like.shape, dims: [0] })

const choose = (test: Node, a: Node, b: Node): Node => makeNode('select', [spreadTest(test, a), a, b], {})

function batchCond(call: RegionBatching<'cond'>): readonly BatchedNode[] {
  const { node, inputs, batched, size, apply, inside } = call
  const { then, otherwise } = node.attrs
  const test = at(inputs, 0, 'test')
  const operands = inputs.slice(1)
  if (batched[0] === true) {
    const args = withFlags(operands, batched.slice(1))
    const [a, b] = [apply(then, args), apply(otherwise, args)]
    return a.map((v, i) => ({
      node: choose(test, asBatched(v, size), asBatched(at(b, i, 'result'), size)),
      batched: true,
    }))
  }
  const branches = [then, otherwise].map((g) => inside(g, batched.slice(1)))
  const wide = then.outputs.map((_, i) => branches.some((b) => b.outputs[i]?.batched === true))
  const [first, second] = branches.map((b) =>
    graphBetween(
      b.params,
      b.outputs.map((v, i) => placed(v, wide[i], size)),
    ),
  )
  return withFlags(condNodes(test, operands, first ?? then, second ?? otherwise), wide)
}

/** Which carries have the batch: those that start with it and those the body gives it, a fixed point. */
function wideCarries(
  { inside }: Pick<RegionBatching<'loop' | 'while'>, 'inside'>,
  body: Graph,
  flags: {
    readonly consts: readonly boolean[]
    readonly carries: readonly boolean[]
    readonly sequences: readonly boolean[]
  },
) {
  let carries = flags.carries
  for (;;) {
    const step = inside(body, [...flags.consts, ...carries, ...flags.sequences])
    const next = carries.map((c, i) => c || step.outputs[i]?.batched === true)
    if (next.every((c, i) => c === carries[i])) return { carries, step }
    carries = next
  }
}

function batchWhile(call: RegionBatching<'while'>): readonly BatchedNode[] {
  const { node, inputs, batched, size, inside, apply } = call
  const { test, body, consts } = node.attrs
  const roles = { consts, carries: inputs.length - consts }
  const own = byRole(inputs, roles)
  const flags = byRole(batched, roles)
  const { carries, step } = wideCarries(call, body, flags)
  const asked = inside(test, [...flags.consts, ...carries])
  const init = withFlags(own.carries, flags.carries)
  const verdict = at(asked.outputs, 0, 'test')
  if (!verdict.batched) {
    const next = step.outputs.map((v, i) => placed(v, carries[i], size))
    const results = whileNodes(
      graphBetween(asked.params, [verdict.node]),
      graphBetween(step.params, next),
      own.consts,
      init.map((v, i) => placed(v, carries[i], size)),
    )
    return withFlags(results, carries)
  }
  // The elements still running are a carry of their own, so that each step asks the test once.
  const all = carries.map(() => true)
  const start = init.map((v) => asBatched(v, size))
  const every = (nodes: readonly Node[]): BatchedNode[] => withFlags(nodes, all)
  const ask = (constants: readonly Node[], carry: readonly Node[]): Node =>
    asBatched(at(apply(test, [...withFlags(constants, flags.consts), ...every(carry)]), 0, 'test'), size)
  const running = ask(own.consts, start)
  const wide = inside(body, [...flags.consts, ...all])
  const [constants, carry] = [wide.params.slice(0, consts), wide.params.slice(consts)]
  const flag = makeNode('param', [], { index: wide.params.length, shape: running.shape, dtype: 'bool' })
  const next = wide.outputs.map((v, i) => choose(flag, asBatched(v, size), at(carry, i, 'carry')))
  const still = makeNode('and', [flag, ask(constants, next)], {})
  const loop = whileNodes(
    graphBetween([...constants, flag, ...carry], [makeNode('reduce', [flag], { combiner: 'max', axes: [0] })]),
    graphBetween([...constants, flag, ...carry], [still, ...next]),
    own.consts,
    [running, ...start],
  )
  return every(loop.slice(1))
}

function batchLoop(call: RegionBatching<'loop'>): readonly BatchedNode[] {
  const { node, inputs, batched, size } = call
  const { body, length, reverse, carries: count } = node.attrs
  const own = byRole(inputs, node.attrs)
  const flags = byRole(batched, node.attrs)
  const { carries, step } = wideCarries(call, body, flags)
  const wide = step.outputs.map((v, i) => (i < count ? carries[i] === true : v.batched))
  const results = loopNodes(
    graphBetween(
      step.params,
      step.outputs.map((v, i) => placed(v, wide[i], size)),
    ),
    { length, reverse },
    own.consts,
    withFlags(own.carries, flags.carries).map((v, i) => placed(v, carries[i], size)),
    own.sequences.map((x, i) => (flags.sequences[i] === true ? moveAxis(x, 0, 1) : x)),
  )
  const sequences = results.sequences.map((y, i) => (wide[count + i] === true ? moveAxis(y, 0, 1) : y))
  return withFlags([...results.carries, ...sequences], wide)
}

/** A graph over batched parameters, all of whose outputs have the batch. */
function wholly(
  { inside, size }: RegionBatching<'custom' | 'customLinear'>,
  graph: Graph,
  batched: readonly boolean[],
): Graph {
  const made = inside(graph, batched)
  return graphBetween(
    made.params,
    made.outputs.map((v) => asBatched(v, size)),
  )
}

/** Gradients over a batch: of what has no batch, the sum over it. */
function wholeGradients(
  { inside, size }: RegionBatching<'custom' | 'customLinear'>,
  backward: Graph,
  residuals: readonly boolean[],
  inputs: readonly boolean[],
): Graph {
  const made = inside(backward, [...residuals, ...backward.params.slice(residuals.length).map(() => true)])
  return graphBetween(
    made.params,
    made.outputs.map((v, i) => {
      const wide = asBatched(v, size)
      return inputs[i] === true ? wide : sum(wide, [0])
    }),
  )
}

function batchRule(call: RegionBatching<'custom'>, floats: readonly boolean[]): CustomRule {
  const { node, batched } = call
  const { rule, body } = node.attrs
  const make = (): RuleGraphs => {
    if (rule.kind === 'jvp') return { kind: 'jvp', graph: wholly(call, rule.graph, [...batched, ...floats]) }
    const residuals = rule.forward.outputs.slice(body.outputs.length).map(() => true)
    return {
      kind: 'vjp',
      forward: wholly(call, rule.forward, batched),
      backward: wholeGradients(call, rule.backward, residuals, floats),
    }
  }
  return rule.deferred === true ? deferredRule(rule.name, rule.kind, make) : { name: rule.name, ...make() }
}

export const regionBatching: RegionBatchRules = {
  cond: batchCond,
  while: batchWhile,
  loop: batchLoop,
  custom: (call) => {
    const { node, inputs, batched } = call
    const floats = node.attrs.body.params.flatMap((p, i) => (isFloat(p.dtype) ? [batched[i] === true] : []))
    const results = customNodes(wholly(call, node.attrs.body, batched), batchRule(call, floats), inputs)
    return results.map((r) => ({ node: r, batched: true }))
  },
  customLinear: (call) => {
    const { node, inputs, batched, size } = call
    const { name, backward, residuals, results } = node.attrs
    const known = batched.slice(0, residuals)
    const wide = customLinearNodes(
      {
        name,
        backward: wholeGradients(call, backward, known, batched.slice(residuals)),
        results: results.map(({ shape, dtype }) => ({ shape: [size, ...shape], dtype })),
      },
      inputs.slice(0, residuals),
      inputs.slice(residuals),
    )
    return wide.map((r) => ({ node: r, batched: true }))
  },
}
