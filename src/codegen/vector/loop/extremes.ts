/** Float maxima and minima of lanes by one cheap comparison, and what puts NaNs and signs of zeros right afterwards. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { DType } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { makeReg, type Reg, read } from '../value/lanes.ts'
import { part } from '../value/reg.ts'
import type { Values } from '../value/values.ts'

/**
 * Beside a maximum (minimum) by one comparison: which lanes saw a NaN, and the signs seen. A zero result is negative if every
 * sign was (if any was, for a minimum): all else is on zero's one side.
 */
export class ExtremeNotes {
  private readonly values: Values
  private readonly combiner: 'max' | 'min'
  private readonly type: T.Type
  private readonly nans: Reg[]
  private readonly signs: Reg[]

  constructor(values: Values, combiner: 'max' | 'min', dtype: DType, count: number) {
    const { f, scope } = values
    this.values = values
    this.combiner = combiner
    this.type = dtype === 'f64' ? T.f64x2 : T.f32x4
    const fresh = (bits: number): Reg => {
      let r: Reg | undefined
      scope.here(() => {
        r = makeReg(f, dtype, 4, () => X.constant(T.i32x4, bits))
      })
      invariant(r !== undefined, 'no accumulator')
      return r
    }
    this.nans = Array.from({ length: count }, () => fresh(0))
    this.signs = Array.from({ length: count }, () => fresh(combiner === 'max' ? -1 : 0))
  }

  private parts(acc: Reg, copy: number, each: (acc: Register, nan: Register, sign: Register, i: number) => void): void {
    const nan = this.nans[Math.min(copy, this.nans.length - 1)]
    const sign = this.signs[Math.min(copy, this.signs.length - 1)]
    invariant(nan !== undefined && sign !== undefined, 'no notes')
    acc.parts.forEach((l, i) => {
      each(l, part(nan, i), part(sign, i), i)
    })
  }

  /** Folds x into an accumulator. */
  step(acc: Reg, x: Reg, copy: number): void {
    const { f } = this.values
    this.parts(acc, copy, (a, nan, sign, i) => {
      const v = read(x, i)
      f.assign(a, X.binary(this.combiner === 'max' ? 'pmax' : 'pmin', a, v))
      f.assign(nan, X.or(X.compare('ne', v, v), nan))
      f.assign(sign, X.bitwise(this.combiner === 'max' ? 'and' : 'or', v, sign))
    })
  }

  /** Puts NaNs and signs of zeros right. */
  correct(acc: Reg, copy: number): void {
    const { f } = this.values
    this.parts(acc, copy, (a, nan, sign) => {
      const top = this.type === T.f64x2 ? X.constant(T.i64x2, 1n << 63n) : X.constant(T.i32x4, -0x80000000)
      const isZero = X.compare('eq', a, X.constant(T.i32x4, 0), this.type)
      f.assign(a, X.or(X.select(isZero, X.and(sign, top), a), nan))
    })
  }
}
