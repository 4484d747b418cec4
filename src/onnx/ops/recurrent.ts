/** Recurrent layers (RNN, GRU, LSTM): input projections of all steps are one contraction, steps a loop of the program, or written out where they are few. */
import { loopNodes } from '../../compose/control.ts'
import { elu, hardSigmoid, leakyRelu, relu, softplus, softsign } from '../../compose/nn.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { mark, stepBody, stepParams } from '../stepBody.ts'
import { unrolled } from './control.ts'
import { checkLayer } from './recurrentShapes.ts'

type Activation = (x: n.Node) => n.Node

/** An activation by ONNX's name, with its alpha and beta. */
function activation(c: OpContext, name: string, alpha: number | undefined, beta: number | undefined): Activation {
  switch (name.toLowerCase()) {
    case 'sigmoid':
      return (x) => n.unary('sigmoid', x)
    case 'tanh':
      return (x) => n.tanh(x)
    case 'relu':
      return relu
    case 'affine':
      return (x) => n.add(n.mul(x, alpha ?? 1), beta ?? 0)
    case 'leakyrelu':
      return (x) => leakyRelu(x, alpha ?? 0.01)
    case 'thresholdedrelu':
      return (x) => n.where(n.compare('gt', x, alpha ?? 1), x, n.filled(x, x.shape, 0))
    case 'scaledtanh':
      return (x) => n.mul(n.tanh(n.mul(x, beta ?? 1)), alpha ?? 1)
    case 'hardsigmoid':
      return (x) => hardSigmoid(x, alpha ?? 0.2, beta ?? 0.5)
    case 'elu':
      return (x) => elu(x, alpha ?? 1)
    case 'softsign':
      return softsign
    case 'softplus':
      return softplus
    default:
      return c.fail(`its activation "${name}" is unknown`)
  }
}

/** One direction's view of the layer. */
interface Direction {
  /** Index along the directions axis. */
  readonly index: number
  readonly reverse: boolean
  readonly activations: readonly Activation[]
}

interface Layer {
  readonly directions: readonly Direction[]
  readonly hidden: number
  readonly steps: number
  readonly batch: number
  /** [steps, batch, features]. */
  readonly x: n.Node
  readonly batchFirst: boolean
  /** Limits a gate's input to [-clip, clip]. */
  readonly clip: (x: n.Node) => n.Node
  /** Steps of each sequence, [batch, 1]; absent: all. */
  readonly lengths: n.Node | undefined
}

/** Activation names that take a value from `activation_alpha` / `activation_beta`, in order of use. */
const takesAlpha = new Set(['affine', 'leakyrelu', 'thresholdedrelu', 'scaledtanh', 'hardsigmoid', 'elu'])
const takesBeta = new Set(['affine', 'scaledtanh', 'hardsigmoid'])

function layerOf(c: OpContext, gates: number, states: readonly number[], defaults: readonly string[]): Layer {
  const { batchFirst, direction, directions: count, hidden, steps, batch } = checkLayer(c, gates, states)
  const x = batchFirst ? n.permute(c.need(0), [1, 0, 2]) : c.need(0)
  const names = c.strings('activations') ?? Array.from({ length: count }, () => defaults).flat()
  if (names.length !== count * defaults.length)
    throw new UserError(
      'E_ONNX_MALFORMED',
      `${c.node.opType}: ${names.length} activations for ${count * defaults.length}`,
    )
  const alphas = [...(c.floats('activation_alpha') ?? [])]
  const betas = [...(c.floats('activation_beta') ?? [])]
  const all = names.map((name) => {
    const key = name.toLowerCase()
    return activation(
      c,
      name,
      takesAlpha.has(key) ? alphas.shift() : undefined,
      takesBeta.has(key) ? betas.shift() : undefined,
    )
  })
  const directions = Array.from({ length: count }, (_, index) => ({
    index,
    reverse: direction === 'reverse' || index === 1,
    activations: all.slice(index * defaults.length, (index + 1) * defaults.length),
  }))
  const limit = c.float('clip', 0)
  const lengths = c.opt(4)
  return {
    directions,
    hidden,
    steps,
    batch,
    x,
    batchFirst,
    clip: (v) => (limit > 0 ? n.clip(v, -limit, limit) : v),
    lengths: lengths === undefined ? undefined : n.reshape(lengths, [batch, 1]),
  }
}

/** Row-block `i` of a gate-stacked array. */
const block = (x: n.Node, axis: number, i: number, size: number): n.Node =>
  n.sliceAxis(x, axis, i * size, (i + 1) * size)

/** The states of one step: hidden first. */
type State = readonly n.Node[]
type Step = (inputs: n.Node, state: State, d: Direction) => State

/** Initial state number `input` of a direction, zeros when absent. */
function initial(c: OpContext, layer: Layer, input: number, d: Direction): n.Node {
  const given = c.opt(input)
  if (given === undefined) return n.full([layer.batch, layer.hidden], 0, layer.x.dtype)
  return n.indexAxis(given, layer.batchFirst ? 1 : 0, d.index)
}

/** Weights of a direction: [rows, columns]. */
const ofDirection = (x: n.Node, d: Direction): n.Node => n.indexAxis(x, 0, d.index)

/** What all steps of a direction give: a hidden state each, [steps, batch, hidden], and the last states. */
interface Steps {
  readonly outputs: n.Node
  readonly state: State
}

/** One step at position `t`, in which sequences that have ended keep their states and give zeros. */
function stepAt(layer: Layer, step: Step, d: Direction, inputs: n.Node, before: State, t: number | n.Node): State {
  const next = step(inputs, before, d)
  const live = layer.lengths === undefined ? undefined : n.compare('gt', layer.lengths, t)
  const state = live === undefined ? next : next.map((v, i) => n.where(live, v, before[i] ?? v))
  const [h] = state
  if (h === undefined) return []
  return [live === undefined ? h : n.where(live, h, n.filled(h, h.shape, 0)), ...state]
}

/** The steps written out. */
function written(layer: Layer, step: Step, d: Direction, gates: n.Node, first: State): Steps {
  let state = first
  const outputs: n.Node[] = []
  for (let s = 0; s < layer.steps; s++) {
    const t = d.reverse ? layer.steps - 1 - s : s
    const [y, ...next] = stepAt(layer, step, d, n.indexAxis(gates, 0, t), state, t)
    if (y !== undefined) outputs[t] = y
    state = next
  }
  const none = [0, layer.batch, layer.hidden]
  return { outputs: outputs.length === 0 ? n.full(none, 0, layer.x.dtype) : n.stack(outputs, 0), state }
}

/** The steps as a loop of the program. */
function looped(layer: Layer, step: Step, d: Direction, gates: n.Node, first: State): Steps {
  const { steps: length, lengths } = layer
  const places = lengths === undefined ? [] : [n.iota([length], 0, lengths.dtype)]
  const since = mark()
  const elements = stepParams([gates, ...places].map(({ shape, dtype }) => ({ shape: shape.slice(1), dtype })))
  const [inputs = gates, t = 0] = elements
  const before = stepParams(first)
  const [y = inputs, ...next] = stepAt(layer, step, d, inputs, before, t)
  const params = [...before, ...elements]
  const { captured, graph } = stepBody(params, [...next, y], since)
  const body = graph([...captured, ...params], [...next, y])
  const made = loopNodes(body, { length, reverse: d.reverse }, captured, first, [gates, ...places])
  return { outputs: made.sequences[0] ?? y, state: made.carries }
}

/**
 * Runs every direction: `project` gives the inputs of a step's gates from all of x, `step` one step. Outputs are Y and the
 * last states, in the node's layout.
 */
function run(
  c: OpContext,
  layer: Layer,
  stateInputs: readonly number[],
  project: (d: Direction) => n.Node,
  makeStep: (d: Direction) => Step,
): readonly n.Node[] {
  const perDirection = layer.directions.map((d): Steps => {
    const first: State = stateInputs.map((i) => initial(c, layer, i, d))
    const steps = layer.steps > unrolled ? looped : written
    return steps(layer, makeStep(d), d, project(d), first)
  })
  const along = layer.batchFirst ? 1 : 0
  // Y [steps, directions, batch, hidden].
  const y = n.stack(
    perDirection.map((p) => p.outputs),
    1,
  )
  const last = stateInputs.map((_, i) =>
    n.stack(
      perDirection.flatMap((p) => p.state[i] ?? []),
      along,
    ),
  )
  return [layer.batchFirst ? n.permute(y, [2, 0, 1, 3]) : y, ...last]
}

/** x W' for all steps: [steps, batch, rows]. */
const projectAll = (layer: Layer, w: n.Node): n.Node => n.contractLabelled(layer.x, 'tbi', w, 'gi', 'tbg')

/** h R'. */
const recur = (h: n.Node, r: n.Node): n.Node => n.contractLabelled(h, 'bh', r, 'gh', 'bg')

/** Input and recurrent biases of a direction: two vectors of `rows`. */
function biases(c: OpContext, d: Direction, rows: number): { input: n.Node; recurrent: n.Node } | undefined {
  const b = c.opt(3)
  if (b === undefined) return undefined
  const mine = ofDirection(b, d)
  return { input: block(mine, 0, 0, rows), recurrent: block(mine, 0, 1, rows) }
}

const withBias = (x: n.Node, b: n.Node | undefined): n.Node => (b === undefined ? x : n.add(x, b))

/** h = f(x W' + h R' + bW + bR). */
const rnn: Handler = (c) => {
  const layer = layerOf(c, 1, [5], ['Tanh'])
  const project = (d: Direction): n.Node => {
    const b = biases(c, d, layer.hidden)
    return withBias(withBias(projectAll(layer, ofDirection(c.need(1), d)), b?.input), b?.recurrent)
  }
  return run(c, layer, [5], project, (d) => {
    const r = ofDirection(c.need(2), d)
    const [f = n.tanh] = d.activations
    return (inputs, [h = inputs]) => [f(layer.clip(n.add(inputs, recur(h, r))))]
  })
}

/** Gates z, r, h; `linear_before_reset` applies the reset to the projected hidden state. */
const gru: Handler = (c) => {
  const layer = layerOf(c, 3, [5], ['Sigmoid', 'Tanh'])
  const size = layer.hidden
  const after = c.flag('linear_before_reset', false)
  const project = (d: Direction): n.Node =>
    withBias(projectAll(layer, ofDirection(c.need(1), d)), biases(c, d, 3 * size)?.input)
  return run(c, layer, [5], project, (d) => {
    const weights = ofDirection(c.need(2), d)
    const bias = biases(c, d, 3 * size)?.recurrent
    const part = (x: n.Node, i: number): n.Node => block(x, x.shape.length - 1, i, size)
    const [f = n.tanh, g = n.tanh] = d.activations
    const gates = n.sliceAxis(weights, 0, 0, 2 * size)
    const candidate = block(weights, 0, 2, size)
    const gateBias = bias === undefined ? undefined : n.sliceAxis(bias, 0, 0, 2 * size)
    const candidateBias = bias === undefined ? undefined : block(bias, 0, 2, size)
    return (inputs, [h = inputs]) => {
      const zr = withBias(n.add(n.sliceAxis(inputs, 1, 0, 2 * size), recur(h, gates)), gateBias)
      const z = f(layer.clip(part(zr, 0)))
      const r = f(layer.clip(part(zr, 1)))
      const pull = after
        ? n.mul(r, withBias(recur(h, candidate), candidateBias))
        : withBias(recur(n.mul(r, h), candidate), candidateBias)
      const fresh = g(layer.clip(n.add(part(inputs, 2), pull)))
      return [n.add(n.mul(n.sub(n.scalarAs(z, 1), z), fresh), n.mul(z, h))]
    }
  })
}

/** Gates i, o, f, c with optional peepholes; `seen` is what products read of the hidden state. */
export function lstm(c: OpContext, seen: (hidden: n.Node) => n.Node = (h) => h): readonly n.Node[] {
  const layer = layerOf(c, 4, [5, 6], ['Sigmoid', 'Tanh', 'Tanh'])
  const size = layer.hidden
  const project = (d: Direction): n.Node => {
    const b = biases(c, d, 4 * size)
    return withBias(withBias(projectAll(layer, ofDirection(c.need(1), d)), b?.input), b?.recurrent)
  }
  return run(c, layer, [5, 6], project, (d) => {
    const weights = ofDirection(c.need(2), d)
    const [f = n.tanh, g = n.tanh, h = n.tanh] = d.activations
    const peep = c.opt(7)
    const peephole = (i: number): n.Node | undefined =>
      peep === undefined ? undefined : block(ofDirection(peep, d), 0, i, size)
    const [pi, po, pf] = [peephole(0), peephole(1), peephole(2)]
    const watch = (x: n.Node, p: n.Node | undefined, cell: n.Node): n.Node =>
      p === undefined ? x : n.add(x, n.mul(p, cell))
    return (inputs, [hidden = inputs, cell = inputs]) => {
      const all = n.add(inputs, recur(seen(hidden), weights))
      const gate = (i: number): n.Node => block(all, 1, i, size)
      const input = f(layer.clip(watch(gate(0), pi, cell)))
      const forget = c.flag('input_forget', false)
        ? n.sub(n.scalarAs(input, 1), input)
        : f(layer.clip(watch(gate(2), pf, cell)))
      const fresh = g(layer.clip(gate(3)))
      const next = n.add(n.mul(forget, cell), n.mul(input, fresh))
      const output = f(layer.clip(watch(gate(1), po, next)))
      return [n.mul(output, h(next)), next]
    }
  })
}

export const recurrentHandlers: HandlerTable = { GRU: gru, LSTM: (c) => lstm(c), RNN: rnn }
