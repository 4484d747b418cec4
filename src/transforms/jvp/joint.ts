/** Regions in forward mode alone: one region computes values and tangents together. */
import { byRole, condNodes, loopNodes, whileNodes } from '../../compose/control.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { operand } from '../rule.ts'
import { carryDerivative, flags, present, spreadTo, tangentsAt } from './places.ts'
import type { Derivative, RegionCall, RegionDerivative } from './rule.ts'

export function jointCond({ node, tangents, derivative }: RegionCall<'cond'>): RegionDerivative {
  const directions = tangents.slice(1)
  const then = derivative(node.attrs.then, flags(directions))
  const otherwise = derivative(node.attrs.otherwise, flags(directions))
  const has = then.outputs.map((_, i) => then.tangents[i] !== undefined || otherwise.tangents[i] !== undefined)
  const graphOf = (b: Derivative) =>
    graphBetween([...b.params, ...present(b.directions)], [...b.outputs, ...tangentsAt(has, b.tangents, b.outputs)])
  const operands = [...node.inputs.slice(1), ...present(directions)]
  const results = condNodes(operand(node, 0), operands, graphOf(then), graphOf(otherwise))
  const count = then.outputs.length
  return { outputs: results.slice(0, count), tangents: spreadTo(has, results.slice(count)) }
}

export function jointLoop(call: RegionCall<'loop'>): RegionDerivative {
  const { body, length, reverse } = call.node.attrs
  const { inside, ...along } = carryDerivative(call, call.node.attrs, body)
  const own = byRole(inside.params, call.node.attrs)
  const directions = byRole(inside.directions, call.node.attrs)
  const count = own.carries.length
  const moved = flags(along.carries)
  const has = inside.tangents.slice(count).map((t) => t !== undefined)
  const joint = graphBetween(
    [
      ...own.consts,
      ...present(directions.consts),
      ...own.carries,
      ...present(directions.carries),
      ...own.sequences,
      ...present(directions.sequences),
    ],
    [
      ...inside.outputs.slice(0, count),
      ...tangentsAt(moved, inside.tangents, inside.outputs),
      ...inside.outputs.slice(count),
      ...tangentsAt(has, inside.tangents.slice(count), inside.outputs.slice(count)),
    ],
  )
  const inputs = byRole(call.node.inputs, call.node.attrs)
  const results = loopNodes(
    joint,
    { length, reverse },
    [...inputs.consts, ...present(along.consts)],
    [...inputs.carries, ...present(along.carries)],
    [...inputs.sequences, ...present(along.sequences)],
  )
  return {
    outputs: [...results.carries.slice(0, count), ...results.sequences.slice(0, has.length)],
    tangents: [...spreadTo(moved, results.carries.slice(count)), ...spreadTo(has, results.sequences.slice(has.length))],
  }
}

/** Values and tangents run together for as many steps as the values ask for. */
export function jointWhile(call: RegionCall<'while'>): RegionDerivative {
  const { test, body, consts } = call.node.attrs
  const roles = { consts, carries: call.node.inputs.length - consts }
  const { inside, ...along } = carryDerivative(call, roles, body)
  const own = byRole(inside.params, roles)
  const directions = byRole(inside.directions, roles)
  const moved = flags(along.carries)
  const joint = graphBetween(
    [...own.consts, ...present(directions.consts), ...own.carries, ...present(directions.carries)],
    [...inside.outputs, ...tangentsAt(moved, inside.tangents, inside.outputs)],
  )
  const asked = byRole(test.params, roles)
  const keeps = graphBetween(
    [...asked.consts, ...present(directions.consts), ...asked.carries, ...present(directions.carries)],
    test.outputs,
  )
  const inputs = byRole(call.node.inputs, roles)
  const results = whileNodes(
    keeps,
    joint,
    [...inputs.consts, ...present(along.consts)],
    [...inputs.carries, ...present(along.carries)],
  )
  const count = own.carries.length
  return { outputs: results.slice(0, count), tangents: spreadTo(moved, results.slice(count)) }
}
