/**
 * A library's product cut where lines of its matrices end inside a group of 16 bytes: a library takes its quick algorithms only for lengths of whole
 * groups. The part of whole groups is one call; what is left of rows, columns and depth are calls of few operations. Depth that is left is multiplied first,
 * and the large part added to it where it stands.
 */
import type { LibraryInfo } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import type { ProductCalls, ProductOffsets, StridedMatrix, StridedProduct } from '../../types/product.ts'

/** Groups of 16 bytes from which a length is worth a call for what is left. */
const leastGroups = 8

/** A range of the rows, columns and depth of a product. */
interface Range {
  readonly from: number
  readonly size: number
}

/** Elements from the first of a matrix to those at a row and a column. */
const placeOf = ({ order, leading }: StridedMatrix, row: number, column: number): number =>
  order === 'rows' ? row * leading + column : column * leading + row

/** The share of its rate that a library reaches by the alignment of the matrices. */
export function shareOf({ product, calls }: ProductCalls, { shares }: LibraryInfo): number {
  const { batches, m, n, k, a, b, out, addend, precision } = product
  // Multiplied as f32, by no matrix unit: elements are read one by one wherever they stand.
  if (a.dtype === 'f32' && precision === undefined) return 1
  const lines = (x: StridedMatrix, rows: number, columns: number, offset: (c: ProductOffsets) => number): number[] =>
    [x.order === 'rows' ? columns : rows, x.leading, batches > 1 ? x.batch : 0, ...calls.map(offset)].map(
      (n) => n * dtypeBytes(x.dtype),
    )
  const lengths = [
    ...lines(a, m, k, (c) => c.a),
    ...lines(b, k, n, (c) => c.b),
    ...lines(out, m, n, (c) => c.out),
    ...(addend === undefined ? [] : lines(addend, m, n, (c) => c.addend ?? 0)),
  ]
  return shares.find(({ bytes }) => lengths.every((n) => n % bytes === 0))?.share ?? 1
}

/** The calls of a product in order, the large one last; undefined where there is one, or where several would gain nothing. */
export function partsOf(whole: ProductCalls, library: LibraryInfo): readonly ProductCalls[] | undefined {
  const { product } = whole
  const { a, b, out } = product
  const each = 16 / Math.min(dtypeBytes(a.dtype), dtypeBytes(out.dtype))
  if (!library.cuts || product.addend !== undefined || shareOf(whole, library) === 1) return undefined
  const wholeGroups = (size: number, isLine: boolean): Range => {
    const kept = isLine ? size - (size % each) : size
    return { from: 0, size: kept < leastGroups * each ? size : kept }
  }
  const m = wholeGroups(product.m, a.order === 'columns' || out.order === 'columns')
  const n = wholeGroups(product.n, b.order === 'rows' || out.order === 'rows')
  // Half a sum may be beyond what f16 holds where the sum is not.
  const mayAdd = out.dtype !== 'f16'
  const k = wholeGroups(product.k, mayAdd && (a.order === 'rows' || b.order === 'columns'))
  const rest = (of: Range, size: number): Range => ({ from: of.size, size: size - of.size })
  const all = (size: number): Range => ({ from: 0, size })
  const parts = [
    part(whole, rest(m, product.m), all(product.n), all(product.k)),
    part(whole, m, rest(n, product.n), all(product.k)),
    part(whole, m, n, rest(k, product.k)),
    added(part(whole, m, n, k), k.size < product.k),
  ].filter(({ product: { m, n, k } }) => m > 0 && n > 0 && k > 0)
  const large = parts.at(-1)
  return parts.length > 1 && large !== undefined && shareOf(large, library) === 1 ? parts : undefined
}

function part({ product, calls }: ProductCalls, m: Range, n: Range, k: Range): ProductCalls {
  const { a, b, out } = product
  return {
    product: { ...product, m: m.size, n: n.size, k: k.size },
    calls: calls.map((c) => ({
      a: c.a + placeOf(a, m.from, k.from),
      b: c.b + placeOf(b, k.from, n.from),
      out: c.out + placeOf(out, m.from, n.from),
    })),
  }
}

/** A product that adds to what stands in its result. */
function added({ product, calls }: ProductCalls, adds: boolean): ProductCalls {
  if (!adds) return { product, calls }
  const onto: StridedProduct = { ...product, addend: { ...product.out, beta: 1 } }
  return { product: onto, calls: calls.map((c) => ({ ...c, addend: c.out })) }
}
