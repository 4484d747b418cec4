/** Running folds in registers, and the integers in whose form threads exchange greatest and least floats. */
import type { LetStmt } from '../../kernel/ir.ts'
import type { DType } from '../../types/dtype.ts'
import { type Block, call } from './ir.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from './registers.ts'
import type { Running } from './running.ts'
import type { Scope } from './scope.ts'
import type { Totals } from './totals.ts'

/** A running fold over the kept axes' registers. */
export interface Accumulator {
  readonly let: LetStmt
  readonly kept: readonly string[]
  readonly values: Registers
  /** Positions of an arg-fold; below 0 there is no candidate yet. */
  readonly positions: Registers | undefined
  /** In strict mode, totals of finished chunks of a float's sum or product. */
  readonly totals: Totals | undefined
  /** In fast mode, what a float's sum or product is folded in on the way to its values. */
  readonly running: Running | undefined
  readonly dtype: DType
}

export const combinerOf = (l: LetStmt): 'sum' | 'prod' | 'max' | 'min' | 'argmax' | 'argmin' =>
  l.op.kind === 'reduce' ? l.op.combiner : 'sum'

/** Whether lanes are all of a warp and the machine has an instruction that folds integers over it. */
export function foldsLanes(scope: Scope, lanes: readonly number[]): boolean {
  const { machine } = scope.unit
  return lanes.length > 0 && lanes.length === machine.laneBits && machine.foldsLanes
}

/**
 * Greatest and least floats travel as integers of the same order, NaN beyond all, where that costs less than maxima of floats:
 * some languages' say nothing of NaN, and a warp may fold integers in one instruction. The fold over integers; undefined: as it is.
 */
export function keysOf(scope: Scope, acc: Accumulator, lanes: readonly number[], out: Block): Accumulator | undefined {
  const c = combinerOf(acc.let)
  if (acc.values.type !== 'f32' || (c !== 'max' && c !== 'min')) return undefined
  if (scope.unit.dialect.ordersNaN && !foldsLanes(scope, lanes)) return undefined
  const values: Registers = { ...acc.values, name: scope.unit.name(`key_${acc.let.id}`), type: 'i32' }
  declare(values, out)
  forRegisters(scope, acc.kept, out, (at, body) => {
    const i = registerIndex(scope.layout, acc.kept, at)
    const value = call('i32', `f32_${c}_key`, registerAt(acc.values, i))
    body.push({ k: 'assign', to: registerAt(values, i), value })
  })
  return { ...acc, values, dtype: 'i32' }
}

/** Back from integers. */
export function fromKeys(scope: Scope, acc: Accumulator, keys: Accumulator, out: Block): void {
  forRegisters(scope, acc.kept, out, (at, body) => {
    const i = registerIndex(scope.layout, acc.kept, at)
    body.push({
      k: 'assign',
      to: registerAt(acc.values, i),
      value: call('f32', 'f32_of_key', registerAt(keys.values, i)),
    })
  })
}
