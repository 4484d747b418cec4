/** Float maxima and minima of lanes by one cheap comparison, and what puts NaNs and signs of zeros right afterwards. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { DType } from '../../../types/dtype.ts'
import type { Local } from '../binary/builder.ts'
import { makeReg, type Reg } from '../value/lanes.ts'
import { part } from '../value/reg.ts'
import type { Values } from '../value/values.ts'

/**
 * Beside a maximum (minimum) by one comparison: which lanes saw a NaN, and the signs seen. A zero result is negative if every
 * sign was (if any was, for a minimum): all else is on zero's one side.
 */
export class ExtremeNotes {
  private readonly values: Values
  private readonly combiner: 'max' | 'min'
  private readonly shape: 'f32x4' | 'f64x2'
  private readonly nans: Reg[]
  private readonly signs: Reg[]

  constructor(values: Values, combiner: 'max' | 'min', dtype: DType, count: number) {
    const { f, scope } = values
    this.values = values
    this.combiner = combiner
    this.shape = dtype === 'f64' ? 'f64x2' : 'f32x4'
    const fresh = (bits: number): Reg => {
      let r: Reg | undefined
      scope.here(() => {
        r = makeReg(f, dtype, 4, () => f.i32x4Const(bits))
      })
      invariant(r !== undefined, 'no accumulator')
      return r
    }
    this.nans = Array.from({ length: count }, () => fresh(0))
    this.signs = Array.from({ length: count }, () => fresh(combiner === 'max' ? -1 : 0))
  }

  private parts(acc: Reg, copy: number, each: (acc: Local, nan: Local, sign: Local, i: number) => void): void {
    const nan = this.nans[Math.min(copy, this.nans.length - 1)]
    const sign = this.signs[Math.min(copy, this.signs.length - 1)]
    invariant(nan !== undefined && sign !== undefined, 'no notes')
    acc.locals.forEach((l, i) => {
      each(l, part(nan, i), part(sign, i), i)
    })
  }

  /** Folds x into an accumulator. */
  step(acc: Reg, x: Reg, copy: number): void {
    const { f } = this.values
    this.parts(acc, copy, (a, nan, sign, i) => {
      const v = part(x, i)
      f.get(a)
      f.get(v)
      f.op(`${this.shape}.p${this.combiner}`)
      f.set(a)
      f.get(v)
      f.get(v)
      f.op(`${this.shape}.ne`)
      f.get(nan)
      f.op('v128.or')
      f.set(nan)
      f.get(v)
      f.get(sign)
      f.op(this.combiner === 'max' ? 'v128.and' : 'v128.or')
      f.set(sign)
    })
  }

  /** Puts NaNs and signs of zeros right. */
  correct(acc: Reg, copy: number): void {
    const { f } = this.values
    this.parts(acc, copy, (a, nan, sign) => {
      const wide = this.shape === 'f64x2'
      f.get(sign)
      if (wide) f.i64x2Const(1n << 63n)
      else f.i32x4Const(-0x80000000)
      f.op('v128.and')
      f.get(a)
      f.get(a)
      f.i32x4Const(0)
      f.op(`${this.shape}.eq`)
      f.op('v128.bitselect')
      f.get(nan)
      f.op('v128.or')
      f.set(a)
    })
  }
}
