/** What a recurrent layer's operands must be: every shape follows from those of X and R, the direction and the layout. */
import { UserError } from '../../diagnostics/errors.ts'
import { isInteger } from '../../types/dtype.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import type { OpContext } from '../context.ts'

export interface LayerShape {
  readonly batchFirst: boolean
  readonly direction: 'forward' | 'reverse' | 'bidirectional'
  readonly directions: number
  readonly hidden: number
  readonly steps: number
  readonly batch: number
}

const isDirection = (s: string): s is LayerShape['direction'] =>
  s === 'forward' || s === 'reverse' || s === 'bidirectional'

/**
 * The shape of a layer with so many gates, whose initial states are the inputs `states`. Throws E_SHAPE and E_DTYPE for operands that do
 * not fit each other, E_ONNX_MALFORMED for attributes that there are not.
 */
export function checkLayer(c: OpContext, gates: number, states: readonly number[]): LayerShape {
  const op = c.node.opType
  const malformed = (what: string): UserError => new UserError('E_ONNX_MALFORMED', `${op}: ${what}`)
  const layout = c.int('layout', 0)
  if (layout !== 0 && layout !== 1) throw malformed(`layout is ${layout}, not 0 or 1`)
  const direction = c.string('direction', 'forward')
  if (!isDirection(direction)) throw malformed(`there is no direction ${JSON.stringify(direction)}`)
  const [x, r] = [c.need(0).shape, c.need(2).shape]
  c.requireShape(x.length === 3, x, 'X, of rank 3,')
  c.requireShape(r.length === 3, r, 'R, of rank 3,')
  const batchFirst = layout === 1
  const [first = 0, second = 0, features = 0] = x
  const [steps, batch] = batchFirst ? [second, first] : [first, second]
  const directions = direction === 'bidirectional' ? 2 : 1
  const hidden = c.int('hidden_size', r[2] ?? 0)
  const state = batchFirst ? [batch, directions, hidden] : [directions, batch, hidden]
  const wanted: readonly (readonly [input: number, name: string, shape: readonly number[]])[] = [
    [1, 'W', [directions, gates * hidden, features]],
    [2, 'R', [directions, gates * hidden, hidden]],
    [3, 'B', [directions, 2 * gates * hidden]],
    [4, 'sequence_lens', [batch]],
    ...states.map((i) => [i, i === 5 ? 'initial_h' : 'initial_c', state] as const),
    ...(gates === 4 ? [[7, 'P', [directions, 3 * hidden]] as const] : []),
  ]
  for (const [input, name, shape] of wanted) {
    const given = input < 3 ? c.need(input) : c.opt(input)
    if (given === undefined) continue
    if (!sameShape(given.shape, shape))
      throw new UserError(
        'E_SHAPE',
        `${op}: ${name} has the shape ${showShape(given.shape)}, not ${showShape(shape)}`,
        {
          help: `X is ${showShape(x)} (layout ${layout}), the direction ${direction}, the hidden size ${hidden}`,
        },
      )
    const counts = input === 4
    if (counts ? !isInteger(given.dtype) : given.dtype !== c.need(0).dtype)
      throw new UserError('E_DTYPE', `${op}: ${name} is ${given.dtype}`, {
        help: counts ? 'lengths are integers' : `X is ${c.need(0).dtype}`,
      })
  }
  return { batchFirst, direction, directions, hidden, steps, batch }
}
