/**
 * Tiles that warp groups multiply: panels of 64 elements (128 bytes) a row, whose 16-byte pieces change places. (PTX ISA, "Swizzling
 * modes", 128 bytes.)
 */

/** Elements of a panel's rows. */
export const panelElements = 64

/** How 64 rows each of a product go to rows of a tile: a layout takes those of a piece for all groups in turn, a tile has all pieces of a group. */
export interface RowOrder {
  /** Which of the tile's axes has the product's rows. */
  readonly axis: 0 | 1
  /** log2 of the groups of warps, and of the 64-row pieces of each. */
  readonly groups: number
  readonly pieces: number
}

export interface Swizzle {
  /** Rows of a panel. */
  readonly rows: number
  readonly order?: RowOrder
}
