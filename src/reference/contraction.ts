/** Contractions of the reference backend: both operands regrouped to [batch, free, summed], then dot products in order. */
import { invariant } from '../diagnostics/errors.ts'
import type { NodeOf } from '../graph/node.ts'
import { labelExtents } from '../graph/ops/contraction.ts'
import { wrapNarrow, wrapWide } from '../scalar/integer.ts'
import { computeDType, isFloat } from '../types/dtype.ts'
import { rowMajorStrides, sizeOf } from '../types/shape.ts'
import { allocate, isNarrow, type RefTensor, type Rounding, roundInPlace, type Wide } from './tensor.ts'
import { permute, readAt } from './view.ts'

/** Extents of the regrouped problem: out[b, i, j] = sum over k of lhs[b, i, k] * rhs[b, j, k]. */
interface Extents {
  readonly batch: number
  readonly rows: number
  readonly columns: number
  readonly depth: number
}

export function contract(lhs: RefTensor, rhs: RefTensor, node: NodeOf<'contract'>, rounding: Rounding): RefTensor {
  const { attrs, dtype } = node
  const extents = labelExtents(attrs.lhs, lhs.shape, attrs.rhs, rhs.shape)
  const left = [...attrs.lhs]
  const right = [...attrs.rhs]
  const kept = new Set(attrs.out)
  const batch = left.filter((l) => kept.has(l) && right.includes(l))
  const rows = left.filter((l) => kept.has(l) && !right.includes(l))
  const columns = right.filter((l) => kept.has(l) && !left.includes(l))
  const summed = [...left.filter((l) => !kept.has(l)), ...right.filter((l) => !kept.has(l) && !left.includes(l))]
  const size = (labels: readonly string[]): number => sizeOf(labels.map((l) => extents.get(l) ?? 1))

  /** An operand over the given labels; a label it lacks repeats it. */
  const spread = (x: RefTensor, own: readonly string[], labels: readonly string[]): RefTensor => {
    const strides = rowMajorStrides(x.shape)
    return readAt(
      x,
      labels.map((l) => extents.get(l) ?? 1),
      { offset: 0, strides: labels.map((l) => (own.includes(l) ? (strides[own.indexOf(l)] ?? 0) : 0)) },
    )
  }
  const a = spread(lhs, left, [...batch, ...rows, ...summed])
  const b = spread(rhs, right, [...batch, ...columns, ...summed])
  const e: Extents = { batch: size(batch), rows: size(rows), columns: size(columns), depth: size(summed) }
  const grouped = [...batch, ...rows, ...columns]
  const out = allocate(dtype, e.batch * e.rows * e.columns)
  if (isNarrow(out) && isNarrow(a.data) && isNarrow(b.data)) {
    if (!isFloat(dtype)) {
      dotIntegers(a.data, b.data, out, e)
      for (let i = 0; i < out.length; i++) out[i] = wrapNarrow(dtype, out[i] ?? 0)
    } else if (rounding === 'strict' && computeDType(dtype) === 'f32') dotStrict(a.data, b.data, out, e)
    else dotFloats(a.data, b.data, out, e)
    if (rounding !== 'f64') roundInPlace(out, dtype)
  } else {
    invariant(!isNarrow(out) && !isNarrow(a.data) && !isNarrow(b.data), 'operands of one dtype stand alike')
    dotWide(a.data, b.data, out, e)
    for (let i = 0; i < out.length; i++) out[i] = wrapWide(dtype, out[i] ?? 0n)
  }
  const result: RefTensor = { dtype, shape: grouped.map((l) => extents.get(l) ?? 1), data: out }
  const order = [...attrs.out].map((l) => grouped.indexOf(l))
  return order.every((p, i) => p === i) ? result : permute(result, order)
}

/** Visits each (row of a, row of b, output) triple of offsets. */
function eachDot(e: Extents, dot: (aAt: number, bAt: number, outAt: number) => void): void {
  for (let p = 0; p < e.batch; p++)
    for (let i = 0; i < e.rows; i++)
      for (let j = 0; j < e.columns; j++)
        dot((p * e.rows + i) * e.depth, (p * e.columns + j) * e.depth, (p * e.rows + i) * e.columns + j)
}

/** Four columns at a time, so that four independent sums are under way; each is still in order. */
function dotFloats(a: Float64Array, b: Float64Array, out: Float64Array, e: Extents): void {
  const { depth, columns } = e
  for (let p = 0; p < e.batch; p++)
    for (let i = 0; i < e.rows; i++) {
      const row = (p * e.rows + i) * depth
      const to = (p * e.rows + i) * columns
      let j = 0
      for (; j + 4 <= columns; j += 4) {
        const b0 = (p * columns + j) * depth
        const b1 = b0 + depth
        const b2 = b1 + depth
        const b3 = b2 + depth
        let s0 = 0
        let s1 = 0
        let s2 = 0
        let s3 = 0
        for (let k = 0; k < depth; k++) {
          const x = a[row + k] ?? 0
          s0 += x * (b[b0 + k] ?? 0)
          s1 += x * (b[b1 + k] ?? 0)
          s2 += x * (b[b2 + k] ?? 0)
          s3 += x * (b[b3 + k] ?? 0)
        }
        out[to + j] = s0
        out[to + j + 1] = s1
        out[to + j + 2] = s2
        out[to + j + 3] = s3
      }
      for (; j < columns; j++) {
        const from = (p * columns + j) * depth
        let s = 0
        for (let k = 0; k < depth; k++) s += (a[row + k] ?? 0) * (b[from + k] ?? 0)
        out[to + j] = s
      }
    }
}

function dotStrict(a: Float64Array, b: Float64Array, out: Float64Array, e: Extents): void {
  eachDot(e, (row, column, to) => {
    let s = 0
    for (let k = 0; k < e.depth; k++)
      s = Math.fround(s + Math.fround(Math.fround(a[row + k] ?? 0) * Math.fround(b[column + k] ?? 0)))
    out[to] = s
  })
}

function dotIntegers(a: Float64Array, b: Float64Array, out: Float64Array, e: Extents): void {
  eachDot(e, (row, column, to) => {
    let s = 0
    for (let k = 0; k < e.depth; k++) s = (s + Math.imul(a[row + k] ?? 0, b[column + k] ?? 0)) | 0
    out[to] = s
  })
}

function dotWide(a: Wide, b: Wide, out: Wide, e: Extents): void {
  eachDot(e, (row, column, to) => {
    let s = 0n
    for (let k = 0; k < e.depth; k++) s = BigInt.asIntN(64, s + (a[row + k] ?? 0n) * (b[column + k] ?? 0n))
    out[to] = s
  })
}
