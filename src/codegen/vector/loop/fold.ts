/** Accumulators of reductions: identities, steps, partial steps, merging of copies and lanes, chunks of strict sums. */

import { axis } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { combinerIdentity, combinerOp, extreme, type Scalar } from '../../../scalar/ops.ts'
import { strictChunk } from '../../../scalar/summation.ts'
import { accumulatorDType, type Fold, isTotal } from '../../../schedule/loop/ir/steps.ts'
import { computeDType, type DType, isFloat, isWide } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { emitCast } from '../math/cast.ts'
import { emitRoundTo } from '../math/half.ts'
import { exprElement, exprLanes } from '../value/laneIndex.ts'
import {
  assignReg,
  copyReg,
  emitConst,
  emitExtractLane,
  emitFma,
  emitReduceLanes,
  emitScalarOp,
  type Lanes,
  type Reg,
  releaseReg,
} from '../value/lanes.ts'
import type { Values } from '../value/values.ts'
import { ExtremeNotes } from './extremes.ts'
import { Totals } from './totals.ts'

/** One running fold at a point of the kept axes. */
export class Accumulator {
  readonly fold: Fold
  private readonly values: Values
  private readonly lanes: Lanes
  /** One register a copy; for arg-folds also one of positions. */
  private readonly regs: Reg[]
  private readonly positions: Reg[]
  /** Totals of finished chunks of a float's sum or product; of the copies together where they are one result. */
  private readonly totals: Totals | undefined
  private readonly isOneResult: boolean
  /** In strict mode, the indices left in this chunk. */
  private readonly left: Register | undefined
  private wholes: readonly Reg[] | undefined
  /** Float maxima and minima of four lanes: what the cheap comparison loses. */
  private readonly extreme: ExtremeNotes | undefined

  /**
   * Emits the identities into the innermost frame. `copies` registers are folded apart, to be merged in the end if `across`. Of so
   * many `indices`; in fast mode chunks are closed at most `pushes` times.
   */
  constructor(
    values: Values,
    fold: Fold,
    lanes: Lanes,
    copies: number,
    { indices, pushes }: { readonly indices: number; readonly pushes: number },
    across: boolean,
  ) {
    const { f, scope, env } = values
    this.values = values
    this.fold = fold
    this.lanes = lanes
    const dtype = accumulatorDType(fold)
    const isArg = fold.combiner === 'argmax' || fold.combiner === 'argmin'
    const identity = isArg ? extreme(dtype, fold.combiner === 'argmax' ? 'least' : 'greatest') : identityOf(fold, dtype)
    const fresh = (d: DType, v: Scalar): Reg => {
      let r: Reg | undefined
      scope.here(() => {
        r = emitConst(f, d, lanes, v)
      })
      invariant(r !== undefined, 'no accumulator')
      return { dtype: r.dtype, lanes: r.lanes, parts: r.parts }
    }
    const times = (n: number, d: DType, v: Scalar): Reg[] => Array.from({ length: n }, () => fresh(d, v))
    this.regs = times(copies, dtype, identity)
    this.positions = isArg ? times(copies, 'i32', fold.last ? -1 : 2147483647) : []
    const strict = env.mode === 'strict'
    const most = !strict ? pushes : fold.args.length > 1 ? 0 : Math.floor((indices - 1) / strictChunk)
    this.isOneResult = across
    this.totals =
      isTotal(fold) && most > 0 && !isArg && (fold.combiner === 'sum' || fold.combiner === 'prod')
        ? new Totals(values, fold.combiner, dtype, lanes, { side: across ? 1 : copies, most: most + 1, identity })
        : undefined
    if (lanes === 4 && isFloat(dtype) && (fold.combiner === 'max' || fold.combiner === 'min'))
      this.extreme = new ExtremeNotes(values, fold.combiner, dtype, across ? 1 : copies)
    if (this.totals !== undefined && strict) {
      const left = f.register(T.i32)
      scope.here(() => f.assign(left, strictChunk))
      this.left = left
    }
  }

  /** In order from the accumulator's start, where the fold continues one (a dot's `acc` in strict mode). */
  start(): void {
    const { acc } = this.fold
    if (acc === undefined || !this.isOrdered) return
    this.regs.forEach((r, j) => {
      const from = this.lanes === 4 ? this.values.lanes(acc, j) : this.values.element(acc)
      this.values.scope.here(() => assignReg(this.values.f, r, from))
    })
  }

  private get isOrdered(): boolean {
    return this.values.env.mode === 'strict' && isFloat(accumulatorDType(this.fold))
  }

  private reg(j: number): Reg {
    const r = this.regs[j]
    invariant(r !== undefined, `no accumulator ${j}`)
    return r
  }

  /** Folds copy `j` of the current point, of these operands, into register `into`. */
  step(j: number, into: number, operands: readonly number[] = this.fold.args): void {
    const { values, fold } = this
    const { f, env, scope } = values
    const at = (id: number): Reg => (this.lanes === 4 ? values.lanes(id, j) : values.element(id))
    const args = operands.map(at)
    const [x] = args
    invariant(x !== undefined, 'a fold without operand')
    const mask = this.lanes === 4 ? values.vector?.mask : undefined
    if (this.positions.length > 0) {
      const position = fold.position ?? axis(fold.axes[0] ?? '', values.axes.view(fold.axes[0] ?? '').extent)
      const p = this.lanes === 4 ? exprLanes(values, position, j) : exprElement(values, position)
      scope.here(() => this.merge(into, x, { ...p, dtype: 'i32' }, mask))
      return
    }
    const acc = this.reg(into)
    const { dtype } = acc
    const { combiner } = fold
    invariant(combiner !== 'argmax' && combiner !== 'argmin', 'an arg-fold has positions')
    scope.here(() => {
      const widened = args.map((a) => (sameClass(a.dtype, dtype) ? { ...a, dtype } : emitCast(f, env, dtype, a)))
      const [a = x, b] = widened
      let next: Reg
      if (b !== undefined && mask === undefined) next = emitFma(f, env, a, b, acc)
      else {
        let term = b === undefined ? a : emitScalarOp(f, env, 'mul', dtype, dtype, [a, b])
        if (mask !== undefined)
          term = emitScalarOp(f, env, 'select', dtype, dtype, [
            mask,
            term,
            emitConst(f, dtype, 4, identityOf(fold, dtype)),
          ])
        if (this.extreme !== undefined) {
          this.extreme.step(acc, term, into)
          return
        }
        next = emitScalarOp(f, env, combinerOp[combiner], dtype, dtype, [acc, term])
      }
      assignReg(f, acc, next)
      releaseReg(f, next)
    })
  }

  /** After every folded index: closes a chunk of strict folds when it is full. */
  tick(): void {
    const { left } = this
    if (left === undefined) return
    const { f, scope } = this.values
    scope.here(() => {
      f.assign(left, X.sub(left, 1))
      f.if(X.isZero(left), () => {
        f.assign(left, strictChunk)
        this.emitClose()
      })
    })
  }

  /** Whether chunks are closed between folded indices. */
  get isCut(): boolean {
    return this.totals !== undefined
  }

  /** Ends a chunk of a fold in fast mode. */
  closeChunk(): void {
    this.values.scope.here(() => this.emitClose())
  }

  private emitClose(): void {
    const { f } = this.values
    if (this.totals === undefined) return
    const merged = this.isOneResult ? [this.mergedCopies()] : this.regs
    this.totals.push(merged)
    const identity = emitConst(
      f,
      accumulatorDType(this.fold),
      this.lanes,
      identityOf(this.fold, accumulatorDType(this.fold)),
    )
    for (const acc of this.regs) assignReg(f, acc, identity)
    releaseReg(f, identity, ...(this.isOneResult ? merged : []))
  }

  /** The copies of one result as one register. */
  private mergedCopies(): Reg {
    const { f, env } = this.values
    const { combiner } = this.fold
    invariant(combiner !== 'argmax' && combiner !== 'argmin', 'positions are merged by themselves')
    let sum = copyReg(f, this.reg(0))
    for (const r of this.regs.slice(1)) {
      const next = emitScalarOp(f, env, combinerOp[combiner], sum.dtype, sum.dtype, [sum, r])
      releaseReg(f, sum)
      sum = next
    }
    return sum
  }

  /** Takes (x, p) where it beats the accumulator: beyond it, NaN beyond every number, else the better position. */
  private merge(into: number, x: Reg, p: Reg, mask: Reg | undefined): void {
    const { f, env } = this.values
    const acc = this.reg(into)
    const at = this.positions[into]
    invariant(at !== undefined, 'an arg-fold has positions')
    const d = acc.dtype
    const made: Reg[] = []
    const op = (
      name: Parameters<typeof emitScalarOp>[2],
      operand: DType,
      args: readonly Reg[],
      result: DType = 'bool',
    ): Reg => {
      const r = emitScalarOp(f, env, name, operand, result, args)
      made.push(r)
      return r
    }
    const value: Reg = { ...x, dtype: d }
    let beyond = op(this.fold.combiner === 'argmax' ? 'gt' : 'lt', d, [value, acc])
    let level = op('eq', d, [value, acc])
    if (isFloat(d)) {
      const xNaN = op('isnan', d, [value])
      const accNaN = op('isnan', d, [acc])
      beyond = op('or', 'bool', [beyond, op('and', 'bool', [xNaN, op('not', 'bool', [accNaN])])])
      level = op('or', 'bool', [level, op('and', 'bool', [xNaN, accNaN])])
    }
    const nearer = op(this.fold.last ? 'gt' : 'lt', 'i32', [p, at])
    let wins = op('or', 'bool', [beyond, op('and', 'bool', [level, nearer])])
    if (mask !== undefined) wins = op('and', 'bool', [wins, mask])
    assignReg(f, acc, op('select', d, [wins, value, acc], d))
    assignReg(f, at, op('select', 'i32', [wins, p, at], 'i32'))
    releaseReg(f, ...made)
  }

  /** Merges the copies; with `across`, the lanes too. Gives copy `j`'s result (copies stay apart where lanes do). */
  finish(across: boolean, j: number): Reg {
    const { values, fold } = this
    const { f, env, scope } = values
    let out: Reg | undefined
    const wanted = fold.acc !== undefined && !this.isOrdered ? this.accumulatorOf(across, j) : undefined
    scope.here(() => {
      if (this.positions.length > 0) {
        out = this.finishPosition(across, j)
        return
      }
      const { combiner } = fold
      invariant(combiner !== 'argmax' && combiner !== 'argmin', 'arg-folds have positions')
      this.wholes ??= this.totals?.with(across ? [this.mergedCopies()] : this.regs)
      const one = this.wholes?.[across ? 0 : j]
      let sum = one !== undefined ? copyReg(f, one) : across ? this.mergedCopies() : copyReg(f, this.reg(j))
      const { dtype } = sum
      this.extreme?.correct(sum, across ? 0 : j)
      if (across) sum = emitReduceLanes(f, env, combiner, sum)
      if (wanted !== undefined) sum = emitScalarOp(f, env, 'add', dtype, dtype, [{ ...wanted, dtype }, sum])
      out = env.mode === 'strict' ? emitRoundTo(f, env, fold.dtype, sum) : { ...sum, dtype: fold.dtype }
    })
    invariant(out !== undefined, 'a fold without result')
    return out
  }

  private accumulatorOf(across: boolean, j: number): Reg | undefined {
    const { acc } = this.fold
    if (acc === undefined) return undefined
    return this.lanes === 4 && !across ? this.values.lanes(acc, j) : this.values.element(acc)
  }

  private finishPosition(across: boolean, j: number): Reg {
    const { f, env } = this.values
    const { fold } = this
    if (across) {
      for (let i = 1; i < this.regs.length; i++) this.merge(0, this.reg(i), this.positionOf(i), undefined)
      if (this.lanes === 4) return emitCast(f, env, fold.dtype, this.foldPositions())
    }
    return emitCast(f, env, fold.dtype, this.positionOf(across ? 0 : j))
  }

  private positionOf(i: number): Reg {
    const p = this.positions[i]
    invariant(p !== undefined, 'an arg-fold has positions')
    return p
  }

  /** The best of four lanes, as one position. */
  private foldPositions(): Reg {
    const { values, fold } = this
    const { f } = values
    const value = this.reg(0)
    const best = new Accumulator(values, fold, 1, 1, { indices: 0, pushes: 0 }, false)
    for (let lane = 0; lane < 4; lane++)
      best.merge(0, emitExtractLane(f, value, lane), emitExtractLane(f, this.positionOf(0), lane), undefined)
    return best.positionOf(0)
  }
}

export const sameClass = (a: DType, b: DType): boolean =>
  computeDType(a) === computeDType(b) ||
  (!isFloat(a) && !isFloat(b) && !isWide(a) && !isWide(b) && a !== 'bool' && b !== 'bool')

export function identityOf(fold: Fold, dtype: DType): Scalar {
  const { combiner } = fold
  return combiner === 'argmax' || combiner === 'argmin' ? 0 : combinerIdentity(combiner, dtype)
}
