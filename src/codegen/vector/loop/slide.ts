/**
 * Emission of a sum whose windows slide (src/schedule/loop/nest/slide.ts): rounds along the axis, in each of which every window under way moves on by a
 * register, with the round's terms added. The first rounds fill the windows, the last ones add to those that are still under way.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { InnerRounds, Slide } from '../../../schedule/loop/ir/schedule.ts'
import { accumulatorDType, type Fold } from '../../../schedule/loop/ir/steps.ts'
import { isWide } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { emitCast } from '../math/cast.ts'
import { emitRoundTo } from '../math/half.ts'
import { predicateElement } from '../value/laneIndex.ts'
import { assignReg, copyReg, emitConst, emitFma, emitScalarOp, type Reg, releaseReg } from '../value/lanes.ts'
import { part } from '../value/reg.ts'
import type { Index } from '../value/scope.ts'
import type { Values } from '../value/values.ts'
import { sameClass } from './fold.ts'
import { axisBounds, closeLoop } from './loops.ts'

/** Emits all rounds at the current point of the other axes; `write` takes a window's sum at its index of the axis. */
export function emitSlide(values: Values, fold: Fold, slide: Slide, write: (sum: Reg) => void): void {
  const { f, scope } = values
  const { start, end } = axisBounds(values, slide.axis)
  const windows = new Windows(values, fold, slide)
  /** A round at a place that is known from a bound of the axis: windows behind it from `first` to `last`. */
  const apart = (bound: Index, further: number, first: number, last: number): void => {
    scope.push()
    const at = scope.here(() => f.keep(X.add(bound, further)))
    round(at, first, last)
    const { block } = scope.pop()
    scope.here(() => f.splice(block))
  }
  const round = (at: Register, first: number, last: number): void => {
    const { lag } = slide
    scope.bind(slide.walked, at)
    const whole = windows.add(first, last)
    if (whole === undefined) return
    scope.bind(
      slide.axis,
      scope.here(() => f.keep(X.sub(at, lag))),
    )
    write(whole)
  }
  /** The rounds in which all windows are there, asking for what bounds ask. */
  const asking = (): void => {
    const from = typeof start === 'number' ? start + lag : scope.here(() => f.keep(X.add(start, lag)))
    const counter = f.register(T.i32)
    scope.push()
    round(counter, 0, lag)
    closeLoop(values, counter, from, end, 1, undefined)
  }
  /** The same where nothing is asked. */
  const free = ({ walked, terms }: InnerRounds): void => {
    const to = typeof end === 'number' ? end - lag : scope.here(() => f.keep(X.sub(end, lag)))
    const counter = f.register(T.i32)
    scope.push()
    scope.bind(walked, counter)
    const whole = windows.add(0, lag, terms)
    scope.bind(slide.axis, counter)
    if (whole !== undefined) write(whole)
    closeLoop(values, counter, start, to, 1, undefined)
  }
  const { lag, inner } = slide
  for (let r = 0; r < lag; r++) apart(start, r, 0, r)
  if (inner === undefined) asking()
  else if (inner.where.length === 0) free(inner)
  else {
    const holds = part(predicateElement(values, inner.where, scope.depth), 0)
    const [yes, no] = [() => free(inner), asking].map((body) => {
      scope.push()
      body()
      return scope.pop().block
    })
    scope.here(() => {
      if (yes !== undefined && no !== undefined)
        f.if(
          holds,
          () => f.splice(yes),
          () => f.splice(no),
        )
    })
  }
  for (let r = 0; r < lag; r++) apart(end, r, r + 1, lag)
  windows.release()
}

/** The windows under way, in registers by how far they are behind the round. */
class Windows {
  private readonly values: Values
  private readonly fold: Fold
  private readonly slide: Slide
  private readonly sums: readonly Reg[]

  constructor(values: Values, fold: Fold, slide: Slide) {
    const { scope } = values
    this.values = values
    this.fold = fold
    this.slide = slide
    this.sums = Array.from({ length: slide.lag }, () => {
      const { dtype, lanes, parts } = scope.here(() => this.zero())
      return { dtype, lanes, parts }
    })
  }

  private zero(): Reg {
    const dtype = accumulatorDType(this.fold)
    return emitConst(this.values.f, dtype, 4, isWide(dtype) ? 0n : 0)
  }

  release(): void {
    const { scope, f } = this.values
    scope.here(() => releaseReg(f, ...this.sums))
  }

  /** The round's terms of windows that are between `first` and `last` behind it; each moves on. Gives the sum of the one that leaves. */
  add(first: number, last: number, all = this.slide.terms): Reg | undefined {
    const { values, slide, fold } = this
    const { f, env, scope } = values
    let left: Reg | undefined
    for (let behind = last; behind >= first; behind--) {
      const terms = all.filter((t) => t.behind === behind)
      const factors = terms.map((t) => t.factors.map((id) => this.operand(id)))
      const sum = scope.here(() => {
        const before = behind === 0 ? this.zero() : copyReg(f, this.sumAt(behind - 1))
        let own = slide.apart && behind > 0 ? this.zero() : before
        for (const [x, y] of factors) {
          invariant(x !== undefined, 'a term without factors')
          const next =
            y === undefined ? emitScalarOp(f, env, 'add', own.dtype, own.dtype, [own, x]) : emitFma(f, env, x, y, own)
          releaseReg(f, own)
          own = next
        }
        if (!slide.apart || behind === 0) return own
        const all = emitScalarOp(f, env, 'add', own.dtype, own.dtype, [before, own])
        releaseReg(f, before, own)
        return all
      })
      if (behind === slide.lag)
        left =
          env.mode === 'strict' ? scope.here(() => emitRoundTo(f, env, fold.dtype, sum)) : { ...sum, dtype: fold.dtype }
      else
        scope.here(() => {
          assignReg(f, this.sumAt(behind), sum)
          releaseReg(f, sum)
        })
    }
    return left
  }

  private sumAt(behind: number): Reg {
    const sum = this.sums[behind]
    invariant(sum !== undefined, `no window ${behind} behind`)
    return sum
  }

  /** A factor as the accumulators take it. */
  private operand(id: number): Reg {
    const { values } = this
    const { f, env, scope } = values
    const dtype = accumulatorDType(this.fold)
    const r = values.lanes(id, 0)
    if (sameClass(r.dtype, dtype)) return { ...r, dtype }
    return scope.here(() => emitCast(f, env, dtype, r))
  }
}
