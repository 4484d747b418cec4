/**
 * Chains of products without matrix units: products in a loop over the columns of some, which are the depth of the others. All read
 * staged tiles in vectors of four (vectorProduct.ts). Threads lie along rows and columns the same way for all products, so that what
 * stands between two is ordinary code on a thread's registers; what it makes is staged for the next, from those registers.
 */
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { sliceFor, slicesOf, type TiledProduct } from './slices.ts'
import {
  bitsOf,
  type Forced,
  lanes,
  type Slices,
  type Surroundings,
  spanWith,
  unrollOf,
  type VectorOperand,
  type VectorOperands,
  type VectorProduct,
  vectorOperands,
} from './vectorProduct.ts'

/** The products of a chain, and how threads share their results. */
export interface VectorChain {
  readonly products: ReadonlyMap<ValueId, VectorProduct>
  readonly threads: number
  /** Vectors and thread bits of the axes of results. */
  readonly layout: ReadonlyMap<string, Forced>
}

/** Ways to share results, the first of which is taken that leaves enough threads and few results each: vectors of rows, log2 of threads along columns. */
const ways = [
  { rows: 2, columns: 3 },
  { rows: 2, columns: 4 },
  { rows: 1, columns: 3 },
  { rows: 1, columns: 4 },
] as const
/** Threads that a multiprocessor is busy with, and results of a product that a thread has registers for. */
const [enoughThreads, mostResults] = [128, 64]
/** Indices of the depth whose code is repeated in place. */
const repeats = 8

/** The product sums of a part as a chain, if they are one. */
export function vectorChainOf(
  part: Surroundings,
  dots: readonly LetStmt[],
  machine: SimtMachine,
): VectorChain | undefined {
  const isLoop = (axis: string): boolean => part.axis(axis).role === 'loop'
  const found = new Map<ValueId, VectorOperands>()
  for (const l of dots) {
    const operands = vectorOperands(part, l)
    if (operands === undefined) return undefined
    found.set(l.id, operands)
  }
  const all = [...found.values()]
  const tiles = all.filter((p) => !p.depth.some(isLoop))
  const sums = all.filter((p) => p.depth.some(isLoop))
  const [first] = tiles
  if (first === undefined) return undefined
  const isSame = (a: readonly string[], b: readonly string[]): boolean =>
    a.length === b.length && a.every((x) => b.includes(x))
  const isOne =
    tiles.every((p) => isSame(p.a.own, first.a.own) && isSame(p.b.own, first.b.own) && p.b.own.every(isLoop)) &&
    sums.every((p) => isSame(p.a.own, first.a.own) && isSame(p.depth, first.b.own))
  if (!isOne) return undefined
  const size = (axes: readonly string[]): number => axes.reduce((n, x) => n * part.axis(x).size, 1)
  const vectors = (axes: readonly string[]): number => Math.ceil(size(axes) / lanes)
  const rowVectors = vectors(first.a.own)
  // As many threads along columns as tiles have, or as the widest results have: those of a tile then stand in several threads.
  const widest = Math.max(...all.map((p) => vectors(p.b.own)))
  const most = [vectors(first.b.own), widest].flatMap((n) => ways.map((way) => ({ ...way, most: n })))
  const spread = most.flatMap(({ rows, columns, most }) => {
    const columnBits = Math.min(columns, Math.ceil(Math.log2(most)))
    const rowBits = Math.max(0, Math.ceil(Math.log2(rowVectors / rows)))
    const results = (p: VectorOperands): number =>
      lanes * lanes * Math.ceil(rowVectors / 2 ** rowBits) * Math.ceil(vectors(p.b.own) / 2 ** columnBits)
    const threads = 2 ** (rowBits + columnBits)
    return threads > machine.maxThreads
      ? []
      : [{ rowBits, columnBits, threads, results: Math.max(...all.map(results)) }]
  })
  const isGood = (x: (typeof spread)[number]): boolean => x.threads >= enoughThreads && x.results <= mostResults
  const way = spread.find(isGood) ?? spread.toSorted((x, y) => x.results - y.results)[0]
  if (way === undefined) return undefined
  const { rowBits, columnBits, threads } = way
  const layout = new Map<string, Forced>()
  for (const o of all.map((p) => p.b)) {
    const bits = bitsOf(part, o, 0, Math.min(columnBits, Math.ceil(Math.log2(vectors(o.own)))))
    if (bits === undefined) return undefined
    for (const [x, forced] of bits) layout.set(x, forced)
  }
  const rows = bitsOf(part, first.a, columnBits, rowBits)
  if (rows === undefined) return undefined
  for (const [x, forced] of rows) layout.set(x, forced)
  /** Indices that an operand's tile has across the depth, those beyond the program's range included. */
  const spanOf = (o: VectorOperand): number => o.own.reduce((n, x) => n * spanWith(part.axis(x).size, layout.get(x)), 1)
  const tiled = (p: VectorOperands): TiledProduct => ({
    depth: size(p.depth),
    operands: [p.a, p.b].map((o) => ({ span: spanOf(o), isFree: part.isFree(o.stage) })),
  })
  const isFolded = [...part.lets.values()].some((l) => l.op.kind === 'reduce')
  const shape = { rows: spanOf(first.a), shared: spanOf(first.b), isFolded }
  const slice = sliceFor({ ...shape, products: all.map(tiled) }, machine)
  const slicesFor = (p: VectorOperands): { readonly slices?: Slices } => {
    const [axis, more] = p.depth
    const count = slicesOf(tiled(p), slice)
    if (slice === undefined || axis === undefined || more !== undefined || count === 1) return {}
    const stages = [p.a.stage, p.b.stage].filter((id) => part.isFree(id))
    return { slices: { axis, size: slice, count, stages: new Set(stages) } }
  }
  const products = new Map(
    [...found].map(([dot, p]) => {
      const { slices } = slicesFor(p)
      const unroll = unrollOf(slices?.size ?? size(p.depth), repeats)
      return [dot, { ...p, dot, threads, unroll, ...(slices === undefined ? {} : { slices }) }]
    }),
  )
  return { products, threads, layout }
}
