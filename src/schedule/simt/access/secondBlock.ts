/** Whether a second block of threads has room beside one on a multiprocessor, and gains by it. */
import { gridSize } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import type { Layout } from '../layout/layout.ts'
import type { Product } from '../part/product.ts'
import type { SharedArrayPlan } from '../storage/sharedMemory.ts'
import type { Place } from './place.ts'
import { hasSplitTiles } from './tiles.ts'

/** Bytes of shared memory that a device takes for itself for each block. */
export const reservedBytes = 1 << 10

/** Threads of one group of warps: each scheduler has one warp of them. */
export const groupThreads = 128

/** Blocks of so many bytes of shared memory that a multiprocessor has room for. */
export const blocksOf = (bytes: number, { maxSharedBytes }: SimtMachine): number =>
  Math.floor((maxSharedBytes + reservedBytes) / (bytes + reservedBytes))

/** Whether there are programs for more than one block a multiprocessor. */
export const isMany = ({ part, setting }: Place): boolean =>
  gridSize(part.part) > (setting.machine.multiprocessors ?? 1)

/** Whether one group of warps splits the operands of a product: it waits most of the time, and gains by a second block beside it. */
export const isSplitByOneGroup = (layout: Layout, product: Product): boolean =>
  layout.threads === groupThreads && hasSplitTiles(product)

/** Whether an array would take the room of a second block beside such a product, whose tiles are placed. */
export function takesSecondBlock(at: Place, product: Product, array: SharedArrayPlan): boolean {
  const { shared, setting, layout } = at
  if (!isMany(at) || !isSplitByOneGroup(layout, product)) return false
  return blocksOf(shared.bytes, setting.machine) > 1 && blocksOf(shared.bytesWith(array), setting.machine) < 2
}
