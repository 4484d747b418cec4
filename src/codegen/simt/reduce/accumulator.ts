/** The integers in whose form threads exchange greatest and least floats. */
import { combinerOf } from '../../../schedule/simt/fold/folds.ts'
import { type Block, call } from '../ir/ir.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import type { Scope } from '../nest/scope.ts'
import type { Accumulator } from './open.ts'

/** A fold over integers of the same order as its floats, NaN beyond all. */
export function keysOf(scope: Scope, acc: Accumulator, out: Block): Accumulator {
  const values: Registers = { ...acc.values, name: scope.unit.name(`key_${acc.let.id}`), type: 'i32' }
  declare(values, out)
  forRegisters(scope, acc.kept, out, (at, body) => {
    const i = registerIndex(scope.layout, acc.kept, at)
    const value = call('i32', `f32_${combinerOf(acc.let)}_key`, registerAt(acc.values, i))
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
