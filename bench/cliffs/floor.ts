/**
 * The least time of a program on a machine, from its graph and measured rates alone: neither the planner nor schedules are asked.
 *
 *   floor = call + max(compulsory bytes + transfers between passes, arithmetic) + a launch for each pass after the first
 *
 * - *Compulsory bytes*: every element of the inputs that the results need, once, and every result, at the bandwidth of a working set of
 *   so many bytes and of the same share of writing (`rates.ts`). Slices, gathers and strided windows ask for what they touch.
 * - *Arithmetic*: as the program is written, every distinct element once. A value repeated along an axis is computed once; products with
 *   padding, casts, negations, constants and random bits are free; operations that a multiply-add may join count half of one.
 * - *Passes*: a dependence that no single pass can satisfy (`passes.ts`) costs a launch and the least bytes that must cross: intermediates
 *   written and read, or inputs read again, whichever is less (a minimum cut), at the bandwidth of their size.
 *
 * Transfers may overlap arithmetic, so they stand inside the maximum. A compiler that changes what is computed (another order of a chain of
 * products) may be faster than this floor.
 */
import type { Graph } from '../../src/graph/node.ts'
import { type Cause, passesOf } from './passes.ts'
import { arithmeticSeconds, type Rates, transferSeconds } from './rates.ts'
import { known, type Work, workOf } from './work.ts'

export interface Floor {
  readonly seconds: number
  /** Of the compulsory bytes, of the arithmetic. */
  readonly bytesSeconds: number
  readonly arithmeticSeconds: number
  readonly passes: readonly { readonly causes: readonly Cause[]; readonly bytes: number; readonly seconds: number }[]
  readonly work: Work
}

export function floorOf(graph: Graph, rates: Rates): Floor {
  const k = known(graph)
  const work = workOf(k)
  const bytesSeconds = transferSeconds(rates, work.read, work.written, work.read + work.written)
  const arithmetic = arithmeticSeconds(rates, work)
  let [transfers, launches] = [0, 0]
  const passes = passesOf(k, rates.fastBytes).map(({ causes, written, read, instead }) => {
    const stored = transferSeconds(rates, read, written, read)
    const again =
      instead === undefined ? Number.POSITIVE_INFINITY : transferSeconds(rates, instead.read, 0, instead.workingSet)
    const isStored = stored + rates.launch < again
    transfers += isStored ? stored : again
    if (isStored) launches += rates.launch
    return { causes, bytes: isStored ? read + written : (instead?.read ?? 0), seconds: isStored ? stored : again }
  })
  return {
    seconds: rates.call + Math.max(bytesSeconds + transfers, arithmetic) + launches,
    bytesSeconds,
    arithmeticSeconds: arithmetic,
    passes: passes.filter((p) => p.seconds > 0),
    work,
  }
}
