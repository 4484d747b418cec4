/** Strided matrix products: what a call of a matrix library computes. Below planner and backends alike. */
import type { DType } from './dtype.ts'

/**
 * How products of f32 are multiplied (docs/numerics.md, "Precision"; the names are Triton's): `ieee` in f32, `tf32` with operands cut to
 * ten bits behind the point where a matrix unit takes them, `tf32x3` with each operand as the sum of two such numbers, of whose four
 * products the three largest are summed.
 */
export type Precision = 'ieee' | 'tf32x3' | 'tf32'

export const precisions: readonly Precision[] = ['ieee', 'tf32x3', 'tf32']

/** Precisions of products that a matrix unit multiplies. */
export type UnitPrecision = Exclude<Precision, 'ieee'>

export type ProductDType = Extract<DType, 'bf16' | 'f16' | 'f32' | 'f64'>

export const isProductDType = (d: DType): d is ProductDType => d === 'bf16' || d === 'f16' || d === 'f32' || d === 'f64'

/**
 * A matrix of every batch inside a buffer; offsets and strides count elements. `rows`: the elements of a row are neighbours and
 * rows stand `leading` apart; `columns`: the other way round.
 */
export interface StridedMatrix {
  readonly dtype: ProductDType
  readonly order: 'rows' | 'columns'
  readonly leading: number
  /** From one batch to the next; 0 where all share the matrix. */
  readonly batch: number
}

/** What a product is added to, `beta` times: a matrix of the dtype and the order of the result. */
export interface Addend extends StridedMatrix {
  readonly beta: number
}

/**
 * out[b, i, j] = alpha * sum over l of a[b, i, l] * b[b, l, j] + beta * addend[b, i, j] for batches b, i < m, j < n, l < k; summed
 * in f32 (f64 of f64) in any order, and rounded once. Every element of the addend is read before the one of the result at its
 * indices is written, and for that one alone.
 */
export interface StridedProduct {
  readonly batches: number
  readonly m: number
  readonly n: number
  readonly k: number
  readonly alpha: number
  /** Whether operands of f32 may be cut to tf32. */
  readonly precision?: 'tf32'
  readonly a: StridedMatrix
  readonly b: StridedMatrix
  readonly out: StridedMatrix
  readonly addend?: Addend
}

/** Where the matrices of one call of several begin in their buffers. */
export interface ProductOffsets {
  readonly a: number
  readonly b: number
  readonly out: number
  /** Where there is one. */
  readonly addend?: number
}

/** A product as calls of one shape. */
export interface ProductCalls {
  readonly product: StridedProduct
  readonly calls: readonly ProductOffsets[]
}

/** Equal for products that one algorithm serves. */
export function productKey({ batches, m, n, k, alpha, precision, a, b, out, addend }: StridedProduct): string {
  const matrix = (x: StridedMatrix): string => `${x.dtype} ${x.order} ${x.leading} ${x.batch}`
  const added = addend === undefined ? '' : ` + ${addend.beta} * ${matrix(addend)}`
  return `${batches} x ${m} x ${n} x ${k} * ${alpha}: ${matrix(a)}, ${matrix(b)}, ${matrix(out)}${added}${precision === undefined ? '' : ` ${precision}`}`
}

/** Whether the result of a product may stand where its addend does: element on element. */
export const standsOnAddend = ({ product: { batches, out, addend }, calls }: ProductCalls): boolean =>
  addend !== undefined &&
  addend.leading === out.leading &&
  (batches === 1 || addend.batch === out.batch) &&
  calls.every((c) => c.addend === c.out)

/** `8192 x 4096 x 4096 bf16`, with the number of batches in front where there are several. */
export function describeProduct({ batches, m, n, k, precision, a, out, addend }: StridedProduct): string {
  const dtypes = a.dtype === out.dtype ? a.dtype : `${a.dtype} to ${out.dtype}`
  return `${batches > 1 ? `${batches} of ` : ''}${m} x ${n} x ${k} ${dtypes}${precision === undefined ? '' : ` in ${precision}`}${addend === undefined ? '' : ', added to a matrix'}`
}
