/** The tree that long sums and products fold their chunks' totals in (src/scalar/summation.ts), for registers side by side. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import { placesOf } from '../../../scalar/summation.ts'
import type { DType } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { assignReg, copyReg, emitConst, emitScalarOp, type Lanes, type Reg, releaseReg } from '../value/lanes.ts'
import type { Values } from '../value/values.ts'

export class Totals {
  private readonly values: Values
  private readonly op: 'add' | 'mul'
  /** How many totals stand in the tree. */
  private readonly count: Register
  /** By place, and in it by register side by side. */
  private readonly places: readonly (readonly Reg[])[]

  /** Emits an empty tree into the innermost frame, for at most `most` totals of `side` registers. */
  constructor(
    values: Values,
    combiner: 'sum' | 'prod',
    dtype: DType,
    lanes: Lanes,
    { side, most, identity }: { readonly side: number; readonly most: number; readonly identity: Scalar },
  ) {
    const { f, scope } = values
    this.values = values
    this.op = combiner === 'sum' ? 'add' : 'mul'
    this.count = f.register(T.i32)
    const places: Reg[][] = []
    scope.here(() => {
      f.assign(this.count, 0)
      for (let j = 0; j < placesOf(most); j++)
        places.push(
          Array.from({ length: side }, () => {
            const { dtype: d, lanes: n, parts } = emitConst(f, dtype, lanes, identity)
            return { dtype: d, lanes: n, parts }
          }),
        )
    })
    this.places = places
  }

  /** Whether bit j of the count is set. */
  private bit(j: number): Expr {
    return X.and(this.count, 2 ** j)
  }

  /** Folds a place's register before another, in that. */
  private mergeInto(to: Reg, j: number, side: number): void {
    const { f, env } = this.values
    const place = this.places[j]?.[side]
    invariant(place !== undefined, `no place ${j}`)
    const next = emitScalarOp(f, env, this.op, to.dtype, to.dtype, [place, to])
    assignReg(f, to, next)
    releaseReg(f, next)
  }

  /** Takes the next chunk's totals, whose registers it changes; emits where the builder stands. */
  push(totals: readonly Reg[]): void {
    const { f } = this.values
    const carry = (j: number): void => {
      const keep = (): void =>
        totals.forEach((t, side) => {
          const place = this.places[j]?.[side]
          if (place !== undefined) assignReg(f, place, t)
        })
      if (j === this.places.length - 1) {
        keep()
        return
      }
      f.if(
        this.bit(j),
        () => {
          totals.forEach((t, side) => {
            this.mergeInto(t, j, side)
          })
          carry(j + 1)
        },
        keep,
      )
    }
    carry(0)
    f.assign(this.count, X.add(this.count, 1))
  }

  /** The fold of all totals so far with what follows them; emits where the builder stands. */
  with(last: readonly Reg[]): Reg[] {
    const { f } = this.values
    const out = last.map((x) => copyReg(f, x))
    this.places.forEach((_, j) => {
      f.if(this.bit(j), () => {
        out.forEach((x, side) => {
          this.mergeInto(x, j, side)
        })
      })
    })
    return out
  }
}
