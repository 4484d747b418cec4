/**
 * Which dots are matrix products for the register-blocked kernel: the roles of their axes, and where each operand is read
 * from (in place when it is a plain load with fitting strides, else from a tile in scratch).
 */
import type { KernelParam, LetStmt, ValueId } from '../../../kernel/ir.ts'
import { cacheLine } from '../../../target/loops.ts'
import { computeDType, type DType } from '../../../types/dtype.ts'
import { type DirectOperand, loadedInPlace } from './operands.ts'
import { isShortProduct, type ShortForm, shortLayout, shortOperands } from './shortOperands.ts'
import { type Axes, type Def, mostTile, type Tile, tileBytes } from './tile.ts'

export interface Product {
  readonly id: ValueId
  readonly dtype: DType
  /** Arithmetic and storage of the accumulators. */
  readonly compute: 'f32' | 'f64' | 'i32'
  /** How operands of integers that fit 16 bits stand (`shortOperands.ts`). */
  readonly short: ShortForm | undefined
  readonly a: ValueId
  readonly b: ValueId
  /** Axes of each role, outermost first; only the outermost may be cut by the grid or a loop. */
  readonly m: readonly string[]
  readonly n: readonly string[]
  readonly k: readonly string[]
  readonly acc: ValueId | undefined
  readonly axes: readonly string[]
  readonly directA: DirectOperand | undefined
  readonly directB: DirectOperand | undefined
}

/** Columns the register block takes at a time: rows of the tiles of b and c are padded to it. */
export const panel = 8

/** Bytes of a vector. */
const vectorBytes = 16

/** Whether lines that a block of columns shares with the next are still near then: where rows begin anywhere in a line, both lie in two of some. */
function staysNear(row: number, depth: number, unit: number, nearest: number): boolean {
  if (row % vectorBytes === 0) return true
  return depth * (cacheLine + 2 * vectorBytes - unit) <= nearest
}

/** Products with fewer multiplications than this are folded like any reduction. */
const leastWork = 256

const sameOrder = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((x, i) => x === b[i])

const sizeOf = (names: readonly string[], axes: Axes): number => names.reduce((n, a) => n * axes.view(a).max, 1)

/** Whether a role's axes flatten to one range: only the outermost may have a varying number of indices. */
const flattens = (names: readonly string[], axes: Axes): boolean =>
  names.every((a, i) => i === 0 || axes.view(a).counts?.length === 1)

export function productOf(
  s: LetStmt,
  axes: Axes,
  def: (id: ValueId) => Def,
  param: (name: string) => KernelParam,
  /** Whether a value has a tile of its own layout: the product cannot choose another. */
  isPlaced: (id: ValueId) => boolean,
  /** Whether a value stands in scratch before the level begins. */
  hasHome: (id: ValueId) => boolean,
  /** Bytes of the memory right beside the core. */
  nearest: number,
): Product | undefined {
  const { op } = s
  if (op.kind !== 'dot') return undefined
  const compute = computeDType(s.dtype)
  if (compute !== 'f32' && compute !== 'f64' && compute !== 'i32') return undefined
  const result = axes.varying(s.axes)
  const last = result.at(-1)
  if (last === undefined) return undefined
  // Staging is for whom shares memory between threads: here the product reads what was staged, unless that stands outside the loop.
  const source = (id: ValueId): ValueId => {
    const d = def(id)
    return d.op?.kind === 'stage' && !hasHome(id) ? d.op.of : id
  }
  const [x, y] = [source(op.a), source(op.b)]
  const [a, b] = axes.varying(def(x).axes).includes(last) ? [y, x] : [x, y]
  const aAxes = axes.varying(def(a).axes)
  const bAxes = axes.varying(def(b).axes)
  const k = axes.varying(op.axes)
  if (k.length === 0 || !k.every((x) => aAxes.includes(x) && bAxes.includes(x))) return undefined
  const m = result.filter((x) => aAxes.includes(x))
  const n = result.filter((x) => bAxes.includes(x))
  // Every result axis has one role, and the rows come before the columns.
  if (m.length + n.length !== result.length || m.some((x) => n.includes(x))) return undefined
  if (aAxes.length !== m.length + k.length || bAxes.length !== n.length + k.length) return undefined
  if (!result.every((x, i) => x === (i < m.length ? m[i] : n[i - m.length]))) return undefined
  if (![m, n, k].every((role) => flattens(role, axes))) return undefined
  const rows = sizeOf(m, axes)
  const columns = sizeOf(n, axes)
  const depth = sizeOf(k, axes)
  if (rows < 2 || columns < 4 || rows * columns * depth < leastWork) return undefined
  if (!standsAs(def(a).dtype, compute) || !standsAs(def(b).dtype, compute)) return undefined
  const common = { id: s.id, dtype: s.dtype, compute, a, b, m, n, k, acc: op.acc, axes: s.axes }
  if (compute === 'i32' && !isPlaced(a) && !isPlaced(b) && isShortProduct(op, def))
    return { ...common, ...shortOperands({ a, b, m, n, k }, axes, def, param, hasHome) }
  const inA = directOperand(def(a), m, k, axes, param, compute)
  const inB = directOperand(def(b), n, k, axes, param, compute)
  const unit = tileBytes(compute)
  // Strided depth, and rows that fall on the same cache lines or do not stay near from a block of columns to the next, are copied into a compact tile first.
  const directA =
    inA !== undefined && (inA.inner === unit || (inA.inner <= 512 && inA.outer === unit)) ? inA : undefined
  const fewRows = rows <= 12
  const directB =
    inB !== undefined &&
    inB.outer === unit &&
    (fewRows || (inB.inner <= 1024 && inB.inner * depth <= 65536 && staysNear(inB.inner, depth, unit, nearest)))
      ? inB
      : undefined
  const copied = Math.max(directA === undefined ? rows : 0, directB === undefined ? columns : 0) * depth * unit
  if (copied > mostTile) return undefined
  if (directB === undefined && isPlaced(b) && !sameOrder(bAxes, [...k, ...n])) return undefined
  if (directA === undefined && isPlaced(a) && !sameOrder(aAxes, [...k, ...m]) && !sameOrder(aAxes, [...m, ...k]))
    return undefined
  return { ...common, short: undefined, directA, directB }
}

/** Whether values of a dtype stand in scratch as the arithmetic wants them. */
const standsAs = (d: DType, compute: 'f32' | 'f64' | 'i32'): boolean => {
  const c = computeDType(d)
  return compute === 'i32' ? c === 'i32' || c === 'u32' : c === compute
}

function directOperand(
  d: Def,
  outer: readonly string[],
  inner: readonly string[],
  axes: Axes,
  param: (name: string) => KernelParam,
  compute: DType,
): DirectOperand | undefined {
  const found = loadedInPlace(d, outer, inner, axes, param)
  return found?.param.dtype === compute ? { ...found, param: found.param.name } : undefined
}

/** The byte stride of a role in a tile. */
export function tileStride(tile: Tile, role: readonly string[]): number {
  const last = role.at(-1)
  return last === undefined ? 0 : (tile.strides.get(last) ?? 0)
}

/**
 * Layout of an operand's tile. `b` is [k][n], its rows an odd number of cache lines apart so that a column of them spreads
 * over the cache; `a` keeps the order its source is contiguous in.
 */
export function operandLayout(
  product: Product,
  which: 'a' | 'b',
  contiguousRows: boolean,
  axes: Axes,
): Omit<Tile, 'offset'> {
  const { m, n, k, compute } = product
  if (product.short !== undefined)
    return which === 'b' && product.short === 'pairs'
      ? shortLayout(k, n, axes)
      : shortLayout(which === 'b' ? n : m, k, axes)
  return rowLayout(which === 'b' ? [k, n] : contiguousRows ? [k, m] : [m, k], compute, axes)
}

/** Rows of the inner axes, an odd number of cache lines apart. */
export function rowLayout(
  [outer, inner]: readonly [readonly string[], readonly string[]],
  dtype: DType,
  axes: Axes,
): Omit<Tile, 'offset'> {
  const lines = 64 / tileBytes(dtype)
  const row = Math.ceil(sizeOf(inner, axes) / lines)
  return axes.layout([...outer, ...inner], dtype, {
    at: inner[0] ?? '',
    pad: lines * (row % 2 === 0 ? row + 1 : row),
  })
}

/** Layout of a product's result: rows padded so that whole panels of columns can be written. */
export const resultLayoutOf = (p: Product, axes: Axes): Omit<Tile, 'offset'> =>
  axes.layout([...p.m, ...p.n], p.compute, { at: p.n[0] ?? '', pad: (panel * 4) / tileBytes(p.compute) })
