/** Attention and rotary position embedding, as plain compositions: contraction, masked softmax, contraction. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, isFloat } from '../types/dtype.ts'
import { broadcastShapes, type Shape, showShape } from '../types/shape.ts'
import { expandDims, reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { add, cast, compare, div, logicalAnd, mul, sub, tanh, unary, where } from './elementwise.ts'
import { softmax } from './nn.ts'
import { floats, iota } from './source.ts'
import { concat, sliceAxis, stack } from './views.ts'

/** Options of `attention`. */
export interface AttentionOptions {
  /** bool: false hides the key. float: added to the scores. Broadcasts to [..., heads, queries, keys]. */
  readonly mask?: Node | undefined
  /** Query i sees keys up to i + (keys - queries). */
  readonly causal?: boolean | undefined
  /** Causal offset: query i sees keys up to i + offset. */
  readonly causalOffset?: number | undefined
  /** Each query sees at most this many keys up to its own position. */
  readonly window?: number | undefined
  /** Factor of the scores (default: 1 / sqrt(width)). */
  readonly scale?: number | undefined
  /** Scores become cap * tanh(scores / cap). */
  readonly softcap?: number | undefined
}

function causalMask(queries: number, keys: number, offset: number, width: number | undefined): Node {
  const shape = [queries, keys]
  const key = iota(shape, 1)
  const last = add(iota(shape, 0), offset)
  const past = compare('le', key, last)
  return width === undefined ? past : logicalAnd(past, compare('gt', key, sub(last, width)))
}

/** A mask [..., heads, queries, keys] beside scores whose heads are split into [kv heads, group]. */
function splitHeads(mask: Node, kvHeads: number): Node {
  const heads = mask.shape.at(-3)
  if (heads === undefined) return mask
  const [lead, tail] = [mask.shape.slice(0, -3), mask.shape.slice(-2)]
  return reshape(mask, heads === 1 ? [...lead, 1, 1, ...tail] : [...lead, kvHeads, heads / kvHeads, ...tail])
}

/**
 * softmax(scale q k^T, masked) v (Vaswani et al. 2017). q [..., heads, queries, width], k [..., kv heads, keys, width],
 * v [..., kv heads, keys, out]; heads are a multiple of kv heads (grouped queries). Leading axes broadcast; rank 2 has no
 * heads. A query that sees no key gives NaN. Throws E_SHAPE.
 */
export function attention(q: Node, k: Node, v: Node, options: AttentionOptions = {}): Node {
  const [queries, width] = q.shape.slice(-2)
  const keys = k.shape.at(-2)
  const rank = q.shape.length
  if (
    rank < 2 ||
    queries === undefined ||
    width === undefined ||
    keys === undefined ||
    k.shape.length !== rank ||
    v.shape.length !== rank
  )
    throw new UserError(
      'E_SHAPE',
      `attention of shapes ${showShape(q.shape)}, ${showShape(k.shape)} and ${showShape(v.shape)}`,
      {
        help: 'q, k and v have one rank, at least 2',
      },
    )
  const heads = q.shape.at(-3) ?? 1
  const kvHeads = k.shape.at(-3) ?? 1
  const grouped = heads !== kvHeads && kvHeads !== 1 && heads !== 1
  if (grouped && heads % kvHeads !== 0)
    throw new UserError('E_SHAPE', `${heads} query heads do not divide into ${kvHeads} key heads`, {
      help: 'the number of query heads is a multiple of the number of key heads',
    })
  const query = grouped ? reshape(q, [...q.shape.slice(0, -3), kvHeads, heads / kvHeads, queries, width]) : q
  // Labels: a queries, b keys, c width, d out; then one for each leading axis, and g for the group.
  const lead = q.shape
    .slice(0, -2)
    .map((_, i) => labelAt(4 + i))
    .join('')
  const g = grouped ? labelAt(4 + lead.length) : ''
  const raw = contractLabelled(query, `${lead}${g}ac`, k, `${lead}bc`, `${lead}${g}ab`)
  const work = computeDType(raw.dtype)
  let scores = mul(cast(raw, work), options.scale ?? 1 / Math.sqrt(width))
  if (options.softcap !== undefined) scores = mul(tanh(div(scores, options.softcap)), options.softcap)
  if (options.mask !== undefined) {
    const mask = grouped ? splitHeads(options.mask, kvHeads) : options.mask
    scores = mask.dtype === 'bool' ? where(mask, scores, Number.NEGATIVE_INFINITY) : add(scores, cast(mask, work))
  }
  if (options.causal === true || options.window !== undefined) {
    const mask = causalMask(queries, keys, options.causalOffset ?? keys - queries, options.window)
    scores = where(mask, scores, Number.NEGATIVE_INFINITY)
  }
  const weights = cast(softmax(scores, -1), raw.dtype)
  const out = contractLabelled(weights, `${lead}${g}ab`, v, `${lead}bd`, `${lead}${g}ad`)
  if (!grouped) return out
  return reshape(out, [...out.shape.slice(0, -4), heads, ...out.shape.slice(-2)])
}

/** Rotation angles positions * base^(-2i / width): positions.shape + [width / 2], f32. Throws E_SHAPE for an odd width. */
export function rotaryAngles(positions: Node, width: number, base = 10000): Node {
  if (width % 2 !== 0)
    throw new UserError('E_SHAPE', `rotary embedding of an odd width ${width}`, {
      help: 'the last axis is rotated in pairs: its extent must be even',
    })
  const rates = floats(Array.from({ length: width / 2 }, (_, i) => base ** ((-2 * i) / width)))
  return mul(expandDims(cast(positions, 'f32'), -1), rates)
}

/** Rotates pairs of the last axis by angles with the given cosines and sines [..., width / 2]: pairs (i, i + width / 2), or neighbours when interleaved. */
export function rotate(x: Node, cosines: Node, sines: Node, interleaved = false): Node {
  if (!isFloat(x.dtype)) return rotate(cast(x, 'f32'), cosines, sines, interleaved)
  const width = x.shape.at(-1) ?? 0
  if (width % 2 !== 0 || x.shape.length === 0)
    throw new UserError('E_SHAPE', `rotary embedding of ${showShape(x.shape)}`, {
      help: 'the last extent must be even',
    })
  const half = width / 2
  const [a, b] = interleaved
    ? [sliceAxis(x, -1, 0, width, 2), sliceAxis(x, -1, 1, width, 2)]
    : [sliceAxis(x, -1, 0, half), sliceAxis(x, -1, half, width)]
  const work = computeDType(x.dtype)
  const [u, v, c, s] = [cast(a, work), cast(b, work), cast(cosines, work), cast(sines, work)]
  const first = sub(mul(u, c), mul(v, s))
  const second = add(mul(v, c), mul(u, s))
  if (!interleaved) return cast(concat([first, second], -1), x.dtype)
  const shape: Shape = broadcastShapes(x.shape, [...first.shape.slice(0, -1), width])
  return cast(reshape(stack([first, second], -1), shape), x.dtype)
}

/** Options of `rotary`. */
export interface RotaryOptions {
  /** Positions of the rows (default 0, 1, ...): broadcast against x without its last axis. */
  readonly positions?: Node | undefined
  readonly base?: number | undefined
  readonly interleaved?: boolean | undefined
}

/** Su et al. 2021: x [..., length, width] with pairs of the last axis rotated by their position. Throws E_SHAPE for an odd width. */
export function rotary(x: Node, options: RotaryOptions = {}): Node {
  const length = x.shape.at(-2)
  if (length === undefined)
    throw new UserError('E_SHAPE', `rotary embedding of ${showShape(x.shape)}`, { help: 'x is [..., length, width]' })
  const angles = rotaryAngles(options.positions ?? iota([length], 0), x.shape.at(-1) ?? 0, options.base)
  return rotate(x, unary('cos', angles), unary('sin', angles), options.interleaved)
}
