/** Views composed, removed and brought to one form: reshape, permute, slice, flip, pad, concat, window. Broadcasts are apart. */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { sameShape, sizeOf } from '../types/shape.ts'
import { coreAxes, mayTakeLess, permuteTo, range, reshapeTo } from './facts.ts'
import { type Rule, rule } from './rule.ts'

const isZero = (v: number): boolean => v === 0

const reshapes: readonly Rule[] = [
  rule('reshape', 'exact', 'reshape-same', 'reshape(x, x.shape) -> x', ({ inputs: [x], shape }) =>
    x !== undefined && sameShape(x.shape, shape) ? x : undefined,
  ),
  rule('reshape', 'exact', 'reshape-reshape', 'reshape(reshape(x)) -> reshape(x)', ({ inputs: [x], shape }) => {
    const y = x?.op === 'reshape' ? x.inputs[0] : undefined
    return y === undefined ? undefined : reshapeTo(y, shape)
  }),
  rule('reshape', 'exact', 'reshape-constant', 'a literal takes the new shape', ({ inputs: [x], shape }) =>
    x?.op === 'constant' ? makeNode('constant', [], { ...x.attrs, shape }) : undefined,
  ),
]

const permutes: readonly Rule[] = [
  rule('permute', 'exact', 'permute-identity', 'permute by 0, 1, 2, ... -> x', ({ inputs: [x], attrs }) =>
    attrs.perm.every((p, i) => p === i) ? x : undefined,
  ),
  rule('permute', 'exact', 'permute-permute', 'permute(permute(x)) -> permute(x)', ({ inputs: [x], attrs }) => {
    const y = x?.op === 'permute' ? x.inputs[0] : undefined
    if (x?.op !== 'permute' || y === undefined) return undefined
    const inner = x.attrs.perm
    return permuteTo(
      y,
      attrs.perm.map((p) => inner[p] ?? p),
    )
  }),
  rule(
    'permute',
    'exact',
    'permute-of-units',
    'a permutation that keeps the order of the axes longer than 1 -> reshape',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined) return undefined
      const kept = attrs.perm.filter((p) => x.shape[p] !== 1)
      return kept.every((p, i) => i === 0 || p > (kept[i - 1] ?? 0)) ? reshapeTo(x, shape) : undefined
    },
  ),
  rule(
    'permute',
    'exact',
    'permute-without-units',
    'permute(x) with axes of extent 1 -> reshape(permute(reshape(x)))',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined || !x.shape.includes(1)) return undefined
      const core = coreAxes(x.shape)
      const squeezed = reshapeTo(
        x,
        core.map((i) => x.shape[i] ?? 1),
      )
      const perm = attrs.perm.filter((p) => x.shape[p] !== 1).map((p) => core.indexOf(p))
      return reshapeTo(permuteTo(squeezed, perm), shape)
    },
  ),
]

const slices: readonly Rule[] = [
  rule(
    'slice',
    'exact',
    'slice-canonical',
    'limits end at the last element taken; a single element has step 1',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined || shape.includes(0)) return undefined
      const step = attrs.step.map((s, i) => (shape[i] === 1 ? 1 : s))
      const limit = attrs.start.map((s, i) => s + ((shape[i] ?? 1) - 1) * (step[i] ?? 1) + 1)
      const same = step.every((s, i) => s === attrs.step[i]) && limit.every((l, i) => l === attrs.limit[i])
      return same ? undefined : makeNode('slice', [x], { start: attrs.start, limit, step })
    },
  ),
  rule('slice', 'exact', 'slice-whole', 'slice that takes everything -> x', ({ inputs: [x], shape }, context) =>
    x !== undefined && sameShape(x.shape, shape) && !mayTakeLess(shape, context) ? x : undefined,
  ),
  rule('slice', 'exact', 'slice-slice', 'slice(slice(x)) -> slice(x)', ({ inputs: [x], attrs, shape }) => {
    const y = x?.op === 'slice' ? x.inputs[0] : undefined
    if (x?.op !== 'slice' || y === undefined || shape.includes(0)) return undefined
    const inner = x.attrs
    const start = attrs.start.map((s, i) => (inner.start[i] ?? 0) + s * (inner.step[i] ?? 1))
    const step = attrs.step.map((s, i) => s * (inner.step[i] ?? 1))
    const limit = start.map((s, i) => s + ((shape[i] ?? 1) - 1) * (step[i] ?? 1) + 1)
    return makeNode('slice', [y], { start, limit, step })
  }),
  rule(
    'slice',
    'exact',
    'slice-of-concat',
    'a slice inside one operand of a concat -> slice of that operand',
    ({ inputs: [x], attrs, shape }) => {
      if (x?.op !== 'concat' || shape.includes(0)) return undefined
      const { axis } = x.attrs
      const first = attrs.start[axis] ?? 0
      const last = first + ((shape[axis] ?? 1) - 1) * (attrs.step[axis] ?? 1)
      let offset = 0
      for (const part of x.inputs) {
        const n = part.shape[axis] ?? 0
        if (first >= offset && last < offset + n) {
          const moved = (v: readonly number[], to: number): number[] => v.map((s, i) => (i === axis ? to : s))
          return makeNode('slice', [part], {
            start: moved(attrs.start, first - offset),
            limit: moved(attrs.limit, last - offset + 1),
            step: attrs.step,
          })
        }
        offset += n
      }
      return undefined
    },
  ),
  rule(
    'slice',
    'exact',
    'slice-of-pad',
    'a slice inside the padded data -> slice of the data; inside the padding -> the padding value',
    ({ inputs: [x], attrs, shape, dtype }) => {
      const y = x?.op === 'pad' ? x.inputs[0] : undefined
      if (x?.op !== 'pad' || y === undefined || shape.includes(0) || !x.attrs.interior.every(isZero)) return undefined
      const start = attrs.start.map((s, i) => s - (x.attrs.low[i] ?? 0))
      const last = start.map((s, i) => s + ((shape[i] ?? 1) - 1) * (attrs.step[i] ?? 1))
      const outside = start.some((s, i) => s >= (y.shape[i] ?? 0) || (last[i] ?? 0) < 0)
      if (outside) return makeNode('full', [], { value: x.attrs.value, shape, dtype })
      const inside = start.every((s, i) => s >= 0 && (last[i] ?? 0) < (y.shape[i] ?? 0))
      if (!inside) return undefined
      return makeNode('slice', [y], { start, limit: last.map((l) => l + 1), step: attrs.step })
    },
  ),
]

const flips: readonly Rule[] = [
  rule('flip', 'exact', 'flip-of-units', 'axes of extent 1 (or none at all) need no flip', ({ inputs: [x], attrs }) => {
    if (x === undefined) return undefined
    const axes = [...attrs.axes].filter((a) => x.shape[a] !== 1).sort((a, b) => a - b)
    if (axes.length === 0) return x
    return axes.length === attrs.axes.length && axes.every((a, i) => a === attrs.axes[i])
      ? undefined
      : makeNode('flip', [x], { axes })
  }),
  rule('flip', 'exact', 'flip-flip', 'flip(flip(x)) -> flip of the axes flipped once', ({ inputs: [x], attrs }) => {
    const y = x?.op === 'flip' ? x.inputs[0] : undefined
    if (x?.op !== 'flip' || y === undefined) return undefined
    const inner = x.attrs.axes
    const axes = [...attrs.axes.filter((a) => !inner.includes(a)), ...inner.filter((a) => !attrs.axes.includes(a))]
    return axes.length === 0 ? y : makeNode('flip', [y], { axes: axes.sort((a, b) => a - b) })
  }),
]

const pads: readonly Rule[] = [
  rule('pad', 'exact', 'pad-nothing', 'pad by nothing -> x', ({ inputs: [x], shape }, context) =>
    x !== undefined && sameShape(x.shape, shape) && !mayTakeLess(shape, context) ? x : undefined,
  ),
  rule(
    'pad',
    'exact',
    'pad-interior-of-unit',
    'an axis of one element has no neighbours to pad between',
    ({ inputs: [x], attrs }) => {
      if (x === undefined) return undefined
      const interior = attrs.interior.map((v, i) => ((x.shape[i] ?? 0) <= 1 ? 0 : v))
      return interior.every((v, i) => v === attrs.interior[i])
        ? undefined
        : makeNode('pad', [x], { ...attrs, interior })
    },
  ),
  rule(
    'pad',
    'exact',
    'pad-pad',
    'pad(pad(x)) of one value, the outer one without interior -> pad(x)',
    ({ inputs: [x], attrs }) => {
      const y = x?.op === 'pad' ? x.inputs[0] : undefined
      if (x?.op !== 'pad' || y === undefined) return undefined
      const inner = x.attrs
      if (!Object.is(inner.value, attrs.value) || !attrs.interior.every(isZero)) return undefined
      return makeNode('pad', [y], {
        value: attrs.value,
        low: attrs.low.map((v, i) => v + (inner.low[i] ?? 0)),
        high: attrs.high.map((v, i) => v + (inner.high[i] ?? 0)),
        interior: inner.interior,
      })
    },
  ),
]

/** Two neighbouring unit-step pieces of one tensor, the second starting where the first ends, as one piece. */
function joinPieces(a: Node, b: Node, axis: number): Node | undefined {
  if (a.op === 'full' && b.op === 'full' && Object.is(a.attrs.value, b.attrs.value)) {
    const shape = a.shape.map((d, i) => (i === axis ? d + (b.shape[i] ?? 0) : d))
    return makeNode('full', [], { ...a.attrs, shape })
  }
  const x = a.op === 'slice' ? a.inputs[0] : undefined
  if (a.op !== 'slice' || b.op !== 'slice' || x === undefined || b.inputs[0] !== x) return undefined
  const from = a.attrs
  const to = b.attrs
  const aligned = range(x.shape.length).every((i) => {
    if (i !== axis) return from.start[i] === to.start[i] && from.limit[i] === to.limit[i] && from.step[i] === to.step[i]
    return from.step[i] === 1 && to.step[i] === 1 && from.limit[i] === to.start[i]
  })
  if (!aligned) return undefined
  return makeNode('slice', [x], {
    start: from.start,
    limit: from.limit.map((l, i) => (i === axis ? (to.limit[i] ?? l) : l)),
    step: from.step,
  })
}

const concats: readonly Rule[] = [
  rule('concat', 'exact', 'concat-of-one', 'concat(x) -> x', ({ inputs }) =>
    inputs.length === 1 ? inputs[0] : undefined,
  ),
  rule(
    'concat',
    'exact',
    'concat-of-concat',
    'operands that are concats along the axis are spliced in, empty ones dropped',
    ({ inputs, attrs, shape }) => {
      if (sizeOf(shape) === 0) return undefined
      const flat = inputs
        .flatMap((x) => (x.op === 'concat' && x.attrs.axis === attrs.axis ? x.inputs : [x]))
        .filter((x) => x.shape[attrs.axis] !== 0)
      const same = flat.length === inputs.length && flat.every((x, i) => x === inputs[i])
      return same ? undefined : makeNode('concat', flat, attrs)
    },
  ),
  rule(
    'concat',
    'exact',
    'concat-of-neighbours',
    'adjacent slices of one tensor, or equal repeated values, become one operand',
    ({ inputs, attrs }) => {
      const joined: Node[] = []
      for (const x of inputs) {
        const before = joined.at(-1)
        const both = before === undefined ? undefined : joinPieces(before, x, attrs.axis)
        if (both === undefined) joined.push(x)
        else joined[joined.length - 1] = both
      }
      return joined.length === inputs.length ? undefined : makeNode('concat', joined, attrs)
    },
  ),
]

const windows: readonly Rule[] = [
  rule(
    'window',
    'exact',
    'window-of-one',
    'a window of one element -> slice, reshape',
    ({ inputs: [x], attrs, shape }) => {
      if (x === undefined || attrs.size !== 1) return undefined
      const taken = attrs.stride === 1 ? x : strided(x, attrs.axis, attrs.stride)
      return reshapeTo(taken, shape)
    },
  ),
  rule('window', 'exact', 'window-once', 'a single window -> slice, reshape', ({ inputs: [x], attrs, shape }) => {
    if (x === undefined || shape[attrs.axis] !== 1) return undefined
    return reshapeTo(sliced(x, attrs.axis, (attrs.size - 1) * attrs.dilation + 1, attrs.dilation), shape)
  }),
  rule(
    'window',
    'exact',
    'window-tiles',
    'windows that neither overlap nor leave gaps -> reshape',
    ({ inputs: [x], attrs, shape }, context) => {
      if (x === undefined || attrs.stride !== attrs.size || attrs.dilation !== 1) return undefined
      // At other extents there may be a rest, which a slice leaves out.
      if (context.generic?.varying.has(x.shape[attrs.axis] ?? 0) === true) return undefined
      return reshapeTo(sliced(x, attrs.axis, (shape[attrs.axis] ?? 0) * attrs.size, 1), shape)
    },
  ),
]

/** Elements 0, step, 2 step, ... below `limit` of one axis. */
function sliced(x: Node, axis: number, limit: number, step: number): Node {
  if (x.shape[axis] === limit && step === 1) return x
  return makeNode('slice', [x], {
    start: x.shape.map(() => 0),
    limit: x.shape.map((d, i) => (i === axis ? limit : d)),
    step: x.shape.map((_, i) => (i === axis ? step : 1)),
  })
}

const strided = (x: Node, axis: number, step: number): Node => sliced(x, axis, x.shape[axis] ?? 0, step)

export const viewRules: readonly Rule[] = [
  ...reshapes,
  ...permutes,
  ...slices,
  ...flips,
  ...pads,
  ...concats,
  ...windows,
]
