/** Lists some of whose places have tangents, and which carries of a loop do. */
import { byRole } from '../../compose/control.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { at } from '../rule.ts'
import { type Derivative, materialised, type RegionCall, type Tangent } from './rule.ts'

/** The tangents that are there. */
export const present = (tangents: readonly Tangent[]): Node[] => tangents.filter((t) => t !== undefined)

/** Which places have a tangent. */
export const flags = (tangents: readonly Tangent[]): boolean[] => tangents.map((t) => t !== undefined)

/** Puts nodes in the places marked, in order; the others have none. */
export function spreadTo(places: readonly boolean[], nodes: readonly Node[]): Tangent[] {
  let next = 0
  return places.map((p) => (p ? nodes[next++] : undefined))
}

/** The tangents at the places marked, as nodes. */
export const tangentsAt = (places: readonly boolean[], tangents: readonly Tangent[], like: readonly Node[]): Node[] =>
  places.flatMap((p, i) => (p ? [materialised(tangents[i], at(like, i, 'value'))] : []))

/** A body's derivative, and the tangents its region takes. */
export interface CarryDerivative {
  readonly inside: Derivative
  /** Tangents of the inputs: a carry that gets one on the way starts with zeros. */
  readonly consts: readonly Tangent[]
  readonly carries: readonly Tangent[]
  readonly sequences: readonly Tangent[]
}

/**
 * The derivative of the body of a loop or while, whose carries have tangents where their initial values do and where the body
 * gives them one: a fixed point.
 */
export function carryDerivative(
  { node, tangents, derivative }: Pick<RegionCall<'loop' | 'while'>, 'node' | 'tangents' | 'derivative'>,
  roles: { readonly consts: number; readonly carries: number },
  body: Graph,
): CarryDerivative {
  const { consts, carries, sequences } = byRole(tangents, roles)
  let active = flags(carries)
  for (;;) {
    const inside = derivative(body, [...flags(consts), ...active, ...flags(sequences)])
    const next = active.map((a, i) => a || inside.tangents[i] !== undefined)
    if (next.every((a, i) => a === active[i])) {
      const init = byRole(node.inputs, roles).carries
      const started = carries.map((t, i) => (active[i] === true ? materialised(t, at(init, i, 'carry')) : undefined))
      return { inside, consts, carries: started, sequences }
    }
    active = next
  }
}
