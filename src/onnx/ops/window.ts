/** Convolutions and poolings. */
import { type Padding, paddingPairs } from '../../compose/padding.ts'
import { convTranspose } from '../../compose/transposed.ts'
import { averagePool, conv, maxPool } from '../../compose/window.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { rowMajorStrides } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** Padding up to which windows are laid out. */
const maxPadding = 2 ** 20
/** Elements of a block up to which one is added to the others. */
const maxCells = 2 ** 12

/** ONNX lists all leading pads, then all trailing ones. */
export function pairsOf(pads: readonly number[]): [number, number][] {
  if (pads.length % 2 !== 0 || pads.some((p) => Math.abs(p) > maxPadding))
    throw new UserError('E_ONNX_MALFORMED', `pads of [${pads.join(', ')}]`)
  const count = pads.length / 2
  return Array.from({ length: count }, (_, i) => [pads[i] ?? 0, pads[i + count] ?? 0])
}

/** Padding from `auto_pad` or `pads`. */
export function paddingOf(c: OpContext): Padding {
  const auto = c.string('auto_pad', 'NOTSET')
  switch (auto) {
    case 'SAME_UPPER':
      return 'same'
    case 'SAME_LOWER':
      return 'same-lower'
    case 'VALID':
      return 'valid'
    case 'NOTSET':
    case '': {
      const pads = c.ints('pads')
      return pads === undefined ? 'valid' : pairsOf(pads)
    }
    default:
      throw new UserError('E_ONNX_MALFORMED', `${c.node.opType} has auto_pad "${auto}"`)
  }
}

/** Options every windowed operator shares; ONNX's default stride is 1. */
function windowOptions(c: OpContext): {
  stride: number | readonly number[]
  dilation?: readonly number[]
  padding: Padding
} {
  const dilation = c.ints('dilations')
  return { stride: c.ints('strides') ?? 1, padding: paddingOf(c), ...(dilation === undefined ? {} : { dilation }) }
}

/** Convolution of given operands with the node's attributes (the quantised convolutions share it). */
export function convolve(c: OpContext, x: n.Node, w: n.Node, bias?: n.Node): n.Node {
  return conv(x, w, { ...windowOptions(c), groups: c.int('group', 1), ...(bias === undefined ? {} : { bias }) })
}

export function convTransposeOf(c: OpContext, bias: n.Node | undefined, pads: readonly number[] | undefined): n.Node {
  const x = c.need(0)
  const w = c.need(1)
  const kernel = w.shape.slice(2)
  const stride = c.ints('strides') ?? kernel.map(() => 1)
  const dilation = c.ints('dilations') ?? kernel.map(() => 1)
  const extra = c.ints('output_padding') ?? kernel.map(() => 0)
  const wanted = c.ints('output_shape')
  const auto = c.string('auto_pad', 'NOTSET')
  const given = pads ?? [...kernel, ...kernel].map(() => 0)
  const same = auto === 'SAME_UPPER' || auto === 'SAME_LOWER'
  c.requireLength('pads', given, 2 * kernel.length)
  const extents = wanted ?? (same ? kernel.map((_, i) => (x.shape[i + 2] ?? 0) * (stride[i] ?? 1)) : undefined)
  // What the extents leave over is padding: the odd element goes after for SAME_UPPER, else before.
  const padding = kernel.map((k, i): [number, number] => {
    const want = extents?.[extents.length - kernel.length + i]
    if (want === undefined) return [given[i] ?? 0, given[i + kernel.length] ?? 0]
    const span = (k - 1) * (dilation[i] ?? 1) + 1
    const total = ((x.shape[i + 2] ?? 0) - 1) * (stride[i] ?? 1) + (extra[i] ?? 0) + span - want
    const less = Math.floor(total / 2)
    return auto === 'SAME_UPPER' ? [less, total - less] : [total - less, less]
  })
  const options = { stride, dilation, padding, outputPadding: extra, groups: c.int('group', 1) }
  return convTranspose(x, w, bias === undefined ? options : { ...options, bias })
}

const kernelOf = (c: OpContext): number[] => c.ints('kernel_shape') ?? c.fail('it has no kernel_shape')

const poolOptions = (c: OpContext) => ({ ...windowOptions(c), ceilMode: c.flag('ceil_mode', false) })

/**
 * The flat index of each window's maximum in the unpadded input: an arg-max over the flattened window gives the offset, and
 * the offset and position give coordinates. `storage_order` 1 counts column-major in the last two axes.
 */
function maxIndices(c: OpContext, x: n.Node, pooled: n.Node): n.Node {
  const kernel = kernelOf(c)
  const { stride, dilation, padding } = windowOptions(c)
  const count = kernel.length
  const strides = typeof stride === 'number' ? kernel.map(() => stride) : [...stride]
  const dilations = dilation ?? kernel.map(() => 1)
  const spans = kernel.map((k, i) => (k - 1) * (dilations[i] ?? 1) + 1)
  const lows = paddingPairs(padding, x.shape.slice(2), spans, strides).map(([low]) => low)
  const outs = pooled.shape.slice(2)
  const widths = x.shape.map((d, a): [number, number] => {
    if (a < 2) return [0, 0]
    const i = a - 2
    const reach = ((outs[i] ?? 1) - 1) * (strides[i] ?? 1) + ((kernel[i] ?? 1) - 1) * (dilations[i] ?? 1) + 1
    return [lows[i] ?? 0, reach - (lows[i] ?? 0) - d]
  })
  // A padded cell never wins: it takes the least value, and every window starts with a cell of the input before it in order.
  const padded = n.pad(
    x,
    widths,
    'constant',
    x.dtype.startsWith('u') ? 0 : x.dtype === 'i8' ? -128 : Number.NEGATIVE_INFINITY,
  )
  let view = padded
  for (let i = 0; i < count; i++)
    view = n.slidingWindow(view, 2 + 2 * i, kernel[i] ?? 1, strides[i] ?? 1, dilations[i] ?? 1)
  const perm = [0, 1, ...outs.map((_, i) => 2 + 2 * i), ...outs.map((_, i) => 3 + 2 * i)]
  const flat = n.reshape(n.permute(view, perm), [...pooled.shape, kernel.reduce((a, b) => a * b, 1)])
  const offset = n.argReduce(flat, 'argmax', flat.shape.length - 1)
  const steps = rowMajorStrides(kernel)
  const inner = rowMajorStrides(x.shape)
  const order = c.int('storage_order', 0)
  const last = x.shape.length
  const columnMajor = (a: number): number => {
    if (order === 0 || count < 2) return inner[a] ?? 1
    if (a === last - 1) return x.shape[last - 2] ?? 1
    return a === last - 2 ? 1 : (inner[a] ?? 1)
  }
  const parts = [0, 1].map((a) => n.mul(n.iota(pooled.shape, a, 'i64'), inner[a] ?? 1))
  for (let i = 0; i < count; i++) {
    const k = n.rem(n.div(offset, steps[i] ?? 1), kernel[i] ?? 1)
    const base = n.sub(n.mul(n.iota(pooled.shape, i + 2, 'i64'), strides[i] ?? 1), lows[i] ?? 0)
    parts.push(n.mul(n.add(base, n.mul(k, dilations[i] ?? 1)), columnMajor(i + 2)))
  }
  return parts.reduce((a, b) => n.add(a, b))
}

export const maxPoolOf: Handler = (c) => {
  const x = c.need(0)
  const y = maxPool(x, kernelOf(c), poolOptions(c))
  return c.wants(1) ? [y, maxIndices(c, x, y)] : [y]
}

export const averagePoolOf: Handler = (c) =>
  averagePool(c.need(0), kernelOf(c), { ...poolOptions(c), countIncludePad: c.flag('count_include_pad', false) })

/** p-th root of the sum of p-th powers of magnitudes in each window. */
const lpPool: Handler = (c) => {
  const x = c.need(0)
  const p = c.int('p', 2)
  const kernel = kernelOf(c)
  const powers = n.pow(n.unary('abs', x), p)
  const area = kernel.reduce((a, b) => a * b, 1)
  // The mean over whole windows (padding counts as 0), times their size, is the sum.
  const sums = n.mul(averagePool(powers, kernel, { ...poolOptions(c), countIncludePad: true }), area)
  return n.pow(sums, 1 / p)
}

const spatial = (x: n.Node): number[] => n.axesFrom(2, x.shape.length)

const globalLpPool: Handler = (c) => {
  const x = c.need(0)
  const p = c.int('p', 2)
  return n.pow(n.sum(n.pow(n.unary('abs', x), p), spatial(x), true), 1 / p)
}

/** Sums blocks back into the image they were cut from: for each kernel offset, positions spread by the stride and shifted. */
const col2Im: Handler = (c) => {
  const x = c.need(0)
  const image = c.intsOf(1, 'image_shape')
  const kernel = c.intsOf(2, 'block_shape')
  const stride = c.ints('strides') ?? kernel.map(() => 1)
  const dilation = c.ints('dilations') ?? kernel.map(() => 1)
  const pads = pairsOf(c.ints('pads') ?? [...kernel, ...kernel].map(() => 0))
  c.requireShape(x.shape.length === 3, x.shape, 'the input')
  c.requireLength('block_shape', kernel, image.length)
  c.requireLength('strides', stride, image.length)
  c.requireLength('dilations', dilation, image.length)
  c.requireLength('pads', pads.flat(), 2 * image.length)
  const [batch = 1, rows = 1] = x.shape
  const cells = kernel.reduce((a, b) => a * b, 1)
  const channels = rows / cells
  c.requireShape(Number.isInteger(channels), x.shape, `the input of blocks [${kernel.join(', ')}]`)
  if (cells > maxCells) c.fail(`its blocks have more than ${maxCells} elements`)
  const positions = image.map(
    (d, i) =>
      Math.floor(
        (d + (pads[i]?.[0] ?? 0) + (pads[i]?.[1] ?? 0) - ((kernel[i] ?? 1) - 1) * (dilation[i] ?? 1) - 1) /
          (stride[i] ?? 1),
      ) + 1,
  )
  const blocks = n.reshape(x, [batch, channels, cells, ...positions])
  const steps = rowMajorStrides(kernel)
  let total: n.Node | undefined
  for (let cell = 0; cell < cells; cell++) {
    const one = n.dilate(n.indexAxis(blocks, 2, cell), [0, 0, ...stride.map((s) => s - 1)])
    const widths = image.map((d, i): [number, number] => {
      const at = (Math.floor(cell / (steps[i] ?? 1)) % (kernel[i] ?? 1)) * (dilation[i] ?? 1) - (pads[i]?.[0] ?? 0)
      return [at, d - at - (one.shape[i + 2] ?? 0)]
    })
    const placed = n.pad(one, [[0, 0], [0, 0], ...widths])
    total = total === undefined ? placed : n.add(total, placed)
  }
  return total ?? n.filled(x, [batch, channels, ...image], 0)
}

export const windowHandlers: HandlerTable = {
  AveragePool: averagePoolOf,
  Col2Im: col2Im,
  Conv: (c) => convolve(c, c.need(0), c.need(1), c.opt(2)),
  ConvTranspose: (c) => convTransposeOf(c, c.opt(2), c.ints('pads')),
  GlobalAveragePool: (c) => n.mean(c.need(0), spatial(c.need(0)), true),
  GlobalLpPool: globalLpPool,
  GlobalMaxPool: (c) => n.reduceMax(c.need(0), spatial(c.need(0)), true),
  LpPool: lpPool,
  MaxPool: maxPoolOf,
}
