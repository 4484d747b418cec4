/**
 * Moments: what a streaming sum of polynomials in x - d carries beside itself (src/kernel/moments.ts), in registers of each thread.
 * Terms are taken against a mean of x that the thread has met; when that moves the sums move by their Taylor series.
 */

import { foldAxes } from '../../../kernel/folds.ts'
import { keyOf, type Moments, type Polynomial } from '../../../kernel/moments.ts'
import { countedAxes } from '../../../schedule/simt/fold/folds.ts'
import { add, type Block, bin, type Ex, int, lit, mul, neg, select, v } from '../ir/ir.ts'
import { type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import type { Point } from '../nest/point.ts'
import { inside, type Scope } from '../nest/scope.ts'
import { mergeEx, scalarEx } from '../scalar/arith.ts'
import { eachKept, termNumber } from './fold.ts'
import type { Accumulator, Carried, Counts } from './open.ts'
import { declareRunning, makeRunning, type Running, startRunning, termOf, wholeOf } from './running.ts'

export function openCounts(scope: Scope, { dtype, values: { type } }: Accumulator, out: Block): Counts {
  const count = (wish: string): Ex => {
    const name = scope.unit.name(wish)
    out.push({ k: 'var', name, type, value: lit(type, 0) })
    return v(type, name)
  }
  return { met: count(`met_${dtype}`), summed: count(`summed_${dtype}`) }
}

export function openMoments(scope: Scope, acc: Accumulator, moments: Moments, out: Block): Carried {
  const sums = new Map<string, Running>()
  const { unit } = scope
  const levels = acc.running?.levels ?? { copies: 1, closes: [] }
  for (const { of } of moments.products) {
    const registers: Registers = { ...acc.values, name: unit.name(`moment_${acc.let.id}`) }
    const running = makeRunning(registers, 'sum', acc.dtype, levels, (wish) => unit.name(wish))
    declareRunning(running, out)
    sums.set(keyOf({ of }), running)
    eachKept(scope, acc.kept)(out, (i, body) => startRunning(running, i, body))
  }
  return { acc, moments, sums }
}

/** Whether a point lies in the program's range along the axes that a sum folds. */
const isTerm = (p: Point, acc: Accumulator): Ex => inside(p.scope, p.scope.part.spreadOnly(foldAxes(acc.let)), p.lanes)

/** Counts a point, or all of a chunk. */
export function countTerms(acc: Accumulator, { met }: Counts, p: Point, out: Block): void {
  const { scope } = p
  const counted = countedAxes(scope, acc.let)
  const all = scope.registers(scope.part.spreadOnly(foldAxes(acc.let)))
  const terms = counted.length === 0 ? lit(met.type, all) : select(isTerm(p, acc), lit(met.type, 1), lit(met.type, 0))
  out.push({ k: 'assign', to: met, value: add(met, terms) })
}

/** Adds a point's products to their sums. */
export function accumulateMoments({ acc, moments, sums }: Carried, p: Point, out: Block): void {
  const term = isTerm(p, acc)
  for (const { of } of moments.products) {
    const running = sums.get(keyOf({ of }))
    if (running === undefined) continue
    const value = of.map((id) => p.read(id)).reduce(mul)
    const to = termOf(running, registerIndex(p.scope.layout, acc.kept, p.lanes), termNumber(p, acc.let))
    out.push({
      k: 'assign',
      to,
      value: mergeEx('sum', acc.dtype, to, select(term, value, lit(value.type, 0))),
    })
  }
}

/** The mean of what a thread has met. */
export function meanOf(acc: Accumulator, sum: Ex, { met }: Counts): Ex {
  const some = scalarEx('max', acc.dtype, acc.dtype, [met, lit(met.type, 1)], 'fast')
  return scalarEx('div', acc.dtype, acc.dtype, [sum, some], 'fast')
}

/** Moves a sum by `by` to another anchor: with its moments if `whole`, each by those with fewer factors as they were; else for the last time. */
export function moveMoments(p: Point, carried: Carried, summed: Ex, by: Ex, whole: boolean, out: Block): void {
  const { acc, moments, sums } = carried
  const i = registerIndex(p.scope.layout, acc.kept, p.lanes)
  const move = (to: Ex, series: readonly Polynomial[]): void => {
    if (series.length === 0) return
    const coefficients = series.map((of) => inMoments(of, carried, summed, i))
    // c1 by + c2 by^2 + ...: no infinity meets another of the other sign where `by` alone is infinite.
    const far = coefficients.reduceRight((rest, c) => add(c, mul(by, rest)))
    out.push({ k: 'assign', to, value: add(to, mul(by, far)) })
  }
  if (!whole) {
    const to = registerAt(acc.values, i)
    move(to, moments.series)
    const least = lit(to.type, 0)
    if (moments.nonnegative)
      out.push({ k: 'assign', to, value: scalarEx('max', acc.dtype, acc.dtype, [to, least], 'fast') })
    return
  }
  const first = (running: Running | undefined): Ex =>
    running === undefined ? registerAt(acc.values, i) : termOf(running, i, int(0))
  move(first(acc.running), moments.series)
  for (const { of, series } of moments.products) {
    const running = sums.get(keyOf({ of }))
    if (running !== undefined) move(first(running), series)
  }
}

function inMoments(of: Polynomial, { sums }: Carried, summed: Ex, i: Ex): Ex {
  const parts = of.map(({ by, of: product }): Ex => {
    const running = sums.get(keyOf({ of: product }))
    const sum = running === undefined ? summed : wholeOf(running, i)
    return by === 1 ? sum : by === -1 ? neg(sum) : bin('*', sum, lit(sum.type, by))
  })
  return parts.reduce(add)
}
