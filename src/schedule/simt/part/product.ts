/**
 * Matrix products on tensor cores (mma.sync m16n8k16): which product sums qualify, and how their axes are spread.
 * The accumulator fragment is an ordinary register tile: a column axis has two neighbours a thread and the low two thread bits, a
 * row axis the next three; two repeats of rows are the two halves of a fragment. (PTX ISA, "Matrix Fragments for
 * mma.m16n8k16".) Operands stand in shared tiles of 16-bit elements, rows padded by 16 bytes against bank conflicts.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import type { DType } from '../../../types/dtype.ts'
import { panelElements, panelOf, type Swizzle } from '../storage/swizzle.ts'

/** What is asked of the part a product stands in. */
interface Surroundings {
  readonly ownStages: ReadonlySet<ValueId>
  readonly axesOf: (id: ValueId) => string[]
  spreadOnly(names: Iterable<string>): string[]
  dtypeOf(id: ValueId): DType
  axis(name: string): { readonly size: number; readonly role: 'grid' | 'loop' | 'local' }
  isCarriedFromZero(l: LetStmt): boolean
}

export interface Product {
  readonly dot: ValueId
  readonly rows: string
  readonly columns: string
  readonly depth: string
  readonly rowSize: number
  readonly columnSize: number
  readonly depthSize: number
  /** Staged operands: over rows and depth, over depth and columns. */
  readonly a: ValueId
  readonly b: ValueId
  readonly dtype: 'bf16' | 'f16' | 'tf32'
  /** Operands are sums of two numbers of tf32 (`tf32x3`): split in registers, multiplied in three products. */
  readonly split?: true
  /** 16-bit halves of an element: f32 operands have two. Tiles of those whose upper bits count alone (tf32) have the depth side by side. */
  readonly halves: 1 | 2
  readonly threads: number
  /** The first operand is what the part's own layout computes, in the registers of the product before it, whose columns are this one's depth. */
  readonly chained?: true
  /** Warps that share the depth of a step, each with all rows and columns: what they carry is put together behind the loop. */
  readonly warpsOfDepth?: number
  /** Groups of four warps, each with `pieces` times 64 rows and all columns; absent: warps of 16 x 8 tiles. */
  readonly groups?: { readonly count: number; readonly pieces: number }
}

/** Accumulator registers a thread aims at; of a warp group's thread. */
const registersPerThread = 64
/** Of small blocks, whose threads are few to bring the operands. */
const fewRegisters = 16
const registersInGroup = 128
/** The same where operands are split: a block's sums stand beside the running ones. */
const registersOfSplit = 64
/** Columns of blocks whose second operand threads split into tiles for groups, and the depth: a panel. */
const splitColumns: readonly number[] = [64, 128]

/** Warps that share a step's depth where a block has the least rows and several times the usual depth, and the least depth of one. */
const warpsOfDepth = 4
const leastOfDepth = 32

/** The plan of a product sum that tensor cores can do. */
export function productOf(
  part: Surroundings,
  l: LetStmt,
  warpGroups: boolean,
  before: readonly Product[],
): Product | undefined {
  const { op } = l
  if (op.kind !== 'dot' || l.dtype !== 'f32') return undefined
  const given = part.dtypeOf(op.a)
  const split = given === 'f32' && op.precision === 'tf32x3'
  const dtype = split ? 'tf32' : given === 'f32' ? op.precision : given
  if ((dtype !== 'bf16' && dtype !== 'f16' && dtype !== 'tf32') || part.dtypeOf(op.b) !== given) return undefined
  const halves = dtype === 'tf32' ? 2 : 1
  if (op.a === op.b) return undefined
  const kept = part.axesOf(l.id)
  const folded = part.spreadOnly(op.axes)
  const [depth] = folded
  if (folded.length !== 1 || depth === undefined || kept.length !== 2) return undefined
  const [first, second] = [part.axesOf(op.a), part.axesOf(op.b)]
  const own = (axes: readonly string[]): string | undefined => axes.find((x) => x !== depth)
  const [p, q] = [own(first), own(second)]
  if (first.length !== 2 || second.length !== 2 || p === undefined || q === undefined || p === q) return undefined
  if (!first.includes(depth) || !second.includes(depth)) return undefined
  const size = (a: string): number => part.axis(a).size
  // The operand whose axis the result has last gives the columns.
  const swap = kept.indexOf(p) > kept.indexOf(q)
  const [rows, columns] = swap ? [q, p] : [p, q]
  if (size(rows) % 16 !== 0 || size(columns) % 16 !== 0 || (size(depth) * halves) % 16 !== 0) return undefined
  const [a, b] = swap ? [op.b, op.a] : [op.a, op.b]
  const chained = halves === 1 && before.some((x) => x.rows === rows && x.columns === depth && x.chained !== true)
  if (!part.ownStages.has(b) || (!chained && !part.ownStages.has(a))) return undefined
  // A depth that is held whole is that of a tile in a loop over its columns.
  if (part.axis(depth).role !== 'loop' && part.axis(columns).role !== 'loop') return undefined
  const share = (registers: number): number => 2 ** Math.ceil(Math.log2((size(rows) * size(columns)) / registers))
  const threads = Math.max(share(registersPerThread), Math.min(128, share(fewRegisters)))
  const most = split ? registersOfSplit : registersInGroup
  const fits = !split || (splitColumns.includes(size(columns)) && size(depth) * halves === panelElements)
  const groups = warpGroups && fits ? groupsOf(size(rows), size(columns), size(depth) * halves, most) : undefined
  const isDeep = halves === 1 && !chained && size(rows) === 16 && size(depth) % (warpsOfDepth * leastOfDepth) === 0
  const shared = groups === undefined && isDeep && part.isCarriedFromZero(l)
  return {
    dot: l.id,
    rows,
    columns,
    depth,
    rowSize: size(rows),
    columnSize: size(columns),
    depthSize: size(depth),
    a,
    b,
    dtype,
    halves,
    ...(split ? { split } : {}),
    ...(chained ? { chained } : {}),
    ...(shared ? { warpsOfDepth } : {}),
    ...(shared
      ? { threads: 32 * warpsOfDepth }
      : groups === undefined
        ? { threads: Math.min(256, Math.max(32, threads)) }
        : { threads: 128 * groups.count, groups }),
  }
}

/** Products in a loop over the columns of some: those are its tiles, whose results stand in registers, and what they sum over depth is carried. */
export interface ChainedProducts {
  readonly tiles: readonly Product[]
  readonly sums: readonly Product[]
}

/** All products of a part as a chain, if they are one: one block of rows and columns for all tiles, whose columns are the depth of all sums. */
export function chainedProducts(
  products: Iterable<Product>,
  isLoop: (axis: string) => boolean,
): ChainedProducts | undefined {
  const all = [...products]
  const sums = all.filter((p) => p.chained === true)
  const tiles = all.filter((p) => p.chained !== true)
  const [first] = tiles
  if (first === undefined || !isLoop(first.columns) || tiles.some((p) => isLoop(p.depth))) return undefined
  const isOne =
    tiles.every((p) => p.rows === first.rows && p.columns === first.columns && p.dtype === first.dtype) &&
    sums.every((p) => p.rows === first.rows && p.depth === first.columns)
  return isOne ? { tiles, sums } : undefined
}

/**
 * The products of a chain by groups of four warps, where tiles are whole panels: a group has 64 rows. It reads its rows for tiles from
 * shared memory, and for sums from its registers.
 */
export function chainInGroups({ tiles, sums }: ChainedProducts): ChainedProducts | undefined {
  const widths = [...tiles.flatMap((p) => [p.columnSize, p.depthSize]), ...sums.map((p) => p.columnSize)]
  const isNarrow = sums.every((p) => p.columnSize <= registersInGroup * 2)
  const [first] = tiles
  if (first === undefined || first.halves !== 1 || first.rowSize % panelElements !== 0 || !isNarrow) return undefined
  if (widths.some((n) => panelOf(n) === undefined)) return undefined
  const count = chainThreads(first.rowSize) / 128
  const groups = { count, pieces: first.rowSize / panelElements / count }
  const grouped = (p: Product): Product => ({ ...p, groups })
  return { tiles: tiles.map(grouped), sums: sums.map(grouped) }
}

/** Rows of a chain's block. */
export const chainRows = ({ tiles }: ChainedProducts): number => tiles[0]?.rowSize ?? 16

/** Threads of a chain: a warp has 16 rows or more, and all columns of its products. */
export const chainThreads = (rows: number): number => Math.min(256, 2 * rows)

/** Bits of a thread's number that tell one of eight rows: the two halves of a fragment's 16. */
const bitsOfHalf = 3

/**
 * Where the rows of groups of warps have their halves: above the eight rows of a half, below warps, so that indices lie in a tile as the instruction's rows
 * do and copies of neighbours along rows are copies of neighbours.
 */
const pairsOf = (p: Product): { readonly pairAbove?: number } =>
  p.groups === undefined ? {} : { pairAbove: bitsOfHalf }

/** The layout of a chain: rows over all warps, so that what a thread has of the tiles is what it multiplies next. */
export function chainLayout({ tiles, sums }: ChainedProducts, threads: number): ReturnType<typeof productLayout> {
  const rows = Array.from({ length: Math.log2(threads) - 2 }, (_, i) => 2 + i)
  const columns = { vec: 2, bits: [0, 1] }
  return new Map([
    ...tiles.map((p) => [p.rows, { vec: 1, bits: rows, ...pairsOf(p) }] as const),
    ...[...tiles, ...sums].map((p) => [p.columns, columns] as const),
  ])
}

/** How groups of four warps share a block: powers of two of 64 rows, and columns in whole panels of shared memory. */
function groupsOf(rows: number, columns: number, depth: number, registers: number): Product['groups'] {
  const pieces = rows / panelElements
  if (!Number.isInteger(Math.log2(pieces)) || columns % panelElements !== 0 || depth % panelElements !== 0)
    return undefined
  const most = Math.floor((2 * registers) / columns)
  const each = Math.min(pieces, most)
  return each < 1 || pieces / each > 2 ? undefined : { count: pieces / each, pieces: each }
}

/** The tile of an operand whose rows (or columns) come first or last, for warp groups. */
export function swizzleOf(p: Product, isRows: boolean, depthLast: boolean): Swizzle | undefined {
  if (p.groups === undefined || p.split === true) return undefined
  const { count, pieces } = p.groups
  const own = isRows ? p.rowSize : p.columnSize
  const rows = depthLast ? own : p.depthSize
  const panel = panelOf(depthLast ? p.depthSize * p.halves : own)
  invariant(panel !== undefined, `the tile of %${p.dot} is of no whole panels`)
  if (!isRows || count === 1 || pieces === 1) return { rows, panel }
  return { rows, panel, order: { axis: depthLast ? 0 : 1, groups: Math.log2(count), pieces: Math.log2(pieces) } }
}

/** Warps along rows and columns: tiles of a warp as square as they go. */
export function productLayout(
  p: Product,
  threads: number,
): Map<string, { readonly vec: number; readonly bits: readonly number[]; readonly pairAbove?: number }> {
  const warpBits = Math.log2(threads) - 5
  if (p.groups !== undefined) {
    const rows = Array.from({ length: 3 + warpBits }, (_, i) => 2 + i)
    return new Map([
      [p.rows, { vec: 1, bits: rows, ...pairsOf(p) }],
      [p.columns, { vec: 2, bits: [0, 1] }],
    ])
  }
  if (p.warpsOfDepth !== undefined)
    return new Map([
      [p.rows, { vec: 1, bits: [2, 3, 4] }],
      [p.columns, { vec: 2, bits: [0, 1] }],
    ])
  let best = { rows: 0, columns: 0, cost: Number.POSITIVE_INFINITY }
  for (let r = 0; r <= warpBits; r++)
    for (let c = 0; r + c <= warpBits; c++) {
      if (p.rowSize % (16 << r) !== 0 || p.columnSize % (16 << c) !== 0) continue
      const idle = warpBits - r - c
      const cost = p.rowSize / 2 ** r + p.columnSize / 2 ** c + idle * 1e6
      if (cost < best.cost) best = { rows: r, columns: c, cost }
    }
  const warps = (from: number, n: number): number[] => Array.from({ length: n }, (_, i) => 5 + from + i)
  return new Map([
    [p.rows, { vec: 1, bits: [2, 3, 4, ...warps(best.columns, best.rows)] }],
    [p.columns, { vec: 2, bits: [0, 1, ...warps(0, best.columns)] }],
  ])
}
