/**
 * Tiles that warp groups multiply: panels of 64, 32 or 16 elements (128, 64 or 32 bytes) a row, whose 16-byte pieces change places. (PTX ISA, "Swizzling
 * modes".)
 */

/** Elements of a widest panel's rows; rows of a group of warps. */
export const panelElements = 64

/** Elements of the rows of panels. */
const panels = [panelElements, 32, 16] as const

/** The widest panels that rows of so many elements are whole ones of. */
export const panelOf = (elements: number): number | undefined => panels.find((n) => elements % n === 0)

/** How 64 rows each of a product go to rows of a tile: a layout takes those of a piece for all groups in turn, a tile has all pieces of a group. */
export interface RowOrder {
  /** Which of the tile's axes has the product's rows. */
  readonly axis: 0 | 1
  /** log2 of the groups of warps, and of the 64-row pieces of each. */
  readonly groups: number
  readonly pieces: number
}

export interface Swizzle {
  /** Rows of a panel, and elements of each. */
  readonly rows: number
  readonly panel: number
  readonly order?: RowOrder
}
