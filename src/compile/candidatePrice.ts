/** The price of a candidate kernel: that of the schedules it would run by. */
import type { NumericsMode } from '../kernel/ir.ts'
import { lowerGroup } from '../lower/lowerGroup.ts'
import type { PriceOf } from '../plan/cost/candidateMemo.ts'
import { loopSeconds } from '../schedule/loop/price/seconds.ts'
import { factsOf, scheduleAhead } from '../schedule/loop/scheduleKernel.ts'
import type { Machine } from '../target/machine.ts'

/**
 * Undefined where the machine's schedules have no price of their own, and in strict mode, whose sums have poorer schedules than they might. `held`:
 * bytes that the program touches again and again. Parameters are taken to share no memory.
 */
export function priceOfSchedules(target: Machine, mode: NumericsMode, held: number): PriceOf | undefined {
  if (target.loops === undefined || mode === 'strict') return undefined
  return (made) => {
    const { main, finishing } = lowerGroup('candidate', made, target, mode)
    return [main, ...finishing].reduce((t, { kernel }) => {
      const facts = factsOf(kernel, target, () => false)
      return t + loopSeconds(kernel, scheduleAhead(kernel, facts), target, held).seconds
    }, 0)
  }
}
