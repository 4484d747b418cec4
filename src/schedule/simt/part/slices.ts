/**
 * Tiles of products that vectors of registers multiply, whole or by slices: an operand that is computed from memory alone may be staged so many
 * indices of the depth at a time, by the product that reads it. Its tile is short then, and is filled again wherever the product stands.
 * The planner's blocks of a chain (plan/axes/vectorChains.ts) and its schedule (vectorChain.ts) ask the same here.
 */
import type { SimtMachine } from '../../../target/simt.ts'
import { registerBytes } from '../storage/registerType.ts'

/** A product as its tiles stand: its depth, and of each operand how far it reaches across and whether slices of it can be filled. */
export interface TiledProduct {
  readonly depth: number
  readonly operands: readonly { readonly span: number; readonly isFree: boolean }[]
}

/** A chain as its tiles stand: rows and shared indices of a block, and whether anything is folded beside the products. */
export interface TiledChain {
  readonly rows: number
  readonly shared: number
  readonly isFolded: boolean
  readonly products: readonly TiledProduct[]
}

/**
 * Slices in which a product's free operands are staged; 1: all of the depth at once. A tile that stands whole beside them ends where the depth does, so
 * it asks for a whole number of slices; where both are free what lies beyond is zero.
 */
export function slicesOf({ depth, operands }: TiledProduct, slice: number | undefined): number {
  if (slice === undefined || depth <= slice || !operands.some((o) => o.isFree)) return 1
  return operands.every((o) => o.isFree) || depth % slice === 0 ? Math.ceil(depth / slice) : 1
}

/** Threads that share a row of a block at most, each of which has four neighbours. */
const [threadsOfRow, neighbours] = [16, 4]

/** Bytes of shared memory that a chain's tiles take by slices of so many indices (whole unless given), and exchanges of its folds beside them. */
export function tileBytes(
  { rows, shared, isFolded, products }: TiledChain,
  { laneBits }: SimtMachine,
  slice?: number,
): number {
  const tiles = products.reduce((sum, p) => {
    const isSliced = slicesOf(p, slice) > 1
    return p.operands.reduce((n, o) => n + o.span * (isSliced && o.isFree ? (slice ?? p.depth) : p.depth), sum)
  }, 0)
  const threads = Math.min(threadsOfRow, Math.ceil(shared / neighbours))
  // Two folds, where lanes do not exchange what they have.
  const exchanged = isFolded && 2 ** laneBits < threads ? 2 * threads * rows : 0
  return registerBytes('f32') * (tiles + exchanged)
}

/** The slice that a chain's operands are staged by; undefined: they stand whole. */
export function sliceFor(chain: TiledChain, machine: SimtMachine): number | undefined {
  const { whole, slice } = machine.vectorTiles
  return tileBytes(chain, machine) <= whole ? undefined : slice
}
