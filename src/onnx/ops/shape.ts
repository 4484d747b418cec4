/** Operators that rearrange elements or speak of shapes: reshape to slice, shape queries, constants, ranges. */
import { UserError } from '../../diagnostics/errors.ts'
import { readElement } from '../../scalar/host.ts'
import { isFloat } from '../../types/dtype.ts'
import { normaliseAxis, type Shape, showShape, sizeOf } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { attributeType } from '../proto.ts'
import { onCodes } from './cast.ts'

const mismatch = (message: string): UserError => new UserError('E_SHAPE', message)

/** 0 keeps the input's extent (unless `allowzero`), -1 takes what is left. */
const reshape: Handler = (c) => {
  const x = c.need(0)
  const wanted = c.intsFrom('shape', 1) ?? []
  const zero = c.flag('allowzero', false)
  const shape = wanted.map((d, i) => (d === 0 && !zero ? (x.shape[i] ?? 0) : d))
  const free = shape.indexOf(-1)
  if (free >= 0) {
    const rest = shape.reduce((p, d, i) => (i === free ? p : p * d), 1)
    const total = sizeOf(x.shape)
    if (rest === 0 ? total !== 0 : total % rest !== 0)
      throw mismatch(`cannot reshape ${showShape(x.shape)} to ${showShape(wanted)}`)
    shape[free] = rest === 0 ? 0 : total / rest
  }
  return n.reshape(x, shape)
}

const flatten: Handler = (c) => {
  const x = c.need(0)
  const axis = c.int('axis', 1)
  const at = axis < 0 ? axis + x.shape.length : axis
  return n.reshape(x, [sizeOf(x.shape.slice(0, at)), sizeOf(x.shape.slice(at))])
}

const transpose: Handler = (c) => {
  const x = c.need(0)
  return n.permute(x, c.ints('perm') ?? x.shape.map((_, i) => x.shape.length - 1 - i))
}

const squeeze: Handler = (c) => n.squeeze(c.need(0), c.intsFrom('axes', 1))
const unsqueeze: Handler = (c) => n.expandDims(c.need(0), c.intsFrom('axes', 1) ?? [])

const concat: Handler = (c) => {
  const xs = c.all()
  return n.concat(xs, c.axis(0, xs[0]?.shape.length ?? 0))
}

const split: Handler = (c) => {
  const x = c.need(0)
  const axis = c.axis(0, x.shape.length)
  const extent = x.shape[axis] ?? 0
  const given = c.intsFrom('split', 1)
  if (given !== undefined) return n.split(x, given, axis)
  const count = c.int('num_outputs', c.outputs)
  if (count !== c.outputs) throw new UserError('E_ONNX_MALFORMED', `a split into ${count} has ${c.outputs} outputs`)
  const part = Math.ceil(extent / count)
  return n.split(
    x,
    Array.from({ length: count }, (_, i) => Math.max(0, Math.min(part, extent - i * part))),
    axis,
  )
}

/** One axis of a slice with any step. */
function sliceOne(x: n.Node, axis: number, start: number, end: number, step: number): n.Node {
  const d = x.shape[axis] ?? 0
  if (step === 0) throw new UserError('E_ARGUMENT', 'a slice with step 0')
  const from = start < 0 ? start + d : start
  const to = end < 0 ? end + d : end
  const clamp = (v: number, lo: number, hi: number): number => Math.min(hi, Math.max(lo, v))
  if (step > 0) {
    const s = clamp(from, 0, d)
    return n.sliceAxis(x, axis, s, Math.max(s, clamp(to, 0, d)), step)
  }
  if (d === 0) return x
  // Backwards: the flipped axis is sliced forwards. An end below -d stays before the first element.
  const s = d - 1 - clamp(from, 0, d - 1)
  const e = d - 1 - clamp(to, -1, d - 1)
  return n.sliceAxis(n.flip(x, [axis]), axis, s, Math.max(s, e), -step)
}

const slice: Handler = (c) => {
  const x = c.need(0)
  const starts = c.intsFrom('starts', 1) ?? []
  const ends = c.intsFrom('ends', 2) ?? []
  const axes = c.intsFrom('axes', 3) ?? starts.map((_, i) => i)
  const steps = c.intsFrom('steps', 4) ?? starts.map(() => 1)
  return axes.reduce(
    (y, a, i) => sliceOne(y, normaliseAxis(a, x.shape.length), starts[i] ?? 0, ends[i] ?? 0, steps[i] ?? 1),
    x,
  )
}

const padModes = { constant: 'constant', reflect: 'reflect', edge: 'edge', wrap: 'wrap' } as const
const isPadMode = (s: string): s is keyof typeof padModes => Object.hasOwn(padModes, s)

export const pad: Handler = (c) => {
  const x = c.need(0)
  const rank = x.shape.length
  const pads = c.intsFrom('pads', 1) ?? c.ints('paddings') ?? []
  const given = c.opt(3) === undefined ? x.shape.map((_, i) => i) : c.intsOf(3, 'axes')
  const axes = given.map((a) => normaliseAxis(a, rank))
  const widths = x.shape.map((_, i): [number, number] => {
    const at = axes.indexOf(i)
    return at < 0 ? [0, 0] : [pads[at] ?? 0, pads[at + axes.length] ?? 0]
  })
  const mode = c.string('mode', 'constant')
  if (!isPadMode(mode)) throw new UserError('E_ONNX_MALFORMED', `Pad has mode "${mode}"`)
  if (mode !== 'constant') return n.pad(x, widths, padModes[mode])
  const value = c.opt(2)
  if (value === undefined) return n.pad(x, widths, 'constant', c.float('value', 0))
  if (c.services.isStatic(value)) {
    const t = c.host(2, 'constant value')
    return n.pad(x, widths, 'constant', readElement(t.data, t.dtype, 0))
  }
  // A computed padding value: padding stays data.
  const inside = n.pad(n.full(x.shape, true, 'bool'), widths, 'constant', false)
  return n.where(inside, n.pad(x, widths), n.asScalar(value))
}

const expand: Handler = (c) => {
  const x = c.need(0)
  const wanted = c.intsOf(1, 'shape')
  const rank = Math.max(wanted.length, x.shape.length)
  const own = [...new Array<number>(rank - x.shape.length).fill(1), ...x.shape]
  const to = [...new Array<number>(rank - wanted.length).fill(1), ...wanted]
  return n.broadcastTo(
    x,
    own.map((d, i) => (d === 1 ? (to[i] ?? 1) : d)),
  )
}

const tile: Handler = (c) => n.tile(c.need(0), c.intsOf(1, 'repeats'))

/** The shape between two axes: [start, end). */
/** The input whose extents are asked for. */
function extentsOf(c: OpContext): n.Node {
  const x = c.need(0)
  return c.services.hasRoom(x) ? c.fail('how many results its input has depends on data') : x
}

const shapeOf: Handler = (c) => {
  const { shape } = extentsOf(c)
  const clamp = (v: number): number => Math.min(shape.length, Math.max(0, v < 0 ? v + shape.length : v))
  return n.integers(shape.slice(clamp(c.int('start', 0)), clamp(c.int('end', shape.length))))
}

const size: Handler = (c) => n.integers([sizeOf(extentsOf(c).shape)], [])

const constantOfShape: Handler = (c) => {
  const shape = c.intsOf(0, 'shape')
  const t = c.tensor('value')
  if (t === undefined) return n.full(shape, 0, 'f32')
  return n.full(shape, readElement(t.data, t.dtype, 0), t.dtype)
}

const constantNode: Handler = (c) => {
  const [a] = c.node.attribute
  switch (a?.name) {
    case 'value': {
      const t = c.tensor('value')
      return t === undefined ? c.fail('its value is not a tensor') : n.literal(t)
    }
    case 'value_float':
      return n.floats([c.float('value_float', 0)], [])
    case 'value_floats': {
      const v = c.floats('value_floats') ?? []
      return n.floats(v, [v.length])
    }
    case 'value_int':
      return n.integers([c.int('value_int', 0)], [])
    case 'value_ints':
      return n.integers(c.ints('value_ints') ?? [])
    default:
      return c.fail(
        a?.type === attributeType.STRING || a?.type === attributeType.STRINGS
          ? 'strings are not imported'
          : `its value is given as "${a?.name ?? 'nothing'}"`,
      )
  }
}

/** start + i * delta, as many as reach limit. */
const range: Handler = (c) => {
  const start = c.need(0)
  const [s = 0] = c.numbersOf(0, 'start')
  const [limit = 0] = c.numbersOf(1, 'limit')
  const [delta = 1] = c.numbersOf(2, 'delta')
  const count = Math.max(0, Math.ceil((limit - s) / delta))
  if (!Number.isFinite(count)) throw new UserError('E_ARGUMENT', `a range from ${s} to ${limit} by ${delta}`)
  const work = start.dtype === 'f16' || start.dtype === 'bf16' ? 'f32' : start.dtype
  const i = n.iota([count], 0, work)
  return n.cast(n.add(n.mul(i, isFloat(work) ? delta : Math.trunc(delta)), s), start.dtype)
}

/** Blocks of channels become blocks of space; DCR keeps depth last in the split, CRD first. */
const depthToSpace: Handler = (c) => {
  const x = c.need(0)
  const [b = 1, d = 1, h = 1, w = 1] = x.shape
  const k = c.int('blocksize', 1)
  const rest = d / (k * k)
  const y =
    c.string('mode', 'DCR') === 'DCR'
      ? n.permute(n.reshape(x, [b, k, k, rest, h, w]), [0, 3, 4, 1, 5, 2])
      : n.permute(n.reshape(x, [b, rest, k, k, h, w]), [0, 1, 4, 2, 5, 3])
  return n.reshape(y, [b, rest, h * k, w * k])
}

const spaceToDepth: Handler = (c) => {
  const x = c.need(0)
  const [b = 1, d = 1, h = 1, w = 1] = x.shape
  const k = c.int('blocksize', 1)
  const parts = n.reshape(x, [b, d, h / k, k, w / k, k])
  const perm = c.string('mode', 'DCR') === 'CRD' ? [0, 1, 3, 5, 2, 4] : [0, 3, 5, 1, 2, 4]
  return n.reshape(n.permute(parts, perm), [b, d * k * k, h / k, w / k])
}

/** Centres each axis in its new extent: crops or zero-pads, the odd element after. */
const centerCropPad: Handler = (c) => {
  const x = c.need(0)
  const wanted = c.intsOf(1, 'shape')
  const axes = c.ints('axes') ?? x.shape.map((_, i) => i)
  return axes.reduce((y, a, i) => {
    const axis = normaliseAxis(a, x.shape.length)
    const have = y.shape[axis] ?? 0
    const want = wanted[i] ?? have
    if (want <= have) {
      const from = Math.floor((have - want) / 2)
      return n.sliceAxis(y, axis, from, from + want)
    }
    const before = Math.floor((want - have) / 2)
    return n.pad(
      y,
      y.shape.map((_, k) => (k === axis ? [before, want - have - before] : [0, 0])),
    )
  }, x)
}

const eyeLike: Handler = (c) => {
  const x = c.need(0)
  const dtype = c.has('dtype') ? c.dtype('dtype') : x.dtype
  const shape: Shape = x.shape
  c.requireShape(shape.length === 2, shape, 'the input')
  const diagonal = n.sub(n.iota(shape, 1, 'i64'), n.iota(shape, 0, 'i64'))
  return n.cast(n.compare('eq', diagonal, c.int('k', 0)), dtype)
}

/** Keeps the upper (or lower) triangle from diagonal k, which may be computed. */
export const trilu: Handler = (c) => {
  const x = c.need(0)
  const r = x.shape.length
  c.requireShape(r >= 2, x.shape, 'the input')
  const diagonal = n.sub(n.iota(x.shape, r - 1, 'i64'), n.iota(x.shape, r - 2, 'i64'))
  const given = c.opt(1)
  const k = given === undefined ? n.full([], 0, 'i64') : n.asScalar(given)
  const keep = n.compare(c.flag('upper', true) ? 'ge' : 'le', diagonal, k)
  return n.where(keep, x, n.filled(x, x.shape, 0))
}

export const shapeHandlers: HandlerTable = {
  CenterCropPad: centerCropPad,
  Concat: onCodes(concat),
  Constant: constantNode,
  ConstantOfShape: constantOfShape,
  DepthToSpace: depthToSpace,
  Expand: onCodes(expand),
  EyeLike: eyeLike,
  Flatten: onCodes(flatten),
  Identity: (c) => c.value(0),
  Pad: pad,
  Range: range,
  Reshape: onCodes(reshape),
  Shape: shapeOf,
  Size: size,
  Slice: onCodes(slice),
  SpaceToDepth: spaceToDepth,
  Split: onCodes(split),
  Squeeze: onCodes(squeeze),
  Tile: onCodes(tile),
  Transpose: onCodes(transpose),
  Trilu: trilu,
  Unsqueeze: onCodes(unsqueeze),
}
