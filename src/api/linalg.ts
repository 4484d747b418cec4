/** Shapes, indexing, products and windows as functions. */

import type {
  ConvOptions,
  ConvTransposeOptions,
  OneHotOptions,
  PadMode,
  PoolOptions,
  ScatterCombiner,
} from '../compose/index.ts'
import * as c from '../compose/index.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { Scalar } from '../scalar/ops.ts'
import { extentsOf, type Shape, showShape } from '../types/shape.ts'
import { named } from './core.ts'
import { checkList, checkOptions, kindOf, kinds, notOperand, type OptionNames, optionNames, whole } from './options.ts'
import type { Excess } from './slicing.ts'
import { many, one, Tensor, type TensorLike, two } from './tensor.ts'

/** The tensor whose method a call is. Throws E_ARGUMENT for what is none. */
function self(name: string, x: Tensor): Tensor {
  const given: unknown = x
  if (given instanceof Tensor) return given
  return named(name, () => {
    throw notOperand(given)
  })
}

/** The same elements in another shape; one extent may be -1. Throws E_SHAPE. */
export const reshape = (x: Tensor, shape: Shape, ...rest: Excess): Tensor => self('reshape', x).reshape(shape, ...rest)
/** Axes reordered; without a list, reversed. */
export const transpose = (x: Tensor, axes?: readonly number[], ...rest: Excess): Tensor =>
  self('transpose', x).transpose(axes, ...rest)
/** Two axes exchanged. */
export const swapaxes = (x: Tensor, a: number, b: number): Tensor => self('swapaxes', x).swapaxes(a, b)
/** One axis moved to another place. */
export const moveaxis = (x: Tensor, from: number, to: number): Tensor => self('moveaxis', x).moveaxis(from, to)
/** Axes of extent 1 repeated, leading axes added. Throws E_SHAPE. */
export const broadcastTo = (x: TensorLike, shape: Shape, ...rest: Excess): Tensor =>
  one('broadcastTo', x, (a) => c.broadcastTo(a, extentsOf(shape, ...rest)))
/** Axes of extent 1 added at positions of the result. */
export const expandDims = (x: Tensor, axes: number | readonly number[], ...rest: Excess): Tensor =>
  self('expandDims', x).expandDims(axes, ...rest)
/** Axes of extent 1 dropped: those named, or all. */
export const squeeze = (x: Tensor, axes?: number | readonly number[], ...rest: Excess): Tensor =>
  self('squeeze', x).squeeze(axes, ...rest)
/** Elements added around each axis (negative: cropped). */
export const pad = (
  x: Tensor,
  widths: readonly (readonly [number, number])[],
  mode?: PadMode,
  value?: Scalar,
): Tensor => self('pad', x).pad(widths, mode, value)
/** Axes reversed in direction: those named, or all. */
export const flip = (x: Tensor, axes?: number | readonly number[], ...rest: Excess): Tensor =>
  self('flip', x).flip(axes, ...rest)
/** The whole repeated along each axis. */
export const tile = (x: Tensor, reps: readonly number[], ...rest: Excess): Tensor => self('tile', x).tile(reps, ...rest)
/** Each element repeated along an axis, or of the flattened tensor. */
export const repeat = (x: Tensor, times: number, axis?: number): Tensor => self('repeat', x).repeat(times, axis)
/** Elements shifted along an axis, around the end. */
export const roll = (x: Tensor, shift: number, axis: number): Tensor => self('roll', x).roll(shift, axis)
/** Equal parts along an axis, or parts of the given sizes. Throws E_SHAPE. */
export const split = (x: Tensor, parts: number | readonly number[], axis = 0): Tensor[] =>
  self('split', x).split(parts, axis)

/** Elements at integer indices along an axis; negatives count from the end, out of range clamps. */
export const take = (x: Tensor, indices: Tensor, axis = 0): Tensor => self('take', x).take(indices, axis)
/** Elements at indices of the same rank along an axis. */
export const takeAlongAxis = (x: Tensor, indices: Tensor, axis: number): Tensor =>
  self('takeAlongAxis', x).takeAlongAxis(indices, axis)
/** Elements (or slices) at coordinates in the last axis of `indices`. */
export const gatherND = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  two('gatherND', x, indices, (a, i) =>
    c.gatherND(c.asNode(a), c.asNode(i), whole(batchDims, 'the number of batch axes')),
  )

function combinerOf(combiner: ScatterCombiner): ScatterCombiner {
  if (typeof combiner === 'string') return combiner
  throw new UserError('E_ARGUMENT', `the combiner is ${kindOf(combiner)}`, {
    help: "give a name, such as 'set' or 'sum'",
  })
}

/** `updates` combined into `x` at coordinates in the last axis of `indices`; out of range drops. */
export const scatterND = (x: Tensor, indices: Tensor, updates: Tensor, combiner: ScatterCombiner = 'set'): Tensor =>
  many('scatterND', [x, indices, updates], ([a = c.asNode(0), i = a, u = a]) =>
    c.scatterND(a, i, u, combinerOf(combiner)),
  )

/** `updates` combined into `x` at indices of the updates' shape along an axis; out of range drops. */
export const scatterAlongAxis = (
  x: Tensor,
  indices: Tensor,
  updates: Tensor,
  axis: number,
  combiner: ScatterCombiner = 'set',
): Tensor =>
  many('scatterAlongAxis', [x, indices, updates], ([a = c.asNode(0), i = a, u = a]) =>
    c.scatterElements(a, i, u, axis, combinerOf(combiner)),
  )

type OneHotCallOptions = Omit<OneHotOptions, 'on' | 'off'>

const oneHotOptions = optionNames<OneHotCallOptions>("{ axis: 0, dtype: 'bf16' }", {
  axis: kinds.whole,
  dtype: kinds.anything,
})

/** 1 where the position along a new axis (the last unless given) equals the index, else 0. */
export const oneHot = (indices: Tensor, depth: number, options: OneHotCallOptions = {}): Tensor =>
  one('oneHot', indices, (a) => {
    checkOptions(options, 'oneHot', oneHotOptions)
    return c.oneHot(a, whole(depth, 'the depth'), options)
  })
/** Zero above a diagonal of the last two axes. */
export const tril = (x: Tensor, diagonal = 0): Tensor =>
  one('tril', x, (a) => c.tril(a, whole(diagonal, 'the diagonal')))
/** Zero below a diagonal of the last two axes. */
export const triu = (x: Tensor, diagonal = 0): Tensor =>
  one('triu', x, (a) => c.triu(a, whole(diagonal, 'the diagonal')))
/** The diagonal of the last two axes. */
export const diagonal = (x: Tensor, offset = 0): Tensor =>
  one('diagonal', x, (a) => c.diagonal(a, whole(offset, 'the offset')))

/** Matrix product with NumPy's broadcasting of leading axes. Throws E_SHAPE. */
export const matmul = (a: Tensor, b: Tensor): Tensor => self('matmul', a).matmul(b)
/** NumPy's dot: matmul; scalars multiply. */
export const dot = (a: Tensor, b: Tensor): Tensor => self('dot', a).dot(b)
/** Products of all pairs of elements. */
export const outer = (a: Tensor, b: Tensor): Tensor => two('outer', a, b, (x, y) => c.outer(c.asNode(x), c.asNode(y)))
/** How many axes are summed, or which of each. Throws E_ARGUMENT for what is neither. */
function pairedAxes(axes: number | readonly [readonly number[], readonly number[]]): typeof axes {
  const given: unknown = axes
  const isPair = Array.isArray(given) && given.length === 2 && given.every(Array.isArray)
  const isCount = Number.isSafeInteger(given) && Number(given) >= 0 && Number(given) <= 64
  if (isPair || isCount) return axes
  throw new UserError('E_ARGUMENT', `the axes are ${typeof given === 'number' ? given : kindOf(given)}`, {
    help: 'give the number of axes to sum over, or two lists of them: [[1], [0]]',
  })
}

/** Sum over pairs of axes. Throws E_SHAPE, E_AXIS. */
export const tensordot = (
  a: Tensor,
  b: Tensor,
  axes: number | readonly [readonly number[], readonly number[]] = 2,
): Tensor => two('tensordot', a, b, (x, y) => c.tensordot(c.asNode(x), c.asNode(y), pairedAxes(axes)))
function equation(spec: string): string {
  const given: unknown = spec
  if (typeof given === 'string') return given
  throw new UserError('E_ARGUMENT', `einsum takes an equation first, and got ${kindOf(given)}`, {
    help: "write einsum('ij,jk->ik', a, b)",
  })
}

/** Einstein summation: `einsum('bij,bjk->bik', a, b)`. Throws E_UNSUPPORTED for an ellipsis or a label repeated in one operand. */
export const einsum = (spec: string, ...operands: readonly Tensor[]): Tensor =>
  many('einsum', operands, (xs) => c.einsum(equation(spec), xs))

/** The bias of a convolution, if there is one. Throws E_ARGUMENT for a bias that is no tensor, and for options that are none. */
const biasOf = <O extends { readonly bias?: Tensor }>(name: string, options: O, known: OptionNames<O>): Tensor[] =>
  named(name, () => {
    checkOptions(options, name, known)
    return options.bias === undefined ? [] : [self('bias', options.bias)]
  })

/** Options of a convolution: stride, padding ('SAME', 'VALID', a number or pairs), dilation, groups and a bias [out]. */
export type ConvolutionOptions = Omit<ConvOptions, 'bias'> & { readonly bias?: Tensor }
/** Options of a transposed convolution. */
export type TransposedOptions = Omit<ConvTransposeOptions, 'bias'> & { readonly bias?: Tensor }

const windowNames = { stride: kinds.counts, padding: kinds.anything, dilation: kinds.counts } as const
const convolutionNames = { ...windowNames, groups: kinds.count, bias: kinds.anything } as const
const convolutionOptions = optionNames<ConvolutionOptions>("{ padding: 'same' }", convolutionNames)
const transposedOptions = optionNames<TransposedOptions>("{ padding: 'same' }", {
  ...convolutionNames,
  outputPadding: kinds.sizes,
})
const poolOptions = optionNames<PoolOptions>("{ stride: 2, padding: 'same' }", {
  ...windowNames,
  ceilMode: kinds.flag,
  countIncludePad: kinds.flag,
})

/** Convolution of x [batch, channels, ...spatial] with weights [out, channels / groups, ...spatial], any number of spatial axes. Throws E_SHAPE. */
export const conv = (x: Tensor, w: Tensor, options: ConvolutionOptions = {}): Tensor =>
  convolution('conv', x, w, options)

function convolution(name: string, x: Tensor, w: Tensor, options: ConvolutionOptions): Tensor {
  const given = biasOf(name, options, convolutionOptions)
  const { bias: _, ...rest } = options
  return many(name, [x, w, ...given], ([a = c.asNode(0), f = a, b]) =>
    c.conv(a, f, b === undefined ? rest : { ...rest, bias: b }),
  )
}

/** Convolution of images: `conv` of x [batch, channels, height, width] with weights [out, channels / groups, height, width]. Throws E_SHAPE. */
export function conv2d(x: Tensor, w: Tensor, options: ConvolutionOptions = {}): Tensor {
  named('conv2d', () => {
    for (const [what, t] of [
      ['data', self('conv2d', x)],
      ['weights', self('conv2d', w)],
    ] as const)
      if (t.rank !== 4)
        throw new UserError('E_SHAPE', `${what} of shape ${showShape(t.shape)}`, {
          help: 'data is [batch, channels, height, width], weights are [out, channels / groups, height, width]; conv takes any number of spatial axes',
        })
  })
  return convolution('conv2d', x, w, options)
}

/** Transposed convolution: weights [channels, out / groups, ...spatial]. Throws E_SHAPE. */
export function convTranspose(x: Tensor, w: Tensor, options: TransposedOptions = {}): Tensor {
  const given = biasOf('convTranspose', options, transposedOptions)
  const { bias: _, ...rest } = options
  return many('convTranspose', [x, w, ...given], ([a = c.asNode(0), f = a, b]) =>
    c.convTranspose(a, f, b === undefined ? rest : { ...rest, bias: b }),
  )
}

function windowOf(kernel: readonly number[]): readonly number[] {
  checkList(kernel, 'the window', '[2, 2], an extent for each of the last axes')
  return Array.from(kernel, (n) => whole(n, 'the extent of a window'))
}

function poolOptionsOf(name: string, options: PoolOptions): PoolOptions {
  checkOptions(options, name, poolOptions)
  return options
}

/** Largest element of each window over the last axes, one extent of `kernel` each; stride is the kernel unless given. */
export const maxPool = (x: Tensor, kernel: readonly number[], options: PoolOptions = {}): Tensor =>
  one('maxPool', x, (a) => c.maxPool(a, windowOf(kernel), poolOptionsOf('maxPool', options)))
/** Mean of each window over the last axes. */
export const averagePool = (x: Tensor, kernel: readonly number[], options: PoolOptions = {}): Tensor =>
  one('averagePool', x, (a) => c.averagePool(a, windowOf(kernel), poolOptionsOf('averagePool', options)))
/** Sliding windows: an axis becomes (count, size). */
export const slidingWindow = (x: Tensor, axis: number, size: number, stride = 1, dilation = 1): Tensor =>
  one('slidingWindow', x, (a) =>
    c.slidingWindow(a, axis, whole(size, 'the size'), whole(stride, 'the stride'), whole(dilation, 'the dilation')),
  )
/** Mean over the spatial axes of [batch, channels, ...spatial], kept as extents of 1. */
export const globalAveragePool = (x: Tensor): Tensor => one('globalAveragePool', x, c.globalAveragePool)
/** Largest element over the spatial axes, kept as extents of 1. */
export const globalMaxPool = (x: Tensor): Tensor => one('globalMaxPool', x, c.globalMaxPool)
