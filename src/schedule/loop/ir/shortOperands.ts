/**
 * Products of integers that fit 16 bits: neighbours of the depth are multiplied and added in pairs of 32 bits, exactly. Of the second operand a
 * step takes eight of the depth, where that is innermost in memory, or two rows of eight columns, whose pairs it interleaves. Operands
 * are read in place where that fits, else they stand in tiles of 16 bits.
 */
import { flatten, strideOf } from '../../../affine/expr.ts'
import { type KernelParam, operandsOf, type TileOp, type ValueId } from '../../../kernel/ir.ts'
import { fits16, narrowRange, type Range, rangeThrough } from '../../../scalar/narrow.ts'
import type { DType } from '../../../types/dtype.ts'
import { type DirectOperand, loadedInPlace } from './operands.ts'
import { type Axes, type Def, readMargin, type Tile } from './tile.ts'

/** How the second operand stands: [n][k], or [k][n]. The first is [m][k]. */
export type ShortForm = 'depth' | 'pairs'

/** Columns that a block of accumulators has. */
export const shortColumns = { depth: 4, pairs: 8 } as const
/** Bytes of an element in a tile. */
export const shortBytes = 2

type Definitions = (id: ValueId) => Pick<Def, 'op' | 'dtype'> | undefined

/** Bounds of an i32, where it is made of narrow numbers. */
function rangeOf(id: ValueId, def: Definitions): Range | undefined {
  const { op, dtype } = def(id) ?? {}
  if (op?.kind === 'stage') return rangeOf(op.of, def)
  if (op?.kind === 'const' && typeof op.value === 'number' && Number.isInteger(op.value))
    return { lo: op.value, hi: op.value }
  if (op?.kind !== 'scalar' || dtype !== 'i32') return dtype === undefined ? undefined : narrowRange(dtype)
  const args = (op.op === 'select' ? op.args.slice(1) : op.args).map((a) => rangeOf(a, def))
  const known = args.filter((r) => r !== undefined)
  return known.length < args.length ? undefined : rangeThrough(op.op, known)
}

/** Whether the operands of a product of integers fit 16 bits with their signs. */
export const isShortProduct = (op: Extract<TileOp, { kind: 'dot' }>, def: Definitions): boolean =>
  [op.a, op.b].every((id) => fits16(rangeOf(id, def)))

/** Bytes of a block of columns of a pair of rows as they are packed, and of so much of the depth: an odd number of cache lines. */
export const pairBytes = 2 * shortBytes * shortColumns.pairs
export const pairsBlockBytes = (depth: number): number => 64 * (Math.ceil((pairBytes * depth) / 2 / 64) | 1)

/** How memory of these dtypes is read as eight numbers of 16 bits. */
export const shortForms = { i8: '8_s', u8: '8_u', i16: 'plain' } as const

export const isShortForm = (d: DType): d is keyof typeof shortForms => Object.hasOwn(shortForms, d)

interface Roles {
  readonly a: ValueId
  readonly b: ValueId
  readonly m: readonly string[]
  readonly n: readonly string[]
  readonly k: readonly string[]
}

/** How the operands of a product of short integers stand, and where they are read in place. */
export function shortOperands(
  { a, b, m, n, k }: Roles,
  axes: Axes,
  def: (id: ValueId) => Def,
  param: (name: string) => KernelParam,
  hasHome: (id: ValueId) => boolean,
): {
  readonly short: ShortForm
  readonly directA: DirectOperand | undefined
  readonly directB: DirectOperand | undefined
} {
  const inPlace = (id: ValueId, outer: readonly string[]): DirectOperand | undefined => {
    const { op } = def(id)
    const source = op?.kind === 'scalar' && op.op === 'cast' ? op.args[0] : undefined
    if (source === undefined || hasHome(source)) return undefined
    const found = loadedInPlace(def(source), outer, k, axes, param)
    if (found === undefined || !isShortForm(found.param.dtype)) return undefined
    return { ...found, param: found.param.name, form: shortForms[found.param.dtype] }
  }
  const [ofA, ofB] = [inPlace(a, m), inPlace(b, n)]
  if (isAlong(b, k, n, axes, def, param, hasHome)) {
    const alongDepth = (x: DirectOperand | undefined): DirectOperand | undefined =>
      x !== undefined && x.inner === bytesOf(x) ? x : undefined
    const directB = alongDepth(ofB)
    // A block of columns reads whole rows, beyond the last one too.
    const reads = (shortColumns.depth - 1) * (directB?.outer ?? 0) + 16
    return { short: 'depth', directA: alongDepth(ofA), directB: reads <= readMargin ? directB : undefined }
  }
  return {
    short: 'pairs',
    directA: ofA?.form === 'plain' && ofA.inner === shortBytes ? ofA : undefined,
    directB: ofB !== undefined && ofB.outer === bytesOf(ofB) ? ofB : undefined,
  }
}

/** Bytes of an element of an operand in place. */
const bytesOf = ({ form }: DirectOperand): number => (form === 'plain' ? shortBytes : 1)

/** Indices of an axis that a step takes of the depth: where fewer stand side by side, most of a step would be copied apart. */
const depthStep = 8

/** Whether what a value is loaded from is side by side along an axis of one role that is long enough for a step, and nothing along the other's. */
function isAlong(
  id: ValueId,
  role: readonly string[],
  other: readonly string[],
  axes: Axes,
  def: Definitions,
  param: (name: string) => KernelParam,
  hasHome: (id: ValueId) => boolean,
): boolean {
  let along = false
  const seen = new Set([id])
  for (const at of seen) {
    const op = hasHome(at) ? undefined : def(at)?.op
    if (op === undefined) continue
    for (const o of operandsOf(op)) seen.add(o)
    if (op.kind !== 'load') continue
    const position = flatten(op.index, param(op.param).shape)
    const unit = (names: readonly string[], least: number): boolean =>
      names.some((a) => strideOf(position, a) === 1 && axes.view(a).max >= least)
    if (unit(axes.varying(other), 1)) return false
    along ||= unit(axes.varying(role), depthStep)
  }
  return along
}

/** Whether a tile holds the operand of a product of short integers. */
export const isShortTile = ({ dtype }: Pick<Tile, 'dtype'>): boolean => dtype === 'i16'

/** A tile of 16 bits: rows of the inner axes, an odd number of cache lines apart, so that a column of them spreads over the cache. */
export function shortLayout(outer: readonly string[], inner: readonly string[], axes: Axes): Omit<Tile, 'offset'> {
  const strides = new Map<string, number>()
  const along = (names: readonly string[], unit: number): number => {
    let stride = unit
    for (const a of axes.varying(names).reverse()) {
      strides.set(a, stride)
      stride *= axes.view(a).max
    }
    return stride
  }
  const lines = Math.ceil(along(inner, shortBytes) / 64)
  const row = 64 * (lines % 2 === 0 ? lines + 1 : lines)
  // A block of columns reads whole rows, beyond the last one too.
  return { dtype: 'i16', strides, bytes: along(outer, row) + (shortColumns.depth - 1) * row }
}
