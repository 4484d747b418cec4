/**
 * Views of a value in memory, axis by axis: where the element at an index stands is a sum of what each axis adds, where the views are such. Paddings
 * are places outside; what turns an axis around, cuts it, takes it apart or rolls it keeps that form.
 */
import type { Node } from '../graph/node.ts'
import { rowMajorStrides, type Shape } from '../types/shape.ts'

/** Where elements stand: offsets along each axis, which add up; outside where one of them is. */
export interface AxisOffsets {
  readonly axes: readonly (readonly number[])[]
  /** The value outside; undefined: nothing is. */
  readonly other: number | bigint | boolean | undefined
}

/** An index whose elements are padding. */
export const outside = Number.NaN

const whole = (shape: Shape): readonly (readonly number[])[] => {
  const strides = rowMajorStrides(shape)
  return shape.map((n, d) => Array.from({ length: n }, (_, i) => i * (strides[d] ?? 1)))
}

/** Longest axis that is looked at. */
const longest = 2 ** 18

/** Several axes as one: the last moves first. */
const joined = (axes: readonly (readonly number[])[]): readonly number[] =>
  axes.reduce<readonly number[]>((all, own) => all.flatMap((a) => own.map((b) => a + b)), [0])

/** An axis as a product of axes of some extents, if what it adds is a sum of what those add. */
function split(axis: readonly number[], extents: Shape): readonly (readonly number[])[] | undefined {
  const strides = rowMajorStrides(extents)
  const base = axis[0] ?? 0
  const parts = extents.map((n, d) =>
    Array.from({ length: n }, (_, i) => (axis[i * (strides[d] ?? 1)] ?? outside) - (d === 0 ? 0 : base)),
  )
  return joined(parts).every((x, i) => Object.is(x, axis[i])) ? parts : undefined
}

/** Axes of a reshaped value: groups of equal size are joined and taken apart. */
function reshaped(axes: readonly (readonly number[])[], to: Shape): readonly (readonly number[])[] | undefined {
  const out: (readonly number[])[] = []
  let from = 0
  for (let d = 0; d < to.length; ) {
    const first = [from, d] as const
    let [own, there] = [axes[from++]?.length ?? 1, to[d++] ?? 1]
    while (own !== there) {
      if (own < there && from < axes.length) own *= axes[from++]?.length ?? 1
      else if (own > there && d < to.length) there *= to[d++] ?? 1
      else return undefined
    }
    // What is left has one element along each axis.
    if (d === to.length) from = axes.length
    if (own > longest) return undefined
    const parts = split(joined(axes.slice(first[0], from)), to.slice(first[1], d))
    if (parts === undefined) return undefined
    out.push(...parts)
  }
  return out
}

/** Where a view's elements stand, given where those of what it shows do. */
function through(view: Node, { axes, other }: AxisOffsets): AxisOffsets | undefined {
  const moved = (to: readonly (readonly number[])[] | undefined): AxisOffsets | undefined =>
    to === undefined ? undefined : { axes: to, other }
  switch (view.op) {
    case 'reshape':
      return moved(reshaped(axes, view.shape))
    case 'permute':
      return moved(view.attrs.perm.map((p) => axes[p] ?? []))
    case 'flip':
      return moved(axes.map((a, d) => (view.attrs.axes.includes(d) ? a.toReversed() : a)))
    case 'broadcast': {
      const { dims } = view.attrs
      return moved(
        view.shape.map((n, d) => {
          const own = axes[dims.indexOf(d)]
          if (own !== undefined && own.length === n) return own
          return new Array<number>(n).fill(own?.[0] ?? 0)
        }),
      )
    }
    case 'slice': {
      const { start, step } = view.attrs
      const along = (d: number, i: number): number => (start[d] ?? 0) + i * (step[d] ?? 1)
      return moved(view.shape.map((n, d) => Array.from({ length: n }, (_, i) => axes[d]?.[along(d, i)] ?? outside)))
    }
    case 'window': {
      const { axis, size, stride, dilation } = view.attrs
      const count = view.shape[axis] ?? 0
      const seen = Array.from({ length: count }, (_, i) =>
        Array.from({ length: size }, (_, t) => axes[axis]?.[i * stride + t * dilation] ?? outside),
      )
      const parts = split(seen.flat(), [count, size])
      return moved(parts && [...axes.slice(0, axis), ...parts, ...axes.slice(axis + 1)])
    }
    case 'pad': {
      const { low, interior, value } = view.attrs
      if (other !== undefined && !Object.is(other, value)) return undefined
      const padded = view.shape.map((n, d) => {
        const step = (interior[d] ?? 0) + 1
        return Array.from({ length: n }, (_, i) => {
          const at = i - (low[d] ?? 0)
          return at % step === 0 ? (axes[d]?.[at / step] ?? outside) : outside
        })
      })
      return { axes: padded, other: value }
    }
    default:
      return undefined
  }
}

/** What a value is a view of (itself where it is none), and the views, outermost first. */
export function viewsOf(operand: Node): { readonly source: Node; readonly views: readonly Node[] } {
  const views: Node[] = []
  let source = operand
  for (; source.inputs.length === 1 && isSeen(source); source = source.inputs[0] ?? source) views.push(source)
  return { source, views }
}

/** Where a value's elements stand in what it is a view of; undefined where these are no sums of offsets along axes, or an axis is too long to be looked at. */
export function offsetsOf(operand: Node): AxisOffsets | undefined {
  const { source, views } = viewsOf(operand)
  for (const { shape } of [source, ...views]) if (shape.some((n) => n === 0 || n > longest)) return undefined
  let offsets: AxisOffsets | undefined = { axes: whole(source.shape), other: undefined }
  for (const view of views.toReversed()) if (offsets !== undefined) offsets = through(view, offsets)
  return offsets
}

const seen = new Set(['reshape', 'permute', 'flip', 'broadcast', 'slice', 'window', 'pad'])
const isSeen = (n: Node): boolean => seen.has(n.op)
