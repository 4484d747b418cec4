/** Rotary position embedding by tables of cosines and sines, of one stream of positions or of three. */
import { rotate } from '../../../compose/attention.ts'
import { UserError } from '../../../diagnostics/errors.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { packHeads, unpackHeads } from '../heads.ts'

export interface Tables {
  /** [positions, turned / 2]. */
  readonly cos: n.Node
  readonly sin: n.Node
  readonly interleaved: boolean
}

/** x [batch, heads, sequence, width] with the first `turned` elements of the last axis rotated by angles [batch, sequence, turned / 2]. */
function turn(x: n.Node, cos: n.Node, sin: n.Node, interleaved: boolean): n.Node {
  const width = x.shape[3] ?? 0
  const turned = 2 * (cos.shape.at(-1) ?? 0)
  if (turned > width) throw new UserError('E_SHAPE', `${turned} elements of a head of ${width} are rotated`)
  const beside = (v: n.Node): n.Node => n.expandDims(v, 1)
  const head = n.sliceAxis(x, 3, 0, turned)
  const rotated = rotate(head, beside(cos), beside(sin), interleaved)
  return turned === width ? rotated : n.concat([rotated, n.sliceAxis(x, 3, turned, width)], 3)
}

/** x [batch, heads, sequence, width] rotated by the angles of its positions [batch or 1, sequence]. */
export const turnAt = (x: n.Node, positions: n.Node, t: Tables): n.Node =>
  turn(x, n.take(t.cos, positions, 0), n.take(t.sin, positions, 0), t.interleaved)

interface Heads {
  readonly x: n.Node
  /** The inverse: back to the shape of the input. */
  readonly back: (y: n.Node) => n.Node
}

/** The input as [batch, heads, sequence, width]: by the number of heads, else with heads as wide as the table says. */
function headsOf(c: OpContext, table: n.Node): Heads {
  const x = c.need(0)
  if (c.float('scale', 1) !== 1) c.fail('a scale other than 1')
  c.requireShape(x.shape.length === 3 || x.shape.length === 4, x.shape, 'the input')
  if (x.shape.length === 4) return { x, back: (y) => y }
  const count = c.int('num_heads', 0)
  const hidden = x.shape[2] ?? 0
  const heads = count > 0 ? count : hidden / (2 * (table.shape[1] ?? 1))
  c.requireShape(Number.isInteger(heads) && heads > 0, x.shape, 'the input')
  return { x: unpackHeads(x, heads), back: packHeads }
}

/** Positions [batch or 1, sequence]: given, or counted from one number. */
export function positionsOf(given: n.Node, sequence: number): n.Node {
  if (given.shape.length !== 1 || (given.shape[0] !== 1 && given.shape[0] === sequence))
    return given.shape.length === 1 ? n.expandDims(given, 0) : given
  return n.add(n.reshape(given, [1, 1]), n.iota([1, sequence], 1, given.dtype === 'i64' ? 'i64' : 'i32'))
}

const rotaryEmbedding: Handler = (c) => {
  const [cos, sin] = [c.need(2), c.need(3)]
  const { x, back } = headsOf(c, cos)
  const positions = positionsOf(c.need(1), x.shape[2] ?? 0)
  return back(turnAt(x, positions, { cos, sin, interleaved: c.flag('interleaved', false) }))
}

/** Which of three streams of positions each of the angles takes. */
function streams(c: OpContext, half: number): number[] {
  const sections = c.ints('mrope_section') ?? []
  c.requireLength('mrope_section', sections, 3)
  const [t = 0, h = 0, w = 0] = sections
  if (t + h + w !== half) throw new UserError('E_ONNX_MALFORMED', `sections of ${t}, ${h} and ${w} of ${half} angles`)
  const layout = c.int('mrope_layout', 0)
  if (layout !== 0 && layout !== 1) c.fail(`the mrope_layout ${layout}`)
  return Array.from({ length: half }, (_, i) => {
    if (layout === 0) return i < t ? 0 : i < t + h ? 1 : 2
    if (i % 3 === 1 && i < 3 * h) return 1
    return i % 3 === 2 && i < 3 * w ? 2 : 0
  })
}

/** Each angle by the position of its own stream: positions [3, batch, sequence]. */
const mRotaryEmbedding: Handler = (c) => {
  const [cos, sin] = [c.need(2), c.need(3)]
  const { x, back } = headsOf(c, cos)
  const half = cos.shape[1] ?? 0
  const positions = c.need(1)
  const [, batch = 1, sequence = 1] = positions.shape
  c.requireShape(positions.shape.length === 3 && positions.shape[0] === 3, positions.shape, 'the tensor of positions')
  const shape = [batch, sequence, half]
  // The stream of each angle is known: the row of the table is chosen by data, its column is where the angle stands.
  const stream = n.broadcastInto(n.integers(streams(c, half)), shape, [2])
  const row = n.gather(positions, [stream], shape, [{ input: 0 }, { axis: 0 }, { axis: 1 }])
  const angles = (table: n.Node): n.Node => n.gather(table, [row], shape, [{ input: 0 }, { axis: 2 }])
  return back(turn(x, angles(cos), angles(sin), c.flag('interleaved', false)))
}

/** Queries and keys with their halves turned already: x cos(angle) + turned sin(angle). */
const gemmaRotaryEmbedding: Handler = (c) => {
  const angle = n.expandDims(c.need(0), 1)
  const { dtype } = c.need(1)
  const [cos, sin] = [n.cast(n.unary('cos', angle), dtype), n.cast(n.unary('sin', angle), dtype)]
  return [1, 3].map((i) => n.add(n.mul(c.need(i), cos), n.mul(c.need(i + 1), sin)))
}

export const contribRotaryHandlers: HandlerTable = {
  GemmaRotaryEmbedding: gemmaRotaryEmbedding,
  MRotaryEmbedding: mRotaryEmbedding,
  RotaryEmbedding: rotaryEmbedding,
}
