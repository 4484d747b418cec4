/**
 * Running sums and products of floats in fast mode (src/scalar/summation.ts, `Levels`): a thread's accumulators take the terms of a round by
 * turns, and every so many rounds what they hold is a total, which accumulators of the next level take.
 */
import { combinerIdentity } from '../../../scalar/ops.ts'
import type { Levels } from '../../../scalar/summation.ts'
import type { DType } from '../../../types/dtype.ts'
import { add, type Block, bin, type Ex, eq, int, mul, when, yes } from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { constant, mergeEx } from '../scalar/arith.ts'

export interface Running {
  readonly combiner: 'sum' | 'prod'
  readonly dtype: DType
  /** The accumulators of the terms, copies of an element side by side. */
  readonly terms: Registers
  readonly levels: Levels
  /** Those of totals, the lowest level first. */
  readonly totals: readonly Cells[]
}

/** Where a thread's totals stand: that of element i. */
export interface Cells {
  at(i: Ex): Ex
  declare(out: Block): void
}

const inRegisters = (r: Registers): Cells => ({ at: (i) => registerAt(r, i), declare: (out) => declare(r, out) })

/** Accumulators for the elements of an array, which takes the terms itself where no other is needed. */
export function makeRunning(
  values: Registers,
  combiner: 'sum' | 'prod',
  dtype: DType,
  levels: Levels,
  name: (wish: string) => string,
): Running {
  const { copies, closes } = levels
  const more = (wish: string, length: number): Registers => ({
    ...values,
    name: name(`${values.name}_${wish}`),
    length,
  })
  return {
    combiner,
    dtype,
    levels,
    terms: copies === 1 && closes.length === 0 ? values : more('terms', values.length * copies),
    totals: closes.map(() => inRegisters(more('total', values.length))),
  }
}

/** Whether the accumulators are the array itself. */
export const isPlain = ({ levels }: Running): boolean => levels.copies === 1 && levels.closes.length === 0

export function declareRunning({ terms, totals }: Running, out: Block): void {
  declare(terms, out)
  for (const t of totals) t.declare(out)
}

/** The accumulator that takes the term of a number, for element i. */
export const termOf = ({ terms, levels: { copies } }: Running, i: Ex, term: Ex): Ex =>
  registerAt(terms, copies === 1 ? i : add(mul(i, int(copies)), bin('&', term, int(copies - 1))))

const termsOf = (r: Running, i: Ex): Ex[] =>
  Array.from({ length: r.levels.copies }, (_, copy) => termOf(r, i, int(copy)))

/** All accumulators of element i. */
export const allOf = (r: Running, i: Ex): Ex[] => [...r.totals.map((t) => t.at(i)), ...termsOf(r, i)]

/** The fold of values in pairs. */
function inPairs({ combiner, dtype }: Running, of: readonly Ex[]): Ex {
  let left = of
  while (left.length > 1)
    left = left.flatMap((a, i) => {
      const b = left[i + 1]
      return i % 2 === 1 ? [] : [b === undefined ? a : mergeEx(combiner, dtype, a, b)]
    })
  return left[0] ?? identityOf({ combiner, dtype })
}

const identityOf = ({ combiner, dtype }: Pick<Running, 'combiner' | 'dtype'>): Ex =>
  constant(dtype, combinerIdentity(combiner, dtype))

/** The fold of all that was taken, of element i. */
export const wholeOf = (r: Running, i: Ex): Ex =>
  r.totals.reduce((low, t) => mergeEx(r.combiner, r.dtype, t.at(i), low), inPairs(r, termsOf(r, i)))

export function startRunning(r: Running, i: Ex, out: Block): void {
  for (const to of allOf(r, i)) out.push({ k: 'assign', to, value: identityOf(r) })
}

/** Emits a statement for each element. */
export type EachElement = (out: Block, emit: (i: Ex, body: Block) => void) => void

/** Accumulators with a walk over their elements. */
export interface Elements {
  readonly of: Running
  readonly each: EachElement
}

/** Ends a round of accumulators, the last of `count`. */
export function closeRound(all: readonly Elements[], count: Ex, out: Block): void {
  const close = (of: readonly Elements[], level: number, to: Block): void => {
    for (const every of new Set(of.flatMap((x) => x.of.levels.closes[level] ?? []))) {
      const here = of.filter((x) => x.of.levels.closes[level] === every)
      const body: Block = []
      for (const x of here) closeLevel(x, level, body)
      close(here, level + 1, body)
      to.push(...when(every === 0 ? yes : eq(bin('&', count, int(2 ** every - 1)), int(0)), body))
    }
  }
  close(all, 0, out)
}

/** What a level holds is a total. */
function closeLevel({ of, each }: Elements, level: number, out: Block): void {
  const [total, below] = [of.totals[level], of.totals[level - 1]]
  if (total === undefined) return
  each(out, (i, body) => {
    const from = below === undefined ? termsOf(of, i) : [below.at(i)]
    const held = total.at(i)
    body.push({ k: 'assign', to: held, value: mergeEx(of.combiner, of.dtype, held, inPairs(of, from)) })
    for (const f of from) body.push({ k: 'assign', to: f, value: identityOf(of) })
  })
}
