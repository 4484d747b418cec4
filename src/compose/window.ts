/**
 * Convolution, pooling and the rearrangements between depth and space: a convolution is pad, window, contract; a pooling is
 * pad, window, reduce. Data is [batch, channels, ...spatial], weights are [out, in / groups, ...spatial].
 */
import { UserError } from '../diagnostics/errors.ts'
import { keepsViews } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { extreme } from '../scalar/ops.ts'
import { computeDType, isFloat } from '../types/dtype.ts'
import { type Shape, showShape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { add, cast, commonDType, div, max, min, mul, sub } from './elementwise.ts'
import { type Padding, type Pair, paddingPairs } from './padding.ts'
import { mean, reduceMax, sum } from './reduce.ts'
import { floats, full, iota } from './source.ts'
import { pad, permute, slidingWindow } from './views.ts'

/** Placement of windows; one number stands for every spatial axis. */
export interface WindowOptions {
  /** Distance of neighbouring windows; 1 unless given (pooling: the window). */
  readonly stride?: number | readonly number[]
  /** Elements around the data; none unless given. */
  readonly padding?: Padding
  /** Distance of neighbouring elements of a window; 1 unless given. */
  readonly dilation?: number | readonly number[]
}

/** Options of `conv`. */
export interface ConvOptions extends WindowOptions {
  readonly groups?: number
  /** [out channels], added to every position. */
  readonly bias?: Node
}

/** Options of pooling. */
export interface PoolOptions extends WindowOptions {
  /** The last window may reach beyond the padding, as long as it starts inside it. */
  readonly ceilMode?: boolean
  /** averagePool: padding counts as elements of value 0. */
  readonly countIncludePad?: boolean
}

/** One value a spatial axis. */
export function perAxis(
  value: number | readonly number[] | undefined,
  count: number,
  fallback: number,
  what: string,
): number[] {
  if (value === undefined) return new Array<number>(count).fill(fallback)
  const help = 'give one number, or one for each spatial axis'
  const given = typeof value === 'number' ? new Array<number>(count).fill(value) : [...value]
  if (given.length !== count)
    throw new UserError('E_ARGUMENT', `${given.length} values of ${what} for ${count} spatial axes`, { help })
  const odd = given.find((n) => !Number.isSafeInteger(n))
  if (odd !== undefined)
    throw new UserError('E_ARGUMENT', `a ${what} is ${typeof odd === 'number' ? odd : typeof odd}, no whole number`, {
      help,
    })
  return given
}

export const spansOf = (kernel: readonly number[], dilation: readonly number[]): number[] =>
  kernel.map((k, i) => (k - 1) * (dilation[i] ?? 1) + 1)

export const leading = (pairs: readonly Pair[], rank: number): Pair[] => [
  ...Array.from({ length: rank - pairs.length }, (): Pair => [0, 0]),
  ...pairs,
]

/** Each of the last axes as (position, offset) pairs, in order. */
export function windows(
  x: Node,
  kernel: readonly number[],
  stride: readonly number[],
  dilation: readonly number[],
): Node {
  const first = x.shape.length - kernel.length
  return kernel.reduce((y, k, i) => slidingWindow(y, first + 2 * i, k, stride[i] ?? 1, dilation[i] ?? 1), x)
}

export function addBias(y: Node, bias: Node | undefined): Node {
  if (bias === undefined) return y
  return add(y, reshape(bias, [1, -1, ...y.shape.slice(2).map(() => 1)]))
}

export function checkConv(x: Node, channels: number, w: Node, groups: number, what: string): void {
  const bad = x.shape.length !== w.shape.length || x.shape.length < 3
  const c = x.shape[1] ?? 0
  if (bad || !Number.isInteger(groups) || groups < 1 || c !== channels)
    throw new UserError(
      'E_SHAPE',
      `${what} of data ${showShape(x.shape)} with weights ${showShape(w.shape)} in ${groups} groups`,
      {
        help: 'data is [batch, channels, ...spatial]; weights are [out, channels / groups, ...spatial] (transposed: [channels, out / groups, ...spatial])',
      },
    )
}

/** The product of windows [n, c, o1, k1, ...] with weights [m, c / groups, k1, ...], summed over channels and offsets. */
export function contractWindows(view: Node, w: Node, groups: number): Node {
  const spatial = w.shape.length - 2
  const [n = 1, c = 1] = view.shape
  const [m = 1, perGroup = 1] = w.shape
  if (m % groups !== 0)
    throw new UserError('E_SHAPE', `${m} output channels do not divide into ${groups} groups`, {
      help: 'the number of output channels is a multiple of the number of groups',
    })
  const positions = Array.from({ length: spatial }, (_, i) => labelAt(4 + 2 * i))
  const offsets = Array.from({ length: spatial }, (_, i) => labelAt(5 + 2 * i))
  const places = positions.map((p, i) => p + (offsets[i] ?? '')).join('')
  // Labels: a batch, b output channel, c input channel, d group.
  if (groups === 1) return contractLabelled(view, `ac${places}`, w, `bc${offsets.join('')}`, `ab${positions.join('')}`)
  const data = reshape(view, [n, groups, c / groups, ...view.shape.slice(2)])
  const weights = reshape(w, [groups, m / groups, perGroup, ...w.shape.slice(2)])
  const y = contractLabelled(data, `adc${places}`, weights, `dbc${offsets.join('')}`, `adb${positions.join('')}`)
  return reshape(y, [n, m, ...y.shape.slice(3)])
}

/**
 * n-dimensional convolution (cross-correlation, as in every ML library): x [batch, channels, ...spatial], weights
 * [out, channels / groups, ...spatial] -> [batch, out, ...positions]. Throws E_SHAPE.
 */
export function conv(x: Node, w: Node, options: ConvOptions = {}): Node {
  const groups = options.groups ?? 1
  checkConv(x, (w.shape[1] ?? 0) * groups, w, groups, 'convolution')
  const kernel = w.shape.slice(2)
  const stride = perAxis(options.stride, kernel.length, 1, 'stride')
  const dilation = perAxis(options.dilation, kernel.length, 1, 'dilation')
  const pairs = paddingPairs(options.padding, x.shape.slice(2), spansOf(kernel, dilation), stride)
  const dtype = commonDType([x, w])
  const padded = pad(cast(x, dtype), leading(pairs, x.shape.length))
  return addBias(contractWindows(windows(padded, kernel, stride, dilation), cast(w, dtype), groups), options.bias)
}

/**
 * Extra elements after the padding that `ceilMode` needs (negative: too many): a window must start before the end of the data and its padding in
 * front. Where graphs stand for other extents, as many at each: stride - 1, which windows may leave over.
 */
function ceilExtra(n: number, pair: Pair, span: number, stride: number): number {
  const padded = n + pair[0] + pair[1]
  let count = Math.ceil((padded - span) / stride) + 1
  const isLate = (count - 1) * stride >= n + pair[0]
  if (keepsViews() && !isLate && count >= 1) return stride - 1
  if (isLate) count--
  return count < 1 ? 0 : (count - 1) * stride + span - padded
}

interface PoolPlan {
  readonly stride: number[]
  readonly dilation: number[]
  readonly pairs: Pair[]
  /** `pairs` with what ceilMode adds. */
  readonly wide: Pair[]
  /** Axes of the window offsets once windows are taken. */
  readonly offsetAxes: number[]
}

function planPool(x: Node, kernel: readonly number[], options: PoolOptions): PoolPlan {
  const extents = x.shape.slice(x.shape.length - kernel.length)
  if (kernel.length === 0 || kernel.length > x.shape.length)
    throw new UserError('E_SHAPE', `pooling of ${showShape(x.shape)} by windows ${showShape(kernel)}`, {
      help: 'give one window extent a spatial axis',
    })
  const stride = perAxis(options.stride ?? kernel, kernel.length, 1, 'stride')
  const dilation = perAxis(options.dilation, kernel.length, 1, 'dilation')
  const spans = spansOf(kernel, dilation)
  const pairs = paddingPairs(options.padding, extents, spans, stride)
  const wide = pairs.map((p, i): Pair => {
    if (options.ceilMode !== true) return p
    return [p[0], p[1] + ceilExtra(extents[i] ?? 0, p, spans[i] ?? 1, stride[i] ?? 1)]
  })
  const first = x.shape.length - kernel.length
  return { stride, dilation, pairs, wide, offsetAxes: kernel.map((_, i) => first + 2 * i + 1) }
}

/** Largest element of each window over the last axes; padding never wins. `kernel` has one extent a spatial axis; stride is the kernel unless given. */
export function maxPool(x: Node, kernel: readonly number[], options: PoolOptions = {}): Node {
  const p = planPool(x, kernel, options)
  const padded = pad(x, leading(p.wide, x.shape.length), 'constant', extreme(x.dtype, 'least'))
  return reduceMax(windows(padded, kernel, p.stride, p.dilation), p.offsetAxes)
}

/** Sum of each window over the last axes; padding counts as 0. */
export function poolSum(x: Node, kernel: readonly number[], options: PoolOptions = {}): Node {
  const p = planPool(x, kernel, options)
  return sum(windows(pad(x, leading(p.wide, x.shape.length)), kernel, p.stride, p.dilation), p.offsetAxes)
}

/** Windows along one axis: their number, extent, stride and dilation, and where what they count begins and ends. */
interface Counted {
  readonly positions: number
  readonly kernel: number
  readonly stride: number
  readonly dilation: number
  /** Elements before the first window's first that are padding. */
  readonly before: number
  readonly from: number
  readonly to: number
}

/** Elements that the window at a position counts. */
function countAt({ kernel, stride, dilation, before, from, to }: Counted, position: number): number {
  const start = position * stride - before
  const first = Math.max(0, Math.ceil((from - start) / dilation))
  const end = Math.min(kernel, Math.ceil((to - start) / dilation))
  return Math.max(0, end - first)
}

/** Most positions of windows that count unequally: their numbers are constants of the graph. */
const mostCounted = 2 ** 24

/** Elements each window counts along one axis; one number where all count as many, as whole windows do. */
function windowCounts(w: Counted): number[] {
  const { positions, kernel, stride, dilation, before, from, to } = w
  const isWhole = -before >= from && (positions - 1) * stride - before + (kernel - 1) * dilation < to
  if (positions === 0 || isWhole) return [kernel]
  if (positions > mostCounted)
    throw new UserError(
      'E_OVERFLOW',
      `averagePool counts the elements of ${positions} windows that padding cuts, which is more than ${mostCounted}`,
      { help: 'pad the tensor first, and pool it without padding' },
    )
  const counts = Array.from({ length: positions }, (_, o) => countAt(w, o))
  return counts.every((c) => c === counts[0]) ? counts.slice(0, 1) : counts
}

/** The same as arithmetic on positions along an axis of a shape, whatever their number: i32. */
function windowCountsAlong(shape: Shape, axis: number, { kernel, stride, dilation, before, from, to }: Counted): Node {
  const number = (value: number): Node => full(shape, value, 'i32')
  const start = sub(mul(iota(shape, axis, 'i32'), number(stride)), number(before))
  // ceil((edge - start) / dilation), from a dividend that is not negative: an offset of the kernel, which is cut to it anyway.
  const until = (edge: number): Node => {
    const distance = max(sub(number(edge), start), number(0))
    return min(div(add(distance, number(dilation - 1)), number(dilation)), number(kernel))
  }
  return sub(until(to), until(from))
}

/**
 * Mean of each window over the last axes, of the elements inside the data (with `countIncludePad`, inside the padding too;
 * what `ceilMode` adds never counts). Throws E_DTYPE for dtypes that are not float.
 */
export function averagePool(x: Node, kernel: readonly number[], options: PoolOptions = {}): Node {
  if (!isFloat(x.dtype)) throw new UserError('E_DTYPE', `averagePool of ${x.dtype}`, { help: 'cast to a float dtype' })
  const p = planPool(x, kernel, options)
  const work = computeDType(x.dtype)
  const total = sum(
    windows(pad(cast(x, work), leading(p.wide, x.shape.length)), kernel, p.stride, p.dilation),
    p.offsetAxes,
  )
  const first = x.shape.length - kernel.length
  let uniform = 1
  let count: Node | undefined
  kernel.forEach((k, i) => {
    const axis = first + i
    const n = x.shape[axis] ?? 0
    const [before, after] = p.pairs[i] ?? [0, 0]
    const counted: Counted = {
      positions: total.shape[axis] ?? 0,
      kernel: k,
      stride: p.stride[i] ?? 1,
      dilation: p.dilation[i] ?? 1,
      before,
      ...(options.countIncludePad === true ? { from: -before, to: n + after } : { from: 0, to: n }),
    }
    const along: Shape = total.shape.map((_, j) => (j === axis ? counted.positions : 1))
    const isCut = options.ceilMode === true || (options.countIncludePad !== true && before + after > 0)
    let node: Node
    if (keepsViews() && isCut && counted.positions > 1) node = cast(windowCountsAlong(along, axis, counted), work)
    else {
      const counts = windowCounts(counted)
      const [head = 1] = counts
      if (counts.length === 1) {
        uniform *= head
        return
      }
      node = cast(reshape(floats(counts), along), work)
    }
    count = count === undefined ? node : mul(count, node)
  })
  if (count === undefined) return cast(div(total, uniform), x.dtype)
  return cast(div(total, uniform === 1 ? count : mul(count, uniform)), x.dtype)
}

const spatialAxes = (x: Node): number[] => x.shape.map((_, i) => i).slice(2)

/** Mean over all spatial axes, kept as extents of 1. */
export const globalAveragePool = (x: Node): Node => mean(x, spatialAxes(x), true)
/** Largest element over all spatial axes, kept as extents of 1. */
export const globalMaxPool = (x: Node): Node => reduceMax(x, spatialAxes(x), true)

function blocks(x: Node, block: number, divisor: number, what: string): [number, number, number, number] {
  const [n, c, h, w] = x.shape
  if (
    x.shape.length !== 4 ||
    n === undefined ||
    c === undefined ||
    h === undefined ||
    w === undefined ||
    c % divisor !== 0
  )
    throw new UserError('E_SHAPE', `${what} of ${showShape(x.shape)} by blocks of ${block}`, {
      help: 'the data is [batch, channels, height, width] and must divide',
    })
  return [n, c, h, w]
}

/** Channels moved into blocks of space. `DCR`: the block offset is outermost in the channels; `CRD`: innermost (ONNX DepthToSpace). */
export function depthToSpace(x: Node, block: number, mode: 'DCR' | 'CRD' = 'DCR'): Node {
  const [n, c, h, w] = blocks(x, block, block * block, 'depthToSpace')
  const d = c / (block * block)
  const parts = mode === 'DCR' ? reshape(x, [n, block, block, d, h, w]) : reshape(x, [n, d, block, block, h, w])
  const moved = permute(parts, mode === 'DCR' ? [0, 3, 4, 1, 5, 2] : [0, 1, 4, 2, 5, 3])
  return reshape(moved, [n, d, h * block, w * block])
}

/** Blocks of space moved into channels, the block offset outermost (ONNX SpaceToDepth). */
export function spaceToDepth(x: Node, block: number): Node {
  const [n, c, h, w] = blocks(x, block, 1, 'spaceToDepth')
  if (h % block !== 0 || w % block !== 0)
    throw new UserError('E_SHAPE', `spaceToDepth of ${showShape(x.shape)} by blocks of ${block}`, {
      help: 'height and width must divide by the block',
    })
  const parts = reshape(x, [n, c, h / block, block, w / block, block])
  return reshape(permute(parts, [0, 3, 5, 1, 2, 4]), [n, c * block * block, h / block, w / block])
}
