/** How what windows fold moves along them: x[s j + t], x[j + d t]. */
import * as ix from '../../../affine/expr.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { expressionsOf } from '../../../kernel/walk.ts'
import type { Fold } from '../ir/steps.ts'
import type { Terms } from './terms.ts'

/** How operands move: a step along the axis is as far as `stride` taps, or a tap as far as `apart` steps (one of them is 1); which of them do. */
export interface Motion {
  readonly stride: number
  readonly apart: number
  readonly moving: ReadonlySet<number>
}

/** The motion of a fold's operands, where all of each moves alike along an axis and over taps. */
export function motionOf(terms: Terms, fold: Fold, axis: string, taps: string): Motion | undefined {
  const along = [axis, ...fold.axes]
  const moving = new Set<number>()
  const note = (l: LetStmt, arg: number): boolean => {
    if (l.axes.includes(axis)) moving.add(arg)
    return true
  }
  if (!terms.isInline(fold, along, new Set(), note)) return undefined
  let first: readonly [number, number] | undefined
  const isAlike = (l: LetStmt, arg: number): boolean =>
    !moving.has(arg) ||
    expressionsOf(l.op).every((e) => {
      const [steps, ofTaps] = [ix.stridesOf(e, axis), ix.stridesOf(e, taps)]
      if (steps === undefined || ofTaps === undefined) return false
      // Along rows whose length a launch says, both are multiples of it.
      return [...new Set([...steps.keys(), ...ofTaps.keys()])].every((by) => {
        const [step, tap] = [steps.get(by) ?? 0, ofTaps.get(by) ?? 0]
        if (step === 0 && tap === 0) return true
        first ??= [step, tap]
        return step * first[1] === tap * first[0]
      })
    })
  if (!terms.isInline(fold, along, new Set(), isAlike) || first === undefined) return undefined
  const [step, tap] = first
  if (step * tap <= 0) return undefined
  if (step % tap === 0) return { stride: step / tap, apart: 1, moving }
  return tap % step === 0 ? { stride: 1, apart: tap / step, moving } : undefined
}
