/** Bools in registers: 0 or 1, or four lanes of all ones or zero. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr } from '../ir/ir.ts'
import { makeReg, type Reg, read } from '../value/reg.ts'

/** Logical operations and comparisons of bools. */
export function emitBool(f: Builder, op: UnaryName | BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const invert = (x: Expr): Expr => (vector ? X.unary('not', x) : X.isZero(x))
  /** x and not y. */
  const without = (x: Reg, y: Reg): Expr =>
    vector ? X.bitwise('andnot', read(x), read(y)) : X.compare('gt_u', read(x), read(y))
  const combine = (name: 'and' | 'or' | 'xor'): Expr => X.bitwise(name, read(a), read(b))
  const value = (): Expr => {
    switch (op) {
      case 'not':
        return invert(read(a))
      case 'and':
      case 'min':
        return combine('and')
      case 'or':
      case 'max':
        return combine('or')
      case 'xor':
      case 'ne':
        return combine('xor')
      case 'eq':
        return invert(combine('xor'))
      case 'gt':
        return without(a, b)
      case 'lt':
        return without(b, a)
      case 'le':
        return invert(without(a, b))
      case 'ge':
        return invert(without(b, a))
      default:
        throw new InternalError(`${op} on bool`)
    }
  }
  return makeReg(f, 'bool', a.lanes, value)
}
