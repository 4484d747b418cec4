/** Subgraph operators: If chooses a branch at import or selects between both; Loop and Scan unroll. */
import { UserError } from '../../diagnostics/errors.ts'
import { normaliseAxis, sameShape } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { maxSteps } from './attention.ts'

/** A condition known at import picks a branch; otherwise both run, if their results have one shape. */
const ifNode: Handler = (c) => {
  const cond = c.need(0)
  const branch = (taken: boolean): readonly n.Node[] =>
    c.services.subgraph(c.graph(taken ? 'then_branch' : 'else_branch'), [])
  if (c.services.isFixed(cond)) return branch(c.intOf(0, 'condition') !== 0)
  const a = branch(true)
  const b = branch(false)
  const alike =
    a.length === b.length && a.every((x, i) => x.dtype === b[i]?.dtype && sameShape(x.shape, b[i]?.shape ?? []))
  // Branches of different shapes: the condition fixes the shapes.
  if (!alike) return branch(c.intOf(0, 'condition') !== 0)
  return a.map((x, i) => n.where(n.asScalar(cond), x, b[i] ?? x))
}

/** Stacks per-iteration values along a new axis; no iterations give an empty tensor of the declared element shape. */
function stackAll(c: OpContext, parts: readonly n.Node[], axis: number, reverse: boolean): n.Node {
  if (parts.length === 0) return c.fail('a scan output of no iterations has no shape')
  return n.stack(reverse ? [...parts].reverse() : parts, axis)
}

/** Iterations are unrolled: the trip count and the continuation conditions must be known at import. */
const loop: Handler = (c) => {
  const body = c.graph('body')
  const carriedCount = c.inputs.length - 2
  const limit = c.opt(0) === undefined ? Number.POSITIVE_INFINITY : c.intOf(0, 'trip count')
  let carried = Array.from({ length: carriedCount }, (_, i) => c.need(i + 2))
  const scanned: n.Node[][] = Array.from({ length: Math.max(0, c.outputs - carriedCount) }, () => [])
  let keepGoing = c.opt(1) === undefined || c.intOf(1, 'condition') !== 0
  for (let i = 0; keepGoing && i < limit; i++) {
    if (i >= maxSteps) c.fail(`a loop of more than ${maxSteps} iterations is too long to unroll`)
    const results = c.services.subgraph(body, [n.integers([i], []), n.full([], true, 'bool'), ...carried])
    const [cond, ...rest] = results
    if (cond === undefined) throw new UserError('E_ONNX_MALFORMED', 'the body of the loop gives no condition')
    carried = rest.slice(0, carriedCount)
    rest.slice(carriedCount).forEach((x, k) => {
      scanned[k]?.push(x)
    })
    const t = c.services.hostValue(cond, 'loop condition')
    keepGoing = Number(t.data[0] ?? 0) !== 0
  }
  return [
    ...carried,
    ...scanned.map((parts, k) => (c.wants(carriedCount + k) ? stackAll(c, parts, 0, false) : undefined)),
  ]
}

interface ScanPlan {
  readonly states: readonly n.Node[]
  readonly inputs: readonly n.Node[]
  readonly axes: readonly number[]
  readonly reversed: readonly boolean[]
}

/** One scan without batch axis: final states, then per-step outputs. */
function scanOnce(
  c: OpContext,
  plan: ScanPlan,
): { states: readonly n.Node[]; outputs: readonly (readonly n.Node[])[] } {
  const body = c.graph('body')
  const [first] = plan.inputs
  const steps = first === undefined ? 0 : (first.shape[plan.axes[0] ?? 0] ?? 0)
  if (steps > maxSteps) c.fail(`a scan of ${steps} steps is too long to unroll (at most ${maxSteps})`)
  let states = plan.states
  const outputs: n.Node[][] = Array.from({ length: c.outputs - states.length }, () => [])
  for (let t = 0; t < steps; t++) {
    const slices = plan.inputs.map((x, i) =>
      n.indexAxis(x, plan.axes[i] ?? 0, plan.reversed[i] === true ? steps - 1 - t : t),
    )
    const results = c.services.subgraph(body, [...states, ...slices])
    states = results.slice(0, states.length)
    results.slice(states.length).forEach((x, k) => {
      outputs[k]?.push(x)
    })
  }
  return { states, outputs }
}

/** Operator set 8 has a batch axis on everything and scans axis 1. */
function scan8(c: OpContext): readonly n.Node[] {
  if (c.opt(0) !== undefined) c.fail('scans of operator set 8 with sequence lengths')
  const count = c.int('num_scan_inputs', 1)
  const all = c.inputs.slice(1).map((_, i) => c.need(i + 1))
  const stateCount = all.length - count
  const directions = c.ints('directions') ?? []
  const batch = all[0]?.shape[0] ?? 0
  const rows = Array.from({ length: batch }, (_, b) => {
    const mine = all.map((x) => n.indexAxis(x, 0, b))
    const inputs = mine.slice(stateCount)
    const r = scanOnce(c, {
      states: mine.slice(0, stateCount),
      inputs,
      axes: inputs.map(() => 0),
      reversed: inputs.map((_, i) => directions[i] === 1),
    })
    return [...r.states, ...r.outputs.map((parts) => stackAll(c, parts, 0, false))]
  })
  return Array.from({ length: c.outputs }, (_, i) =>
    n.stack(
      rows.flatMap((r) => r[i] ?? []),
      0,
    ),
  )
}

const scan: Handler = (c) => {
  if (c.opset < 9) return scan8(c)
  const count = c.int('num_scan_inputs', 1)
  const all = c.all()
  const stateCount = all.length - count
  const inputs = all.slice(stateCount)
  const axes = c.ints('scan_input_axes') ?? []
  const directions = c.ints('scan_input_directions') ?? []
  const r = scanOnce(c, {
    states: all.slice(0, stateCount),
    inputs,
    axes: inputs.map((x, i) => normaliseAxis(axes[i] ?? 0, x.shape.length)),
    reversed: inputs.map((_, i) => directions[i] === 1),
  })
  const outAxes = c.ints('scan_output_axes') ?? []
  const outDirections = c.ints('scan_output_directions') ?? []
  return [...r.states, ...r.outputs.map((parts, k) => stackAll(c, parts, outAxes[k] ?? 0, outDirections[k] === 1))]
}

export const controlHandlers: HandlerTable = { If: ifNode, Loop: loop, Scan: scan }
