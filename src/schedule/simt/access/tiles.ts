/** Tiles of staged values: how they stand in shared memory, or in the registers of those who multiply them. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import { rowMajorStrides } from '../../../types/shape.ts'
import { type Layout, registersOf, spanOf } from '../layout/layout.ts'
import { type PackedForm, readsOfForm } from '../part/packed.ts'
import type { Part } from '../part/part.ts'
import { type Product, swizzleOf } from '../part/product.ts'
import { matrixRegion, type SubgroupMatrices, subgroupMatrices, tilePitch } from '../part/subgroupMatrices.ts'
import { lanes, type VectorOperand, type VectorProduct } from '../part/vectorProduct.ts'
import { registerType } from '../storage/registerType.ts'
import type { SharedArrayPlan } from '../storage/sharedMemory.ts'
import type { Swizzle } from '../storage/swizzle.ts'
import type { Place } from './place.ts'

/** A tile, row-major over axes by their index in the program's range. */
export interface TilePlan {
  readonly let: LetStmt
  readonly axes: readonly string[]
  readonly strides: readonly number[]
  /** Elements, of one tile where a ring has several. */
  readonly length: number
  /**
   * Elements of 16 bits for matrix units, in shared memory or as fragments in a thread's registers (`length` words of two); or rows of `pitch`
   * elements, of f32 that are read in vectors of four, or of 16 bits that subgroups read as matrices.
   */
  readonly form:
    | { readonly kind: 'plain' }
    /** `packed`: computed two at a time. */
    | { readonly kind: 'fragments'; readonly product: Product; readonly packed: PackedForm | undefined }
    | {
        readonly kind: 'halves'
        readonly product: Product
        readonly swizzle: Swizzle | undefined
        readonly packed?: PackedForm
      }
    | { readonly kind: 'vectors'; readonly product: VectorProduct; readonly pitch: number }
    /** `depthLast`: rows go along the depth, not across it; `at`: where it begins in its product's array. */
    | {
        readonly kind: 'matrices'
        readonly product: VectorProduct
        readonly pitch: number
        readonly at: number
        readonly depthLast?: true
      }
}

/** Row-major, with room behind it for what registers beyond the range may ask for. */
export function plainTile({ part, layout }: Place, l: LetStmt): TilePlan {
  const axes = part.axesOf(l.id)
  const strides = rowMajorStrides(axes.map((a) => part.axis(a).size))
  const length = axes.reduce((n, name, i) => {
    const a = layout.find(name)
    const most = Math.max(part.axis(name).size, a === undefined ? 1 : spanOf(a) * a.chunks)
    return n + (most - 1) * (strides[i] ?? 1)
  }, 1)
  return { let: l, axes, strides, length, form: { kind: 'plain' } }
}

/** Swizzled tiles begin at multiples of what the swizzle permutes. */
const swizzleBytes = 1024

/** Elements that pad the rows of a tile of a product, against bank conflicts: of rows that are read whole, and word by word. */
const padding = 8
const wordPadding = 16

/** A tile of 16-bit elements for a product: the axis its loads are contiguous along comes last. */
export function productTile({ part }: Place, l: LetStmt, layout: Layout, product: Product): TilePlan {
  const own = product.a === l.id ? product.rows : product.columns
  const vector = [...layout.axes.values()].find((a) => a.vec > 1)?.name
  const plain = product.halves > 1 || product.a === l.id ? product.depth : own
  const last = product.halves > 1 && product.split === undefined ? product.depth : (vector ?? plain)
  const first = last === own ? product.depth : own
  const swizzle = swizzleOf(product, product.a === l.id, last === product.depth)
  const apart = product.halves > 1 && last === own ? wordPadding : padding
  const pitch = part.axis(last).size * product.halves + (swizzle === undefined ? apart : 0)
  const form = { kind: 'halves', product, swizzle } as const
  return { let: l, axes: [first, last], strides: [pitch, product.halves], length: part.axis(first).size * pitch, form }
}

/** The columns of a product as fragments, under the layout of fragments. */
export function fragmentTile(l: LetStmt, layout: Layout, product: Product, packed: PackedForm | undefined): TilePlan {
  const words = registersOf(layout.axis(product.depth)) / 2
  const length = registersOf(layout.axis(product.columns)) * words
  return {
    let: l,
    axes: [product.columns, product.depth],
    strides: [words, 0],
    length,
    form: { kind: 'fragments', product, packed },
  }
}

/** Whether a product has such tiles. */
export const hasSplitTiles = ({ split, groups }: Product): boolean => split === true && groups !== undefined

/** The tiles of a split operand's upper and lower terms, for groups of warps: columns in panels of the depth, one behind the other. */
export const splitTiles = ({ columnSize, depthSize, halves }: Product): SharedArrayPlan => ({
  type: 'f32',
  length: 2 * columnSize * depthSize * halves,
  half: true,
  align: swizzleBytes,
})

/**
 * A tile that is read in vectors: a row an index of the depth, or of a slice of it, with room for what threads hold beyond the range. `filled`: the layout
 * that it is filled under.
 */
export function vectorTile(
  { part, layout }: Place,
  l: LetStmt,
  product: VectorProduct,
  o: VectorOperand,
  filled?: Layout,
): TilePlan {
  const spans = o.own.map((x) => spanOf(layout.axis(x)))
  const pitch = withoutConflicts(
    spans.reduce((n, s) => n * s, 1),
    o,
    filled,
  )
  const slices = part.slicesOf(l.id)
  const sizes = product.depth.map((x) => slices?.size ?? part.axis(x).size)
  const rows = sizes.reduce((n, s) => n * s, 1)
  return {
    let: l,
    axes: [...product.depth, ...o.own],
    strides: [...rowMajorStrides(sizes), ...rowMajorStrides(spans)],
    length: rows * pitch,
    form: { kind: 'vectors', product, pitch },
  }
}

/** A tile of halves that subgroups read as matrices: its rows go along the axis of which a thread writes a group at a time. */
export function matrixTile(at: Place, l: LetStmt, stage: Layout, product: VectorProduct, o: VectorOperand): TilePlan {
  const across = vectorTile(at, l, product, o)
  const m = matricesOf(product, at.part, at.layout)
  const [span, begin] = o === product.a ? [m.rows, 0] : [m.columns, matrixRegion(m).columnsAt]
  const depthLast = [...stage.axes.values()].some((a) => a.vec > 1 && product.depth.includes(a.name))
  const [rows, pitch] = depthLast ? [span, tilePitch(m.depth)] : [m.depth, tilePitch(span)]
  const form = { kind: 'matrices', product, pitch, at: begin, ...(depthLast ? { depthLast } : {}) } as const
  return { ...across, length: rows * pitch, form }
}

/** Words of shared memory that threads reach at once, each in a bank of its own. */
const banks = 32

/** Elements of a row, with as many behind them that threads side by side write neighbours of the depth, each for some rows of the result, into banks of their own. */
function withoutConflicts(pitch: number, { vector }: VectorOperand, filled: Layout | undefined): number {
  const across = filled?.find(vector)?.bits[0] ?? 0
  if (filled === undefined || across === 0) return pitch
  const first = [...filled.axes.values()].find((a) => a.bits[0] === 0)
  // Vectors keep their places: by fours.
  const step = Math.max(lanes, banks / 2 ** across / (first?.vec ?? 1))
  const cycle = 2 ** across * step
  return Math.ceil((pitch - step) / cycle) * cycle + step
}

/** The values that the filling of a tile with a value reads. */
export const filledFrom = ({ form }: TilePlan, of: ValueId): ValueId[] =>
  (form.kind === 'fragments' || form.kind === 'halves') && form.packed !== undefined ? readsOfForm(form.packed) : [of]

/** The axis whose neighbours a thread writes into a tile together, under a layout; undefined where it writes single elements. */
export function filledTogether({ axes, form }: TilePlan, layout: Layout): string | undefined {
  const last = axes.at(-1)
  const vec = last === undefined ? 1 : (layout.find(last)?.vec ?? 1)
  if (form.kind === 'halves' || form.kind === 'fragments') return vec > 1 ? last : undefined
  if (form.kind === 'matrices') return [...layout.axes.values()].find((a) => a.vec > 1)?.name
  return form.kind === 'vectors' && vec % lanes === 0 ? last : undefined
}

/** The tile whose neighbours are computed two at a time, where a thread writes whole words of them and they have such a form. */
export function packedTile(tile: TilePlan, layout: Layout, form: PackedForm | undefined): TilePlan {
  const axis = filledTogether(tile, layout)
  if (tile.form.kind !== 'halves' || form === undefined || axis === undefined) return tile
  const { halves, split } = tile.form.product
  if (halves > 1 || split !== undefined || layout.axis(axis).vec % 2 !== 0) return tile
  return { ...tile, form: { ...tile.form, packed: form } }
}

/** The shared array of a tile, or of so many in a ring; of one for matrices, its part of its product's. */
export function tileArray({ let: l, length, form }: TilePlan, copies = 1): SharedArrayPlan {
  if (form.kind === 'vectors') return { type: 'f32', length: length * copies }
  if (form.kind === 'matrices') return { type: 'f32', length: length * copies, half: true }
  invariant(form.kind !== 'fragments', 'fragments stand in registers')
  if (form.kind === 'plain') return { type: registerType(l.dtype), length: length * copies }
  const align = form.swizzle === undefined ? {} : { align: swizzleBytes }
  return { type: 'f32', length: length * copies, half: true, ...align }
}

/** The array that a product on matrices of subgroups has. */
export const matrixArray = (product: VectorProduct, part: Part, layout: Layout): SharedArrayPlan => ({
  type: 'u32',
  length: matrixRegion(matricesOf(product, part, layout)).words,
})

/** How the subgroups of a layout's threads share a product's results. */
export function matricesOf({ a, b, depth }: VectorProduct, part: Part, layout: Layout): SubgroupMatrices {
  const span = (o: VectorOperand): number => o.own.reduce((n, x) => n * spanOf(layout.axis(x)), 1)
  const indices = depth.reduce((n, x) => n * part.axis(x).size, 1)
  return subgroupMatrices(span(a), span(b), indices, layout.threads)
}
