/**
 * Operators that carry a state from call to call, in ONNX's domain and in onnxruntime's: linear attention, its gate, and the causal
 * convolution beside it.
 */
import { loopNodes } from '../../compose/control.ts'
import { silu, softplus } from '../../compose/nn.ts'
import { conv } from '../../compose/window.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { computeDType } from '../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { stepParams } from '../stepBody.ts'
import { unpackHeads } from './heads.ts'

/** Steps written out; more are a loop of the program. */
const unrolled = 8
/** Most states that a window keeps. */
const widestWindow = 8

/** What one step reads: [batch, heads, ...] each. */
interface Step {
  readonly q: n.Node
  readonly k: n.Node
  readonly v: n.Node
  readonly decay: n.Node | undefined
  readonly rate: n.Node | undefined
}

interface Stepped {
  readonly state: n.Node
  /** [batch, output heads, value width]. */
  readonly y: n.Node
}

/** The state decays, takes in the outer product of key and value (or of what it does not predict of the value), and is read. */
function step(before: n.Node, { q, k, v, decay, rate }: Step): Stepped {
  const state = decay === undefined ? before : n.mul(before, n.expandDims(decay, -1))
  let value = v
  if (rate !== undefined) {
    const predicted = n.contractLabelled(state, 'bhde', k, 'bhd', 'bhe')
    value = n.mul(n.sub(value, predicted), n.expandDims(rate, -1))
  }
  const next = n.add(state, n.mul(n.expandDims(k, -1), n.expandDims(value, -2)))
  const [batch = 1, heads = 1, width = 1] = q.shape
  const [, kept = 1, , out = 1] = next.shape
  const query = n.reshape(q, [batch, kept, heads / kept, width])
  return { state: next, y: n.reshape(n.contractLabelled(query, 'bhgd', next, 'bhde', 'bhge'), [batch, heads, out]) }
}

/** Heads repeated so that there are `count`, each standing beside its copies. */
function repeatHeads(x: n.Node, count: number): n.Node {
  const [batch = 1, heads = 1, ...rest] = x.shape
  if (heads === count) return x
  const wide = n.broadcastTo(n.expandDims(x, 2), [batch, heads, count / heads, ...rest])
  return n.reshape(wide, [batch, count, ...rest])
}

/** Sequences of a layer, time first: a step is an element of each. */
type Sequences = { readonly [K in keyof Step]: Step[K] }

const elementAt = (s: Sequences, t: number): Step => ({
  q: n.indexAxis(s.q, 0, t),
  k: n.indexAxis(s.k, 0, t),
  v: n.indexAxis(s.v, 0, t),
  decay: s.decay === undefined ? undefined : n.indexAxis(s.decay, 0, t),
  rate: s.rate === undefined ? undefined : n.indexAxis(s.rate, 0, t),
})

/** Steps as a loop of the program: the last state, and [steps, batch, heads, width]. */
function looped(first: n.Node, s: Sequences, length: number): Stepped {
  const given = [s.q, s.k, s.v, s.decay, s.rate].map((x) =>
    x === undefined ? undefined : n.sliceAxis(x, 0, 0, length),
  )
  const sequences = given.filter((x) => x !== undefined)
  const types = [first, ...sequences.map((x) => ({ shape: x.shape.slice(1), dtype: x.dtype }))]
  const params = stepParams(types)
  const [carry = first, ...elements] = params
  let at = 0
  const take = (x: n.Node | undefined): n.Node | undefined => (x === undefined ? undefined : elements[at++])
  const [q, k, v, decay, rate] = given.map(take)
  const made = step(carry, { q: q ?? carry, k: k ?? carry, v: v ?? carry, decay, rate })
  const { carries, sequences: outputs } = loopNodes(
    graphBetween(params, [made.state, made.y]),
    { length },
    [],
    [first],
    sequences,
  )
  return { state: carries[0] ?? first, y: outputs[0] ?? first }
}

/** The extent of a window of states, 0 for none. */
function windowOf(c: OpContext): number {
  const window = c.int('state_window', 0)
  if (window < 0 || window > widestWindow) c.fail(`a state_window of ${window}`)
  return window
}

/**
 * Linear attention: S decays by exp(g), takes in key and value, and the query reads it; S is that of the last token, or of the last few
 * (`state_window`). Query heads share key heads, or the other way round.
 */
const linearAttention: Handler = (c) => {
  const hq = c.int('q_num_heads', 1)
  const hk = c.int('kv_num_heads', 1)
  const { dtype } = c.need(0)
  const work = computeDType(dtype)
  const timed = (x: n.Node): n.Node => n.permute(n.cast(x, work), [2, 0, 1, ...n.axesFrom(3, x.shape.length)])
  const query = unpackHeads(c.need(0), hq)
  const [batch = 1, , steps = 0, dk = 1] = query.shape
  const key = unpackHeads(c.need(1), (c.need(1).shape.at(-1) ?? dk) / dk)
  const value = unpackHeads(c.need(2), hk)
  const heads = Math.max(hq, hk)
  c.requireShape(heads % hq === 0 && heads % hk === 0, c.need(0).shape, `the query of ${hq} heads beside ${hk}`)
  const rule = c.string('update_rule', 'gated_delta')
  if (!['linear', 'gated', 'delta', 'gated_delta'].includes(rule)) c.fail(`the update_rule "${rule}"`)
  const rate = rule.endsWith('delta') ? c.need(5) : undefined
  const sequences: Sequences = {
    q: timed(repeatHeads(query, heads)),
    k: timed(repeatHeads(key, hk)),
    v: timed(value),
    decay: rule.startsWith('gated') ? timed(n.exp(n.cast(unpackHeads(c.need(4), hk), work))) : undefined,
    // [batch, steps, heads or 1].
    rate: rate === undefined ? undefined : timed(n.permute(rate, [0, 2, 1])),
  }
  const window = windowOf(c)
  const past = c.opt(3)
  const dv = value.shape[3] ?? 1
  const given = past === undefined ? n.full([batch, hk, dk, dv], 0, work) : n.cast(past, work)
  let state = past !== undefined && window > 0 ? n.indexAxis(given, 0, window - 1) : given
  const ahead = steps - Math.min(steps, window)
  const rolled = ahead > unrolled ? looped(state, sequences, ahead) : undefined
  state = rolled?.state ?? state
  const from = rolled === undefined ? 0 : ahead
  const states: n.Node[] = []
  const outputs: n.Node[] = []
  for (let t = from; t < steps; t++) {
    const made = step(state, elementAt(sequences, t))
    state = made.state
    states.push(made.state)
    outputs.push(made.y)
  }
  const parts = [...(rolled === undefined ? [] : [rolled.y]), ...(outputs.length === 0 ? [] : [n.stack(outputs, 0)])]
  const all = parts.length === 0 ? n.full([0, batch, heads, dv], 0, work) : n.concat(parts, 0)
  const scale = c.float('scale', 0) || 1 / Math.sqrt(dk)
  const y = n.reshape(n.permute(n.mul(all, scale), [1, 0, 2, 3]), [batch, steps, heads * dv])
  const stateDType = past?.dtype ?? dtype
  if (window === 0) return [n.cast(y, dtype), n.cast(state, stateDType)]
  const kept = states.slice(-window)
  const empty = Array.from({ length: window - kept.length }, () => n.filled(state, state.shape, 0))
  return [n.cast(y, dtype), n.cast(n.stack([...empty, ...kept], 0), stateDType)]
}

/** decay = scale softplus(a + bias), beta = sigmoid(b), in f32. */
const linearAttentionGate: Handler = (c) => {
  const a = c.need(0)
  const f32 = (x: n.Node): n.Node => n.cast(x, 'f32')
  const decay = n.mul(softplus(n.add(f32(a), f32(c.need(1)))), f32(c.need(2)))
  const b = c.opt(3)
  return [n.cast(decay, a.dtype), b === undefined ? undefined : n.cast(n.unary('sigmoid', f32(b)), a.dtype)]
}

/**
 * A convolution of each channel with its own kernel, reading the elements before it: those of the call before stand in the state. Of more
 * than one spatial axis it is refused.
 */
const causalConvWithState: Handler = (c) => {
  if (c.int('ndim', 1) !== 1) c.fail(`${c.int('ndim', 1)} spatial axes`)
  const given = c.need(0)
  const w = c.need(1)
  const [channels = 1, , taps = 1] = w.shape
  const last = c.flag('channels_last', false)
  const dilation = c.int('dilation', 1)
  const before = (taps - 1) * dilation
  const window = windowOf(c)
  // [batch, channels, length] of whatever order the node has.
  const inside = (x: n.Node): n.Node =>
    last ? n.permute(n.reshape(x, [...x.shape.slice(0, 2), channels]), [0, 2, 1]) : x
  const outside = (x: n.Node): n.Node =>
    last ? n.reshape(n.permute(x, [0, 2, 1]), [x.shape[0] ?? 1, x.shape[2] ?? 0, ...given.shape.slice(2)]) : x
  const x = inside(given)
  const [batch = 1, , length = 0] = x.shape
  const state = c.opt(3)
  const past =
    state === undefined
      ? n.filled(x, [batch, channels, before], 0)
      : inside(window > 0 ? n.indexAxis(state, 0, window - 1) : state)
  const sequence = before === 0 ? x : n.concat([past, x], 2)
  const work = computeDType(x.dtype)
  const bias = c.opt(2)
  const options = { groups: channels, dilation: [dilation] }
  const y = conv(
    n.cast(sequence, work),
    n.cast(w, work),
    bias === undefined ? options : { ...options, bias: n.cast(bias, work) },
  )
  const name = c.string('activation', 'none')
  if (!['none', 'silu', 'swish', ''].includes(name)) c.fail(`the activation "${name}"`)
  const activated = name === 'silu' || name === 'swish' ? silu(y) : y
  /** The state after so many elements. */
  const after = (count: number): n.Node => outside(n.sliceAxis(sequence, 2, count, count + before))
  const present =
    window === 0
      ? after(length)
      : n.stack(
          Array.from({ length: window }, (_, j) => {
            const count = length - window + j + 1
            return count < 1 ? n.filled(x, after(length).shape, 0) : after(count)
          }),
          0,
        )
  return [outside(n.cast(activated, x.dtype)), present]
}

/** Operators of this file that both domains have. */
export const stateHandlers: HandlerTable = {
  CausalConvWithState: causalConvWithState,
  LinearAttention: linearAttention,
}

export const contribStateHandlers: HandlerTable = { ...stateHandlers, LinearAttentionGate: linearAttentionGate }
