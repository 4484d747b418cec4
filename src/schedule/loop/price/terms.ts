/**
 * Terms that prices of loops are made of. What a statement takes is asked by schedules (seconds.ts) and by the planner (src/plan/cost/cost.ts) alike, so that
 * their arithmetic is the same; how accesses stand and what loops add only a schedule knows.
 */

import type { ValueId } from '../../../kernel/ir.ts'
import { type ScalarOp, scalarInfo } from '../../../scalar/ops.ts'
import type { LoopMachine } from '../../../target/loops.ts'
import { type Machine, together } from '../../../target/machine.ts'
import { arithmeticOf, type Prices, priceOf } from '../../../target/prices.ts'
import type { DType } from '../../../types/dtype.ts'
import { dtypeBytes, isFloat } from '../../../types/dtype.ts'
import { type Priced, statementSeconds } from '../../price.ts'

/** Seconds of a kernel on one core beside its launch, by what they come from. */
export interface LoopTerms {
  readonly arithmetic: number
  /** Of operations that wait for each other's results: more than the processor finds other work for. */
  readonly waiting: number
  /** Of accesses as instructions. */
  readonly accesses: number
  /** Of rounds and entries of loops, merges, and folds that wait for themselves. */
  readonly loops: number
  /** Of bytes from the memory next to the core's own, and from those beyond. */
  readonly nearer: number
  readonly memory: number
}

/** Seconds of all terms together: each pair goes on side by side as far as the machine allows. */
export function termSeconds(
  { arithmetic, waiting, accesses, loops, nearer, memory }: LoopTerms,
  machine: Pick<Machine, 'overlap'> & { readonly loops: LoopMachine },
): number {
  const own = together(arithmetic + waiting, accesses + loops, { overlap: machine.loops.beside })
  return together(memory, together(nearer, own, { overlap: machine.loops.nearOverlap }), machine)
}

/** Elements that an operation computes at least in the time of one; functions of f64 are calls, an element each. */
export const leastLanes = (dtype: DType, call: boolean, { lanes }: Pick<LoopMachine, 'lanes'>): number =>
  call ? 1 : dtypeBytes(dtype) === 8 ? lanes / 2 : lanes

/** Functions of f64 are calls, an element each. */
export const isCall = (op: ScalarOp, dtype: DType): boolean => dtype === 'f64' && scalarInfo(op).cost === 'special'

/** Seconds of a vector of an access that stands so along the vector axis: at a stride of bytes, none that is known, or by values. */
export function laneSeconds(
  m: LoopMachine,
  stride: number | undefined | 'gather',
  unit: number,
  { write, packed }: { readonly write: boolean; readonly packed?: boolean },
): number {
  if (stride === 'gather') return m.lanes * m.gathered
  if (stride === undefined) return (m.lanes * (m.strided + m.gathered)) / 2
  if (stride === 0) return write ? m.lanes * m.strided : m.single
  if (packed === true) return stride === 1 ? m.shuffled : m.lanes * m.strided
  if (stride === unit) return m.whole * Math.max(1, (unit * m.lanes) / 16)
  if (
    !write &&
    ((stride === -unit && unit <= 4) || (unit === 2 && stride === 4) || (unit === 4 && (stride === 8 || stride === 12)))
  )
    return m.shuffled
  return m.lanes * m.strided
}

/** Seconds of a division or remainder of an index by some number, a lane: by powers of two they are shifts and masks. */
export const divisionSeconds = (by: number, { lanes, divided }: LoopMachine, prices: Prices): number =>
  Number.isInteger(Math.log2(by)) ? lanes * priceOf('and', 'i32', prices) : divided

/**
 * Seconds an element of a statement in loops, whoever schedules them: as on any machine, but that folds have their own price and values of one arithmetic stand alike,
 * whatever format they are read from.
 */
export function loopStatementSeconds(s: Priced, of: (id: ValueId) => Priced, prices: Prices): number {
  const { op, dtype } = s
  if (op?.kind === 'reduce') return foldSeconds(op.combiner, dtype, prices, false)
  const last = op?.kind === 'scalar' && op.op === 'cast' ? op.args.at(-1) : undefined
  if (last !== undefined) {
    const [from, to] = [arithmeticOf(of(last).dtype), arithmeticOf(dtype)]
    if (from === to) return 0
    // Integers are cut or filled; between integers and floats values are found.
    if (!isFloat(dtype) && !isFloat(of(last).dtype)) return priceOf('and', 'i64', prices)
  }
  if (isBound(s, of)) return priceOf('add', dtype, prices)
  return statementSeconds(s, (id) => of(id).dtype, prices)
}

/** Whether a statement is the greater or the lesser of a float and a known number: one instruction, where two values that may be NaN take eight. */
function isBound({ op, dtype }: Priced, of: (id: ValueId) => Priced): boolean {
  if (op?.kind !== 'scalar' || (op.op !== 'max' && op.op !== 'min') || !isFloat(dtype)) return false
  return op.args.some((id) => {
    const { op: arg } = of(id)
    return arg?.kind === 'const' && typeof arg.value === 'number' && !Number.isNaN(arg.value)
  })
}

/** Whether a fold notes NaNs and signs beside its extreme. */
export const isNoted = (combiner: string, dtype: DType): boolean =>
  (combiner === 'max' || combiner === 'min') && isFloat(dtype)

/** Seconds of an end of a fold across lanes. */
export const mergeSeconds = (combiner: string, dtype: DType, { merge }: Pick<LoopMachine, 'merge'>): number =>
  merge * (combiner.startsWith('arg') ? 5 : isNoted(combiner, dtype) ? 3 : 1)

/** Seconds from one value of an accumulator to the next: positions and values are chosen one after the other. */
export const chainSeconds = (combiner: string, dtype: DType, { chain }: Pick<LoopMachine, 'chain'>): number =>
  dtypeBytes(dtype) === 8 || combiner.startsWith('arg') ? 2 * chain : chain

/** Seconds an element of a step of a fold: extremes note NaNs and signs, positions are chosen with their values. */
export function foldSeconds(combiner: string, dtype: DType, prices: Prices, inMemory: boolean): number {
  const plain = prices.fold[arithmeticOf(dtype)]
  const bits = priceOf('and', 'i32', prices)
  switch (combiner) {
    case 'argmax':
    case 'argmin': {
      const compared = priceOf('gt', dtype, prices) + priceOf('eq', dtype, prices) + priceOf('lt', 'i32', prices)
      const nans = isFloat(dtype) ? 2 * priceOf('isnan', dtype, prices) + 5 * bits : 0
      return compared + nans + 2 * bits + priceOf('select', dtype, prices) + priceOf('select', 'i32', prices)
    }
    case 'max':
    case 'min':
      if (!isNoted(combiner, dtype)) return plain
      return inMemory ? priceOf(combiner, dtype, prices) : plain + 4 * bits
    default:
      return plain
  }
}
