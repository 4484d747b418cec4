/** Finding the seconds of a record of loops that predict measured times best. */
import { type LoopMachine, loopUnits } from '../../target/loops.ts'

/** Something measured, and what a record predicts for it. */
export interface Probe {
  readonly seconds: number
  readonly predict: (loops: LoopMachine) => number
}

/** Factors that a number is tried at, one after another. */
const steps = [1.6, 1.25, 1.1, 1.04]
/** Passes over all numbers with one factor, at most. */
const passes = 8
/** What a number costs that is e times what it began as, beside a probe that is predicted e times too high: no probe asks for every number. */
const stay = 0.005
/** Seconds that stay as they are: of a program of the grid, what the processor looks ahead over, and of far lines, which no program of these brings. */
const kept: readonly (keyof LoopMachine)[] = ['program', 'window', 'lateFar']
/** Numbers go no further than this from where they began. */
const furthest = 8

/** The seconds of a record, but for those that hardly differ between processors, changed one by one as long as predictions get nearer. */
export function fitLoops(start: LoopMachine, probes: readonly Probe[]): LoopMachine {
  const names = (Object.keys(loopUnits) as (keyof LoopMachine)[]).filter(
    (n) => loopUnits[n] === 'seconds' && !kept.includes(n),
  )
  const miss = (loops: LoopMachine): number =>
    probes.reduce((sum, p) => sum + Math.log(p.predict(loops) / p.seconds) ** 2, 0) +
    names.reduce((sum, n) => sum + stay * Math.log(loops[n] / start[n]) ** 2, 0)
  let [loops, least] = [start, miss(start)]
  for (const step of steps)
    for (let pass = 0, moved = true; moved && pass < passes; pass++) {
      moved = false
      for (const n of names)
        for (const factor of [step, 1 / step]) {
          const tried = { ...loops, [n]: loops[n] * factor }
          if (Math.abs(Math.log(tried[n] / start[n])) > Math.log(furthest)) continue
          const missed = miss(tried)
          if (missed >= least) continue
          ;[loops, least, moved] = [tried, missed, true]
          break
        }
    }
  return loops
}
