/**
 * Regions in a form that can be transposed: values and what the derivative needs of them in one region, the tangents in a
 * second one of the same kind that is linear in them.
 */
import { byRole, condNodes, loopNodes, resultsOf } from '../../compose/control.ts'
import { zeros } from '../../compose/source.ts'
import type { Node } from '../../graph/node.ts'
import { graphBetween, inlineOutputs } from '../../graph/subgraph.ts'
import { scalarOf } from '../../graph/table.ts'
import { topologicalOrder } from '../../graph/traverse.ts'
import { sameShape } from '../../types/shape.ts'
import { isRemade, residualsOf } from '../linear.ts'
import { at, operand } from '../rule.ts'
import { jointWhile } from './joint.ts'
import { carryDerivative, flags, present, spreadTo, tangentsAt } from './places.ts'
import type { RegionCall, RegionDerivative } from './rule.ts'

const sameType = (a: Node, b: Node): boolean => a.dtype === b.dtype && sameShape(a.shape, b.shape)

/**
 * Residuals of two branches in common places: each place holds one of either branch, of one type. Operands of the region are
 * handed over as they are.
 */
function placesFor(branches: readonly { readonly residuals: readonly Node[]; readonly params: readonly Node[] }[]): {
  readonly like: Node[]
  /** For each branch, the place of each residual that is no operand. */
  readonly of: Map<Node, number>[]
} {
  const like: Node[] = []
  const of = branches.map(({ residuals, params }) => {
    const taken = new Map<Node, number>()
    const used = new Set<number>()
    for (const r of residuals) {
      if (params.includes(r)) continue
      let place = like.findIndex((l, i) => !used.has(i) && sameType(l, r))
      if (place < 0) place = like.push(r) - 1
      used.add(place)
      taken.set(r, place)
    }
    return taken
  })
  return { like, of }
}

export function linearCond({ node, tangents, derivative }: RegionCall<'cond'>): RegionDerivative {
  const directions = tangents.slice(1)
  const branches = [node.attrs.then, node.attrs.otherwise].map((g) => {
    const inside = derivative(g, flags(directions))
    return { ...inside, residuals: residualsOf(present(inside.tangents), present(inside.directions)) }
  })
  const has = node.attrs.then.outputs.map((_, i) => branches.some((b) => b.tangents[i] !== undefined))
  const { like, of } = placesFor(branches)
  const halves = branches.map((b, k) => {
    const places = [...(of[k] ?? [])]
    const kept = like.map((l, i) => places.find(([, place]) => place === i)?.[0] ?? zeros(l.shape, l.dtype))
    const values = graphBetween(b.params, [...b.outputs, ...kept])
    // A place the branch leaves empty is a parameter nothing reads.
    const linear = graphBetween(
      [...b.params, ...kept, ...present(b.directions)],
      tangentsAt(has, b.tangents, b.outputs),
    )
    return { values, linear }
  })
  const [then, otherwise] = [at(halves, 0, 'branch'), at(halves, 1, 'branch')]
  const test = operand(node, 0)
  const operands = node.inputs.slice(1)
  const values = condNodes(test, operands, then.values, otherwise.values)
  const count = node.attrs.then.outputs.length
  const along = condNodes(
    test,
    [...operands, ...values.slice(count), ...present(directions)],
    then.linear,
    otherwise.linear,
  )
  return { outputs: values.slice(0, count), tangents: spreadTo(has, along) }
}

/** The residuals of a loop's body by how they reach the loop of tangents. */
interface Handed {
  /** Parameters that are constants and elements of sequences: their own values again. */
  readonly consts: Node[]
  readonly sequences: Node[]
  /** Computed from constants alone: computed once, outside. */
  readonly invariant: Node[]
  /** Another at every step: a sequence of their own. */
  readonly stepwise: Node[]
}

function handOver(
  residuals: readonly Node[],
  params: { readonly consts: Node[]; readonly sequences: Node[]; readonly carries: Node[] },
): Handed {
  const handed: Handed = { consts: [], sequences: [], invariant: [], stepwise: [] }
  const changing = new Set<Node>([...params.carries, ...params.sequences])
  for (const n of topologicalOrder(residuals)) if (n.inputs.some((x) => changing.has(x))) changing.add(n)
  for (const r of residuals) {
    if (params.consts.includes(r)) handed.consts.push(r)
    else if (params.sequences.includes(r)) handed.sequences.push(r)
    else if (changing.has(r)) handed.stepwise.push(r)
    else handed.invariant.push(r)
  }
  return handed
}

function isCheap(n: Node): boolean {
  const cost = scalarOf(n)?.cost
  return cost === 'simple' || cost === 'free' || isRemade(n)
}

/** Most operations worth repeating at each step instead of keeping their result. */
const remadeAtMost = 8

/**
 * What stands for residuals that change from step to step: those that a few cheap operations make of constants, elements of
 * sequences and what the loop gives in any case (`kept`) are made again from these.
 */
function fromKept(residuals: readonly Node[], kept: ReadonlySet<Node>): Node[] {
  const bottomsOf = (r: Node): Node[] | undefined => {
    const bottoms = new Set<Node>()
    const waiting = [r]
    for (let steps = 0; ; steps++) {
      const n = waiting.pop()
      if (n === undefined) return [...bottoms]
      if (kept.has(n)) bottoms.add(n)
      else if (steps < remadeAtMost && isCheap(n)) waiting.push(...n.inputs)
      else return undefined
    }
  }
  return [...new Set(residuals.flatMap((r) => bottomsOf(r) ?? [r]))]
}

const pick = (nodes: readonly Node[], from: readonly Node[], to: readonly Node[]): Node[] =>
  nodes.map((n) => at(to, from.indexOf(n), 'input'))

export function linearLoop(call: RegionCall<'loop'>): RegionDerivative {
  const { body, length, reverse } = call.node.attrs
  const { inside, ...along } = carryDerivative(call, call.node.attrs, body)
  const own = byRole(inside.params, call.node.attrs)
  const directions = byRole(inside.directions, call.node.attrs)
  const inputs = byRole(call.node.inputs, call.node.attrs)
  const count = own.carries.length
  const moved = flags(along.carries)
  const has = flags(inside.tangents.slice(count))
  const results = [
    ...tangentsAt(moved, inside.tangents, inside.outputs),
    ...tangentsAt(has, inside.tangents.slice(count), inside.outputs.slice(count)),
  ]
  const kept = new Set<Node>([...own.consts, ...own.sequences, ...inside.outputs.slice(count)])
  const handed = handOver(fromKept(residualsOf(results, present(inside.directions)), kept), own)

  const values = loopNodes(
    graphBetween(inside.params, [...inside.outputs, ...handed.stepwise]),
    { length, reverse },
    inputs.consts,
    inputs.carries,
    inputs.sequences,
  )
  const linear = graphBetween(
    [
      ...handed.consts,
      ...handed.invariant,
      ...present(directions.consts),
      ...present(directions.carries),
      ...handed.sequences,
      ...handed.stepwise,
      ...present(directions.sequences),
    ],
    results,
  )
  const outside = inlineOutputs(graphBetween(own.consts, handed.invariant), inputs.consts)
  const pushed = loopNodes(
    linear,
    { length, reverse },
    [...pick(handed.consts, own.consts, inputs.consts), ...outside, ...present(along.consts)],
    present(along.carries),
    [
      ...pick(handed.sequences, own.sequences, inputs.sequences),
      ...values.sequences.slice(has.length),
      ...present(along.sequences),
    ],
  )
  return {
    outputs: [...values.carries, ...values.sequences.slice(0, has.length)],
    tangents: [...spreadTo(moved, pushed.carries), ...spreadTo(has, pushed.sequences)],
  }
}

/** The values from a loop of their own, so that they do not depend on tangents; the tangents from one that cannot be transposed. */
export function linearWhile(call: RegionCall<'while'>): RegionDerivative {
  return { outputs: resultsOf(call.node), tangents: jointWhile(call).tangents }
}
