/**
 * What is kept between the forward and the backward pass, and what is computed again instead: a minimum cut over the values
 * of the forward pass (the idea is that of H. Zhang and others, functorch's min-cut partitioner, here with modelled time on
 * both sides). Every value v is two vertices. Cutting v_in -> v_out keeps v: it costs its traffic and a price on the bytes
 * that stay resident. Cutting source -> v_in computes v again: it costs its arithmetic. An edge u_out -> v_in that is never
 * cut makes the inputs of what is computed again available. A memory budget is a higher price (src/compile/budget.ts).
 */

import type { Graph, Node } from '../../graph/node.ts'
import { familyOf, opDef } from '../../graph/table.ts'
import { randomSeconds } from '../../schedule/price.ts'
import { type Machine, movingSeconds } from '../../target/machine.ts'
import { arithmeticOf, priceOf } from '../../target/prices.ts'
import { sizeOf } from '../../types/shape.ts'
import { FlowNetwork } from '../algorithms/minCut.ts'
import { readsOfBoundary } from '../body/reads.ts'
import { bytesOf, dataInputs, foldsElements, isFree, storageOf } from '../body/region.ts'
import { storedBytes } from '../body/stored.ts'
import { elementwiseSeconds } from '../cost/cost.ts'
import { accessOf } from '../memory/access.ts'
import { type FusionPlan, membersOf, singleGroups } from '../plan.ts'
import type { Phases } from './phases.ts'

/** A value the forward pass leaves in memory for the backward pass. */
export interface SavedValue {
  readonly node: Node
  readonly form: 'plain' | 'bits'
  readonly bytes: number
  /** It is a result of the program: kept anyway. */
  readonly result: boolean
}

/** What keeping a value costs, and computing it again from what else is kept: modelled seconds. */
export interface Choice {
  readonly keep: number
  readonly again: number
}

/**
 * The price of a byte kept between the passes where no budget asks for more, in the time it takes to move it: by the time it is
 * read, what lies between has pushed it out of every cache, and it kept others out. Measured in bench/NOTES.md.
 */
export const residentPrice = 2

/** The buffers a member of a group reads that the group does not compute itself. */
const readBy = (n: Node): Node[] =>
  opDef(n).boundary === undefined ? dataInputs(n).map(storageOf) : [...readsOfBoundary(n).buffers]

/** Forward values that stand in memory for kernels of the backward pass other than those that make them. */
export function savedBetween(graph: Graph, plan: FusionPlan, phases: Phases): SavedValue[] {
  const results = new Set(graph.outputs.map(storageOf))
  const stored = new Set<Node>()
  const saved = new Map<Node, SavedValue>()
  for (const g of singleGroups(plan)) {
    const { buffers, writes } = accessOf(g)
    const members = membersOf(g)
    if (members.some((n) => phases.backward.has(n))) {
      const late = members.filter((m) => !phases.early.has(m))
      const wanted = new Set(late.flatMap(readBy))
      for (const n of buffers)
        if (wanted.has(n) && stored.has(n))
          saved.set(n, {
            node: n,
            form: plan.stored.bits.has(n) ? 'bits' : 'plain',
            bytes: storedBytes(n, plan.stored),
            result: results.has(n),
          })
    }
    for (const n of writes) if (!phases.backward.has(n)) stored.add(n)
  }
  return [...saved.values()]
}

/** Bytes of a value if it is kept. */
const keptBytes = (n: Node, target: Machine): number =>
  n.dtype === 'bool' && target.packBools ? Math.ceil(sizeOf(n.shape) / 8) : bytesOf(n)

/** What a choice about a value was between, given the others that are kept. */
export function choiceOf(node: Node, kept: ReadonlySet<Node>, target: Machine): Choice {
  const keep = movingSeconds(2 * keptBytes(node, target), target)
  const stack = [node]
  const seen = new Set(stack)
  let again = 0
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    again += arithmetic(n, target)
    for (const x of n.inputs) {
      if (seen.has(x)) continue
      seen.add(x)
      if (kept.has(x) || x.op === 'param') again += movingSeconds(keptBytes(x, target), target)
      else stack.push(x)
    }
  }
  return { keep, again }
}

/** Modelled seconds of arithmetic of a node, operands at hand. */
function arithmetic(node: Node, target: Machine): number {
  const points = sizeOf(node.shape)
  switch (familyOf(node)) {
    case 'elementwise':
      return points * elementwiseSeconds(node, target)
    case 'random':
      return points * randomSeconds(node.dtype, target.prices)
    case 'gather':
      return points * priceOf('add', 'i32', target.prices)
    case 'reduction':
    case 'scan':
      return sizeOf(node.inputs[0]?.shape ?? []) * target.prices.fold[arithmeticOf(node.dtype)]
    case 'contraction': {
      if (node.op !== 'contract') return 0
      const extents = new Map<string, number>()
      const name = (labels: string, x: Node | undefined): void =>
        [...labels].forEach((l, i) => {
          extents.set(l, x?.shape[i] ?? 1)
        })
      name(node.attrs.lhs, node.inputs[0])
      name(node.attrs.rhs, node.inputs[1])
      return (2 * [...extents.values()].reduce((n, e) => n * e, 1)) / target.matrixRate
    }
    default:
      return 0
  }
}

/**
 * What a checkpoint says of a value: `inside`, what only its own region reads on the forward pass, must not be kept; what
 * leaves the region (`exit`) must, or all regions before would be computed again at once.
 */
function checkpointRole(node: Node, users: readonly Node[], phases: Phases): 'inside' | 'exit' | undefined {
  const region = node.origin.checkpoint
  if (region === undefined || isFree(node)) return undefined
  const own = !phases.early.has(node) || users.every((u) => phases.backward.has(u) || u.origin.checkpoint === region)
  return own ? 'inside' : 'exit'
}

/**
 * The values of the forward pass to compute again for the backward pass. `price`: of a resident byte, as a share of the time
 * it takes to move it. `plan` is the provisional plan: what its kernels store is paid for, and what a kernel of both passes
 * hands from one to the other inside needs no memory. `inPassing`: what a contraction or a fold gives is taken to be computed where it is read, as
 * chains do; else it is stored once more, and keeps memory as before.
 */
export function valuesToRecompute(
  graph: Graph,
  phases: Phases,
  target: Machine,
  plan: FusionPlan,
  price: number,
  inPassing: boolean,
): Set<Node> {
  const { nodes, backward, early } = phases
  const net = new FlowNetwork()
  const [source, sink] = [net.vertex(), net.vertex()]
  const results = new Set(graph.outputs)
  const stored = new Set<Node>()
  const kernels = new Map<Node, ReadonlySet<Node>[]>()
  for (const g of singleGroups(plan)) {
    for (const n of accessOf(g).writes) stored.add(n)
    if (g.kind !== 'kernel') continue
    for (const n of g.members) kernels.set(n, [...(kernels.get(n) ?? []), g.members])
  }
  const handed = (x: Node, to: Node): boolean => kernels.get(to)?.every((members) => members.has(x)) ?? false
  const users = new Map<Node, Node[]>()
  for (const n of nodes) {
    if (isFree(n)) continue
    for (const x of dataInputs(n)) {
      const have = users.get(x)
      if (have === undefined) users.set(x, [n])
      else have.push(n)
    }
  }
  const vertices = new Map<Node, { readonly enter: number; readonly leave: number }>()
  for (const n of nodes) {
    if (backward.has(n)) {
      for (const x of n.inputs) {
        const v = vertices.get(x)
        if (v !== undefined && !handed(x, n)) net.connect(v.leave, sink, Number.POSITIVE_INFINITY)
      }
      continue
    }
    const v = { enter: net.vertex(), leave: net.vertex() }
    vertices.set(n, v)
    const move = movingSeconds(keptBytes(n, target), target)
    const fixed = n.op === 'param' || n.op === 'constant'
    const result = results.has(n)
    // What stands in memory anyway (literals, closed-over tensors) belongs to no region, wherever it was first named.
    const own = !result && !fixed && opDef(n).boundary === undefined
    const role = own ? checkpointRole(n, users.get(n) ?? [], phases) : undefined
    const again =
      fixed || opDef(n).boundary !== undefined || role === 'exit'
        ? Number.POSITIVE_INFINITY
        : early.has(n)
          ? arithmetic(n, target) + (inPassing || !foldsElements(n) ? 0 : (2 + residentPrice) * move)
          : 0
    if (again > 0) net.connect(source, v.enter, again)
    const free = fixed || stored.has(n) || result
    const unstorable =
      !fixed && !result && again < Number.POSITIVE_INFINITY && keptBytes(n, target) > target.mostBytes.value
    const keep =
      role === 'inside' || unstorable || (isFree(n) && !fixed)
        ? Number.POSITIVE_INFINITY
        : move * ((free ? 1 : 2) + (fixed || result ? 0 : price))
    net.connect(v.enter, v.leave, keep)
    for (const x of n.inputs) {
      const u = vertices.get(x)
      if (u !== undefined) net.connect(u.leave, v.enter, Number.POSITIVE_INFINITY)
    }
  }
  const side = net.sinkSide(source, sink)
  return new Set([...vertices].flatMap(([n, v]) => (side.has(v.enter) && n.op !== 'param' ? [n] : [])))
}
