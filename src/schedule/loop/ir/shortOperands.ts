/**
 * Products of integers that fit 16 bits: a step multiplies eight neighbours of the depth at once and adds them in pairs of 32 bits, exactly.
 * Operands stand with their depth innermost, as they are in memory where that fits, else in tiles of 16 bits.
 */
import type { KernelParam, TileOp, ValueId } from '../../../kernel/ir.ts'
import { fits16, narrowRange, type Range, rangeThrough } from '../../../scalar/narrow.ts'
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import { type DirectOperand, loadedInPlace } from './operands.ts'
import { type Axes, type Def, isMultiple, type Tile } from './tile.ts'

/** Depth that a step takes, and columns that a block of accumulators has. */
export const shortStep = 8
export const shortColumns = 4
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

/** How memory of these dtypes is read as eight numbers of 16 bits. */
export const shortForms = { i8: '8_s', u8: '8_u', i16: 'plain' } as const

const isForm = (d: DType): d is keyof typeof shortForms => Object.hasOwn(shortForms, d)

/** An operand that is read where it is: elements of narrow integers, their depth side by side and in whole steps. */
export function shortInPlace(
  id: ValueId,
  outer: readonly string[],
  inner: readonly string[],
  axes: Axes,
  def: (id: ValueId) => Def,
  param: (name: string) => KernelParam,
  hasHome: (id: ValueId) => boolean,
): DirectOperand | undefined {
  const { op } = def(id)
  const source = op?.kind === 'scalar' && op.op === 'cast' ? op.args[0] : undefined
  if (source === undefined || hasHome(source)) return undefined
  const found = loadedInPlace(def(source), outer, inner, axes, param)
  if (found === undefined || !inner.every((a) => isMultiple(axes.view(a), shortStep))) return undefined
  const { dtype, name } = found.param
  if (!isForm(dtype) || found.inner !== dtypeBytes(dtype)) return undefined
  return { ...found, param: name, form: shortForms[dtype] }
}

/** A tile of 16 bits: rows of the depth, an odd number of cache lines apart, so that a column of them spreads over the cache. */
export function shortLayout(outer: readonly string[], depth: readonly string[], axes: Axes): Omit<Tile, 'offset'> {
  const strides = new Map<string, number>()
  const along = (names: readonly string[], unit: number): number => {
    let stride = unit
    for (const a of axes.varying(names).reverse()) {
      strides.set(a, stride)
      stride *= axes.view(a).max
    }
    return stride
  }
  const lines = Math.ceil(along(depth, shortBytes) / 64)
  const row = 64 * (lines % 2 === 0 ? lines + 1 : lines)
  // A block of columns reads whole rows, beyond the last one too.
  return { dtype: 'i16', strides, bytes: along(outer, row) + (shortColumns - 1) * row }
}
