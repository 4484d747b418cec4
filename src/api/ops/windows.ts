/** Convolution, pooling and sliding windows over the last axes of [batch, channels, ...spatial]. */
import type { PoolOptions, WindowOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { showShape } from '../../types/shape.ts'
import { checkList, checkOptions, kinds, type OptionNames, optionNames, whole } from '../calls/options.ts'
import { named } from '../tensor/core.ts'
import { self } from '../tensor/self.ts'
import { many, one, type Tensor } from '../tensor/tensor.ts'

/** The bias of a convolution, if there is one. Throws E_ARGUMENT for a bias that is no tensor, and for options that are none. */
const biasOf = <O extends { readonly bias?: Tensor }>(name: string, options: O, known: OptionNames<O>): Tensor[] =>
  named(name, () => {
    checkOptions(options, name, known)
    return options.bias === undefined ? [] : [self('bias', options.bias)]
  })

/** Options of a convolution. */
export interface ConvolutionOptions extends WindowOptions {
  /** Groups of channels that do not see each other; 1 unless given. */
  readonly groups?: number
  /** [out channels], added to every position. */
  readonly bias?: Tensor
}

/** Options of a transposed convolution. */
export interface TransposedOptions extends ConvolutionOptions {
  /** Extra elements after each spatial axis of the result; none unless given. */
  readonly outputPadding?: number | readonly number[]
}

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

/**
 * Convolution (cross-correlation, as in every ML library) of x [batch, channels, ...spatial] with weights [out, channels /
 * groups, ...spatial], any number of spatial axes: [batch, out, ...positions]. The common dtype.
 * @throws E_SHAPE for shapes that do not fit, E_ARGUMENT for what is no tensor and for options that are none
 * @example
 * conv(tensor([[[0, 1, 2, 3, 4]]]), ones([1, 1, 3])) // [[[3, 6, 9]]]
 * conv(tensor([[[0, 1, 2, 3, 4]]]), ones([1, 1, 3]), { padding: 'same', stride: 2 }) // [[[1, 6, 7]]]
 */
export const conv = (x: Tensor, w: Tensor, options: ConvolutionOptions = {}): Tensor =>
  convolution('conv', x, w, options)

function convolution(name: string, x: Tensor, w: Tensor, options: ConvolutionOptions): Tensor {
  const given = biasOf(name, options, convolutionOptions)
  const { bias: _, ...rest } = options
  return many(name, [x, w, ...given], ([a = c.asNode(0), f = a, b]) =>
    c.conv(a, f, b === undefined ? rest : { ...rest, bias: b }),
  )
}

/**
 * Convolution of images: `conv` of x [batch, channels, height, width] with weights [out, channels / groups, height, width].
 * @throws E_SHAPE for shapes that do not fit, E_ARGUMENT for what is no tensor and for options that are none
 * @example conv2d(ones([1, 1, 3, 3]), ones([1, 1, 2, 2])) // [[[[4, 4], [4, 4]]]]
 */
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

/**
 * Transposed convolution, the gradient of `conv` in its data: x [batch, channels, ...spatial], weights [channels, out / groups,
 * ...spatial]. The common dtype.
 * @throws E_SHAPE for shapes that do not fit, E_ARGUMENT for what is no tensor and for options that are none
 * @example convTranspose(ones([1, 1, 2]), tensor([[[1, 2]]]), { stride: 2 }) // [[[1, 2, 1, 2]]]
 */
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

/**
 * Largest element of each window over the last axes, one extent of `kernel` each; the stride is the kernel unless given. The
 * dtype of `x`.
 * @throws E_SHAPE for windows that do not fit, E_ARGUMENT for what is no tensor, no list and for options that are none
 * @example maxPool(tensor([[[1, 5, 2, 4]]]), [2]) // [[[5, 4]]]
 */
export const maxPool = (x: Tensor, kernel: readonly number[], options: PoolOptions = {}): Tensor =>
  one('maxPool', x, (a) => c.maxPool(a, windowOf(kernel), poolOptionsOf('maxPool', options)))
/**
 * Mean of each window over the last axes; padding does not count unless `countIncludePad` says so. The dtype of `x`.
 * @throws E_DTYPE for integers, E_SHAPE for windows that do not fit, E_ARGUMENT for what is no tensor, no list and for options
 * that are none
 * @example averagePool(tensor([[[1, 5, 2, 4]]]), [2]) // [[[3, 3]]]
 */
export const averagePool = (x: Tensor, kernel: readonly number[], options: PoolOptions = {}): Tensor =>
  one('averagePool', x, (a) => c.averagePool(a, windowOf(kernel), poolOptionsOf('averagePool', options)))
/**
 * Sliding windows as a view: an axis becomes (count, size), with count = floor((n - span) / stride) + 1 for span = (size - 1)
 * dilation + 1.
 * @throws E_SHAPE for a window that does not fit, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and no
 * counts
 * @example slidingWindow(tensor([1, 2, 3, 4]), 0, 2) // [[1, 2], [2, 3], [3, 4]]
 */
export const slidingWindow = (x: Tensor, axis: number, size: number, stride = 1, dilation = 1): Tensor =>
  one('slidingWindow', x, (a) =>
    c.slidingWindow(a, axis, whole(size, 'the size'), whole(stride, 'the stride'), whole(dilation, 'the dilation')),
  )
/**
 * Mean over the spatial axes of [batch, channels, ...spatial], kept as extents of 1.
 * @throws E_ARGUMENT for what is no tensor
 * @example globalAveragePool(tensor([[[1, 3]]])) // [[[2]]]
 */
export const globalAveragePool = (x: Tensor): Tensor => one('globalAveragePool', x, c.globalAveragePool)
/**
 * Largest element over the spatial axes of [batch, channels, ...spatial], kept as extents of 1.
 * @throws E_ARGUMENT for what is no tensor
 * @example globalMaxPool(tensor([[[1, 3]]])) // [[[3]]]
 */
export const globalMaxPool = (x: Tensor): Tensor => one('globalMaxPool', x, c.globalMaxPool)
