/**
 * Subgraph operators. What is known at import chooses branches and unrolls short loops; the rest becomes control flow of the
 * program, where shapes stay the same from step to step.
 */
import { condNodes, loopNodes, whileNodes } from '../../compose/control.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { TensorType } from '../../graph/node.ts'
import { normaliseAxis, sameShape } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { isFit, type Unfit } from '../stepBody.ts'
import type { Because } from '../values.ts'
import { maxSteps } from './attention.ts'

/** Known loops of at most this many steps are unrolled. */
export const unrolled = 8

const sameTypes = (a: readonly TensorType[], b: readonly TensorType[]): boolean =>
  a.length === b.length && a.every((x, i) => x.dtype === b[i]?.dtype && sameShape(x.shape, b[i]?.shape ?? []))

/** A condition known at import picks a branch; otherwise the branch taken runs, if both have results of one type. */
const ifNode: Handler = (c) => {
  const cond = c.need(0)
  const branch = (taken: boolean) => c.graph(taken ? 'then_branch' : 'else_branch')
  const known = (because?: Because): readonly n.Node[] =>
    c.services.subgraph(branch(c.intOf(0, 'condition', because) !== 0), [])
  if (c.services.isFixed(cond)) return known()
  // What is wrong with a branch counts only if it can run.
  const a = c.services.stepBody(branch(true), [])
  if (!isFit(a)) return known(a.because)
  const b = c.services.stepBody(branch(false), [])
  if (!isFit(b)) return known(b.because)
  // Branches of different shapes: the condition fixes the shapes.
  if (!sameTypes(a.outputs, b.outputs)) return known()
  const operands = [...new Set([...a.captured, ...b.captured])]
  // Values that stand anyway: choosing is one operation.
  if ([...a.outputs, ...b.outputs].every((x) => operands.includes(x)))
    return a.outputs.map((x, i) => n.where(n.asScalar(cond), x, b.outputs[i] ?? x))
  return condNodes(n.asScalar(cond), operands, a.graph(operands, a.outputs), b.graph(operands, b.outputs))
}

/** Stacks per-iteration values along a new axis; no iterations give an empty tensor of the declared element shape. */
function stackAll(c: OpContext, parts: readonly n.Node[], axis: number, reverse: boolean): n.Node {
  if (parts.length === 0) return c.fail('a scan output of no iterations has no shape')
  return n.stack(reverse ? [...parts].reverse() : parts, axis)
}

/** Where nothing is wrong, and yet a body does not do for all steps. */
const unfit: Unfit = { because: undefined }

/** A loop as one of the program's, where its body does for all steps. */
function loopRegion(c: OpContext): readonly (n.Node | undefined)[] | Unfit {
  const { services } = c
  const init = c.inputs.slice(2).map((_, i) => c.need(i + 2))
  const [limit, first] = [c.opt(0), c.opt(1)]
  const count = limit === undefined ? undefined : services.isFixed(limit) ? c.intOf(0, 'trip count') : limit
  const start = first === undefined ? true : services.isFixed(first) ? c.intOf(1, 'condition') !== 0 : first
  if (typeof count === 'number' && count <= unrolled) return unfit
  const scalars: TensorType[] = [
    { shape: [], dtype: 'i64' },
    { shape: [], dtype: 'bool' },
  ]
  const body = services.stepBody(c.graph('body'), [...scalars, ...init])
  if (!isFit(body)) return body
  const [step, go, ...carried] = body.params
  const [again, ...results] = body.outputs
  if (step === undefined || go === undefined || again === undefined) return unfit
  const [next, elements] = [results.slice(0, init.length), results.slice(init.length)]
  if (!sameTypes(next, init) || again.dtype !== 'bool' || again.shape.length > 0) return unfit
  const always = again === go || (services.isStatic(again) && services.hostValue(again, 'loop condition').data[0] === 1)
  if (typeof count === 'number' && typeof start === 'boolean' && always) {
    const graph = body.graph([...body.captured, go, ...carried, step], [...next, ...elements])
    const length = start ? count : 0
    const consts = [...body.captured, n.full([], true, 'bool')]
    const made = loopNodes(graph, { length }, consts, init, [n.iota([length], 0, 'i64')])
    return [...made.carries, ...made.sequences]
  }
  // The number of steps is known by running alone, and so would be the shapes of stacked elements.
  if (elements.some((_, i) => c.wants(init.length + i))) return unfit
  const bound = count === undefined ? [] : [typeof count === 'number' ? n.integers([count], []) : n.asScalar(count)]
  const consts = [...body.captured, ...bound]
  const inputs = [...consts, step, go, ...carried]
  const [most] = bound
  const test = most === undefined ? go : n.logicalAnd(go, n.compare('lt', step, most))
  return whileNodes(
    body.graph(inputs, [test]),
    body.graph(inputs, [n.add(step, n.integers([1], [])), again, ...next]),
    consts,
    [n.integers([0], []), typeof start === 'boolean' ? n.full([], start, 'bool') : n.asScalar(start), ...init],
  ).slice(2)
}

const loop: Handler = (c) => {
  const made = loopRegion(c)
  return 'because' in made ? unrolledLoop(c, made.because) : made
}

/** Iterations unrolled: the trip count and the continuation conditions must be known at import. */
function unrolledLoop(c: OpContext, because: Because | undefined): readonly (n.Node | undefined)[] {
  const body = c.graph('body')
  const carriedCount = c.inputs.length - 2
  const limit = c.opt(0) === undefined ? Number.POSITIVE_INFINITY : c.intOf(0, 'trip count', because)
  let carried = Array.from({ length: carriedCount }, (_, i) => c.need(i + 2))
  const scanned: n.Node[][] = Array.from({ length: Math.max(0, c.outputs - carriedCount) }, () => [])
  let keepGoing = c.opt(1) === undefined || c.intOf(1, 'condition', because) !== 0
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

interface Scanned {
  readonly states: readonly n.Node[]
  /** Output k along an axis, its elements in the order of the steps or against it. */
  readonly stacked: (k: number, axis: number, reverse: boolean) => n.Node
  readonly count: number
}

/** x with an axis moved to another place. */
function moved(x: n.Node, from: number, to: number): n.Node {
  const order = x.shape.map((_, i) => i).filter((i) => i !== from)
  return from === to ? x : n.permute(x, order.toSpliced(to, 0, from))
}

/** A scan as a loop of the program; undefined where it must be unrolled. */
function scanRegion(c: OpContext, plan: ScanPlan, length: number): Scanned | undefined {
  const { states } = plan
  const sequences = plan.inputs.map((x, i) => {
    const leading = moved(x, plan.axes[i] ?? 0, 0)
    return plan.reversed[i] === true ? n.flip(leading, [0]) : leading
  })
  const elements = sequences.map((x) => ({ shape: x.shape.slice(1), dtype: x.dtype }))
  const body = c.services.stepBody(c.graph('body'), [...states, ...elements])
  if (!isFit(body) || !sameTypes(body.outputs.slice(0, states.length), states)) return undefined
  const graph = body.graph([...body.captured, ...body.params], body.outputs)
  const made = loopNodes(graph, { length }, body.captured, states, sequences)
  return {
    states: made.carries,
    stacked: (k, axis, reverse) => {
      const y = made.sequences[k] ?? c.fail(`the body gives no output ${k}`)
      return moved(reverse ? n.flip(y, [0]) : y, 0, axis < 0 ? axis + y.shape.length : axis)
    },
    count: made.sequences.length,
  }
}

/** One scan without batch axis: final states, then per-step outputs. */
function scanOnce(c: OpContext, plan: ScanPlan): Scanned {
  const body = c.graph('body')
  const [first] = plan.inputs
  const steps = first === undefined ? 0 : (first.shape[plan.axes[0] ?? 0] ?? 0)
  const region = steps > unrolled ? scanRegion(c, plan, steps) : undefined
  if (region !== undefined) return region
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
  return {
    states,
    stacked: (k, axis, reverse) => stackAll(c, outputs[k] ?? [], axis, reverse),
    count: outputs.length,
  }
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
    return [...r.states, ...Array.from({ length: r.count }, (_, k) => r.stacked(k, 0, false))]
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
  const outputs = Array.from({ length: r.count }, (_, k) => r.stacked(k, outAxes[k] ?? 0, outDirections[k] === 1))
  return [...r.states, ...outputs]
}

export const controlHandlers: HandlerTable = { If: ifNode, Loop: loop, Scan: scan }
