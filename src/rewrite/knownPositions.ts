/**
 * Stored literals that only say where an element stands, as exported models have them: counted places, distances of two places (`i - j`), masks on one side
 * of a diagonal or in a band along it. They become the expression: nothing is loaded, and masks are seen as such.
 */
import { makeNode } from '../graph/build.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import { overElements } from '../host/engine.ts'
import { readElement, scalarOf, writeElement } from '../scalar/host.ts'
import { wholeRange } from '../scalar/narrow.ts'
import type { Scalar } from '../scalar/ops.ts'
import { dtypeBytes, isFloat } from '../types/dtype.ts'
import { hostArray } from '../types/host.ts'
import { rowMajorStrides, type Shape, sizeOf } from '../types/shape.ts'
import { fullOf } from './facts.ts'
import { type Rule, rule } from './rule.ts'

/** Fewer elements are as quickly loaded. */
const fewest = 1025

/** An axis along which a literal has several elements. */
interface Along {
  readonly axis: number
  readonly extent: number
  readonly stride: number
}

const alongOf = (shape: Shape): Along[] => {
  const strides = rowMajorStrides(shape)
  return shape.flatMap((extent, axis) => (extent > 1 ? [{ axis, extent, stride: strides[axis] ?? 1 }] : []))
}

/**
 * Whether a literal is what `valueAt` says of sums of places: one for each axis, `steps` at a time. Runs along the last axis are compared as bytes with what such
 * sums give from there on: parts of one row of all sums, where they go one by one.
 */
function isOfSums(
  { attrs, dtype, shape }: NodeOf<'constant'>,
  along: readonly Along[],
  steps: readonly number[],
  valueAt: (sum: number) => Scalar,
): boolean {
  const last = along.at(-1)
  const isRun = last?.stride === 1 && Math.abs(steps.at(-1) ?? 0) === 1
  const [extent, step] = isRun ? [last.extent, steps.at(-1) ?? 1] : [1, 1]
  const ends = along.map(({ extent: d }, k) => (steps[k] ?? 0) * (d - 1))
  const lo = ends.reduce((n, e) => n + Math.min(0, e), 0)
  const hi = ends.reduce((n, e) => n + Math.max(0, e), 0)
  if (hi - lo > sizeOf(shape)) return false
  const row = hostArray(dtype, hi - lo + 1)
  for (let i = 0; i < row.length; i++) writeElement(row, dtype, i, valueAt(step > 0 ? lo + i : hi - i))
  const width = dtypeBytes(dtype)
  const all = new Uint8Array(row.buffer)
  const { data } = attrs
  const n = sizeOf(shape)
  for (let start = 0; start < n; start += extent) {
    let sum = 0
    for (const [k, { stride, extent: d }] of along.entries())
      if (stride > 1 || extent === 1) sum += (steps[k] ?? 0) * (Math.floor(start / stride) % d)
    const at = new Uint8Array(data.buffer, data.byteOffset + start * width, extent * width)
    if (!beginsWith(all, (step > 0 ? sum - lo : hi - sum) * width, at)) return false
  }
  return true
}

/** Whether bytes stand in others from a place on. */
function beginsWith(all: Uint8Array, from: number, bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (all[from + i] !== bytes[i]) return false
  return true
}

const elementOf =
  ({ attrs, dtype }: NodeOf<'constant'>): ((i: number) => Scalar) =>
  (i) =>
    readElement(attrs.data, dtype, i)

/** The place along an axis, as i32. */
const place = (shape: Shape, axis: number): Node => makeNode('iota', [], { axis, shape, dtype: 'i32' })

/** `first + sum of step x place` of all axes, where every element is that. */
function counted(literal: NodeOf<'constant'>): Node | undefined {
  const { shape, dtype } = literal
  const most = wholeRange(dtype)
  const at = elementOf(literal)
  const along = alongOf(shape)
  const whole = (i: number): number | undefined => {
    const v = at(i)
    const n = typeof v === 'boolean' ? Number.NaN : Number(v)
    return most !== undefined && n >= most.lo && n <= most.hi && Number.isInteger(n) && !Object.is(n, -0)
      ? n
      : undefined
  }
  const first = whole(0)
  if (first === undefined) return undefined
  const steps: number[] = []
  for (const { stride } of along) {
    const next = whole(stride)
    if (next === undefined) return undefined
    steps.push(next - first)
  }
  // Integers along one axis may be indices, which are looked at as they stand.
  if (steps.filter((s) => s !== 0).length < (isFloat(dtype) ? 1 : 2)) return undefined
  const valueAt = (sum: number): Scalar => scalarOf(dtype, first + sum)
  if (!isOfSums(literal, along, steps, valueAt)) return undefined
  let sum = first === 0 ? undefined : fullOf(shape, 'i32', first)
  for (const [k, { axis }] of along.entries()) {
    const step = steps[k] ?? 0
    if (step === 0) continue
    const by = Math.abs(step)
    const term = by === 1 ? place(shape, axis) : makeNode('mul', [place(shape, axis), fullOf(shape, 'i32', by)], {})
    if (sum === undefined) sum = step > 0 ? term : makeNode('neg', [term], {})
    else sum = makeNode(step > 0 ? 'add' : 'sub', [sum, term], {})
  }
  return sum === undefined || dtype === 'i32' ? sum : makeNode('cast', [sum], { dtype })
}

/** Distances from `lo` to below `hi`, of which a literal has another value than of all others. */
interface Band {
  readonly lo: number
  readonly hi: number
  readonly inside: Scalar
  readonly outside: Scalar
}

/** What elements at each distance `j - i` of two axes are, from the least on, where no others lie between: one run of them differs from the rest. */
function bandOf(at: (i: number) => Scalar, p: Along, q: Along): Band | undefined {
  const least = 1 - p.extent
  const of = (d: number): Scalar => at(Math.max(0, -d) * p.stride + Math.max(0, d) * q.stride)
  const ends: number[] = []
  let [last, other] = [of(least), undefined as Scalar | undefined]
  const outside = last
  for (let d = least + 1; d < q.extent; d++) {
    const value = of(d)
    if (Object.is(value, last)) continue
    ends.push(d)
    other ??= value
    if (ends.length > 2 || (ends.length === 2 && !Object.is(value, outside))) return undefined
    last = value
  }
  const [lo, hi = q.extent] = ends
  return lo === undefined || other === undefined ? undefined : { lo, hi, inside: other, outside }
}

/** A choice between two numbers by the distance of two places. */
function banded(literal: NodeOf<'constant'>): Node | undefined {
  const { shape, dtype } = literal
  const at = elementOf(literal)
  const along = alongOf(shape)
  const isAll = ({ lo, hi, inside, outside }: Band, p: Along, q: Along): boolean => {
    const steps = along.map((a) => (a === q ? 1 : a === p ? -1 : 0))
    return isOfSums(literal, along, steps, (d) => (d >= lo && d < hi ? inside : outside))
  }
  for (const [k, p] of along.entries())
    for (const q of along.slice(k + 1)) {
      const band = bandOf(at, p, q)
      if (band === undefined || !isAll(band, p, q)) continue
      const distance = makeNode('sub', [place(shape, q.axis), place(shape, p.axis)], {})
      const than = (op: 'ge' | 'lt', d: number): Node => makeNode(op, [distance, fullOf(shape, 'i32', d)], {})
      const [from, to] = [than('ge', band.lo), than('lt', band.hi)]
      const isInside = band.hi === q.extent ? from : makeNode('and', [from, to], {})
      if (dtype === 'bool') return band.inside === true ? isInside : makeNode('not', [isInside], {})
      return makeNode('select', [isInside, fullOf(shape, dtype, band.inside), fullOf(shape, dtype, band.outside)], {})
    }
  return undefined
}

/** What each literal is, looked at once. */
const known = new WeakMap<NodeOf<'constant'>, { readonly node: Node | undefined }>()

function byPlace(literal: NodeOf<'constant'>): Node | undefined {
  if (sizeOf(literal.shape) < fewest) return undefined
  const have = known.get(literal)
  if (have !== undefined) return have.node
  const node = overElements(() => counted(literal) ?? banded(literal))
  known.set(literal, { node })
  return node
}

export const knownPositionRules: readonly Rule[] = [
  rule('constant', 'exact', 'constant-by-place', 'a literal that says where its elements stand -> the places', byPlace),
]
