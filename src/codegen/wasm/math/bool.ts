/** Bools in registers: 0 or 1, or four lanes of all ones or zero. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { FunctionBuilder } from '../binary/builder.ts'
import { makeReg, part, type Reg } from '../value/reg.ts'

/** Logical operations and comparisons of bools. */
export function emitBool(f: FunctionBuilder, op: UnaryName | BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const invert = (): void => {
    if (vector) f.op('v128.not')
    else f.op('i32.eqz')
  }
  /** Pushes `x and not y`. */
  const without = (x: Reg, y: Reg): void => {
    f.get(part(x, 0))
    f.get(part(y, 0))
    f.op(vector ? 'v128.andnot' : 'i32.gt_u')
  }
  const combine = (name: 'and' | 'or' | 'xor'): void => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    f.op(vector ? `v128.${name}` : `i32.${name}`)
  }
  return makeReg(f, 'bool', a.lanes, () => {
    switch (op) {
      case 'not':
        f.get(part(a, 0))
        return invert()
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
        combine('xor')
        return invert()
      case 'gt':
        return without(a, b)
      case 'lt':
        return without(b, a)
      case 'le':
        without(a, b)
        return invert()
      case 'ge':
        without(b, a)
        return invert()
      default:
        throw new InternalError(`${op} on bool`)
    }
  })
}
