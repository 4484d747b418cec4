/**
 * Sums and products that a loop carries, in fast mode (src/kernel/carried.ts): their totals are seldom touched, and stand in the
 * threads' own cells of shared memory where there is room, and they do not take that of a second block of threads.
 */
import { closesOf, type FoldedCarry, foldedCarries } from '../../../kernel/carried.ts'
import type { Carry, LoopStmt } from '../../../kernel/ir.ts'
import type { Levels } from '../../../scalar/summation.ts'
import type { Place } from '../access/place.ts'
import { takesSecondBlock } from '../access/secondBlock.ts'
import type { Part } from '../part/part.ts'
import { registerType } from '../storage/registerType.ts'

/** A fold that a loop carries, and where the totals of each level stand. */
export interface CarriedTotals {
  readonly carry: Carry
  readonly combiner: 'sum' | 'prod'
  readonly levels: Levels
  readonly cells: readonly ('shared' | 'registers')[]
}

/** Bytes of shared memory that the exchanges of what follows take at most. */
const reserved = 4096

/** The running sums of products whose operands are split: what each block of the depth adds is a term. */
const splitCarries = (part: Part, { carries }: LoopStmt): FoldedCarry[] =>
  carries.flatMap((carry): FoldedCarry[] => {
    const product = part.products.get(carry.next)
    const op = part.lets.get(carry.next)?.op
    return product?.split === true && op?.kind === 'dot' && op.acc === carry.param ? [{ carry, combiner: 'sum' }] : []
  })

export function carriedTotalsOf(at: Place, s: LoopStmt): CarriedTotals[] {
  const { part, setting, shared, layout } = at
  const closes = setting.mode === 'fast' ? closesOf(s, part.axis(s.axis).extent, (id) => part.lets.get(id)?.op) : []
  if (closes.length === 0) return []
  return [...foldedCarries(s), ...splitCarries(part, s)].map(({ carry, combiner }) => {
    const product = part.products.get(carry.next)
    const length = layout.spread(part.axesOf(carry.param)).reduce((n, a) => n * a.vec * a.reps, 1)
    // The tiles of a chain's products are placed later, in what room there is.
    const cells = closes.map(() => {
      const array = { type: registerType(carry.dtype), length: length * layout.threads }
      const bytes = shared.bytesWith(array)
      if (bytes + reserved > setting.machine.maxSharedBytes || setting.cluster > 1 || part.vectorChain !== undefined)
        return 'registers'
      if (product !== undefined && takesSecondBlock(at, product, array)) return 'registers'
      shared.share(array)
      return 'shared'
    })
    return { carry, combiner, levels: { copies: 1, closes }, cells }
  })
}
